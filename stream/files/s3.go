package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// S3Options say how to reach an S3 service. Empty fields are taken from the environment, as the tools of
// Amazon do.
type S3Options struct {
	Endpoint  string `json:"endpoint"` // host[:port] or URL. Defaults to AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then Amazon's
	Region    string `json:"region"`   // Defaults to AWS_REGION, AWS_DEFAULT_REGION, then us-east-1
	AccessKey string // Defaults to AWS_ACCESS_KEY_ID; without one, requests are anonymous
	SecretKey string // Defaults to AWS_SECRET_ACCESS_KEY
	Token     string // Defaults to AWS_SESSION_TOKEN
	Anonymous bool   `json:"anonymous"` // use no credentials, even if the environment has some. Defaults to false
	Plain     bool   // http instead of https. Defaults to false, or the scheme of a URL in Endpoint
}

const amazon = "s3.amazonaws.com"

// complete fills in the settings of the environment.
func (o S3Options) complete() S3Options {
	first := func(given string, names ...string) string {
		for _, name := range names {
			if given == "" {
				given = os.Getenv(name)
			}
		}
		return given
	}
	o.Endpoint = first(o.Endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	o.Region = first(o.Region, "AWS_REGION", "AWS_DEFAULT_REGION")
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.AccessKey == "" { // a pair is taken as a whole
		o.AccessKey, o.SecretKey, o.Token = first("", "AWS_ACCESS_KEY_ID"), first("", "AWS_SECRET_ACCESS_KEY"), first("", "AWS_SESSION_TOKEN")
	}
	return o
}

// bucketClient is made when it is first used.
type bucketClient struct {
	options S3Options
	once    sync.Once
	client  *minio.Client
	err     error
}

func (b *bucketClient) open() (*minio.Client, error) {
	b.once.Do(func() { b.client, b.err = dialS3(b.options.complete()) })
	return b.client, b.err
}

func dialS3(o S3Options) (*minio.Client, error) {
	bad := func(what string) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "S3: " + what, Hint: "write the endpoint like s3.example.org or https://s3.example.org:9000"}
	}
	if o.Endpoint == "" {
		o.Endpoint = amazon
	}
	if strings.Contains(o.Endpoint, "://") {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return nil, bad("the endpoint is not valid")
		}
		o.Endpoint, o.Plain = u.Host, u.Scheme == "http"
	}
	creds := credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.Token)
	if o.Anonymous || o.AccessKey == "" {
		creds = credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	}
	lookup := minio.BucketLookupPath
	if strings.HasSuffix(o.Endpoint, "amazonaws.com") {
		lookup = minio.BucketLookupAuto
	}
	c, err := minio.New(o.Endpoint, &minio.Options{Creds: creds, Secure: !o.Plain, Region: o.Region, BucketLookup: lookup, MaxRetries: maxTries})
	if err != nil {
		return nil, bad(err.Error())
	}
	return c, nil
}

// bucketOf is the client for an s3:// path, and the path cut.
func (p *Places) bucketOf(path string) (client *minio.Client, bucket, key string, err error) {
	if client, err = p.s3.open(); err == nil {
		bucket, key, err = bucketKey(path)
	}
	return client, bucket, key, err
}

// bucketKey cuts an s3:// path.
func bucketKey(p string) (bucket, key string, err error) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(p, "s3://"), "/")
	if bucket == "" {
		return "", "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: p + " names no bucket", Hint: "write s3://bucket/key"}
	}
	return bucket, key, nil
}

func (p *Places) listS3(ctx context.Context, pattern string) ([]string, error) {
	client, bucket, key, err := p.bucketOf(pattern)
	if err != nil {
		return nil, err
	}
	if key != "" && !strings.HasSuffix(key, "/") && !hasMeta(key) {
		return []string{pattern}, nil
	}
	if key == "" || strings.HasSuffix(key, "/") {
		key += "*"
	}
	segments := strings.Split(key, "/")
	if err := goodPattern(segments); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing when there is too much
	var found []string
	prefix := key[:strings.IndexAny(key, "*?[")]
	for o := range client.ListObjectsIter(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: strings.Contains(key[len(prefix):], "/") || strings.Contains(key, "**")}) {
		if o.Err != nil {
			return nil, about(pattern, s3Error(o.Err))
		}
		if strings.HasSuffix(o.Key, "/") || !matchPath(segments, strings.Split(o.Key, "/")) {
			continue
		}
		if len(found) == maxListed {
			return nil, tooMany()
		}
		found = append(found, "s3://"+bucket+"/"+o.Key)
	}
	return found, nil
}

func (p *Places) openS3(ctx context.Context, name string, offset int64) (io.ReadCloser, Info, error) {
	client, bucket, key, err := p.bucketOf(name)
	if err != nil {
		return nil, Info{}, err
	}
	stat, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, Info{}, s3Error(err)
	}
	if offset > 0 && offset >= stat.Size {
		return nil, Info{}, errChanged("byte %d: now it has only %d", offset, stat.Size)
	}
	core := minio.Core{Client: client}
	r, err := resume(ctx, offset, func(at int64) (io.ReadCloser, bool, time.Duration, error) {
		var o minio.GetObjectOptions
		if err := o.SetMatchETag(stat.ETag); err != nil {
			return nil, false, 0, err
		}
		if at > 0 {
			if err := o.SetRange(at, stat.Size-1); err != nil {
				return nil, false, 0, err
			}
		}
		in, _, _, err := core.GetObject(ctx, bucket, key, o)
		if err != nil {
			return nil, false, 0, s3Error(err) // the client has tried again by itself
		}
		return &object{ReadCloser: in, left: stat.Size - at}, false, 0, nil
	})
	if err != nil {
		return nil, Info{}, err
	}
	return r, Info{Size: stat.Size, ModTime: stat.LastModified}, nil
}

// object reads an S3 object that can be asked for again when the connection breaks.
type object struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	if o.left == 0 {
		return 0, io.EOF
	}
	n, err := o.ReadCloser.Read(p)
	if o.left -= int64(n); o.left == 0 && err != nil {
		return n, io.EOF
	}
	if err == io.EOF { //nolint:errorlint // bare
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = &brokenOff{err}
	}
	return n, err
}

// brokenOff is a connection that ended before the body did.
type brokenOff struct{ err error }

func (b *brokenOff) Error() string { return "the connection broke: " + b.err.Error() }

// s3Error gives an error of the service its code and hint.
func s3Error(err error) error {
	r := minio.ToErrorResponse(err)
	e := &stepwell.Error{Code: stepwell.CodeFailed, Message: "S3", Err: err}
	switch {
	case r.Code == minio.NoSuchKey, r.Code == minio.NoSuchBucket, r.StatusCode == http.StatusNotFound:
		e.Code = stepwell.CodeNotFound
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized:
		e.Code, e.Hint = stepwell.CodeInvalid, "the credentials (AWS_ACCESS_KEY_ID …) are missing, wrong or do not reach this far"
	case r.StatusCode == http.StatusPreconditionFailed:
		e.Code = stepwell.CodeConflict
	case r.StatusCode >= 500, r.StatusCode == http.StatusTooManyRequests, r.StatusCode == 0:
		e.Code = stepwell.CodeUnavailable
	}
	return e
}

// hasBucket looks whether there is a bucket for a path. A service that does not say is given the benefit
// of the doubt.
func (p *Places) hasBucket(ctx context.Context, name string) error {
	client, bucket, _, err := p.bucketOf(name)
	if err != nil {
		return err
	}
	ok, err := client.BucketExists(ctx, bucket)
	if err != nil && minio.ToErrorResponse(err).StatusCode == http.StatusForbidden {
		return nil
	}
	if err != nil {
		return about(name, s3Error(err))
	}
	if !ok {
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: name + ": there is no bucket of that name"}
	}
	return nil
}

// upload puts a local file into a bucket and makes sure that all of it arrived. Large files go in parts; they
// appear when the last has arrived.
func (p *Places) upload(ctx context.Context, local, dest string, over *version) error {
	client, bucket, key, err := p.bucketOf(dest)
	if err != nil {
		return err
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "it names no object"}
	}
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	options := minio.PutObjectOptions{ContentType: contentType(key), NumThreads: 2}
	if over != nil {
		return p.uploadOver(ctx, local, dest, over, options)
	}
	_, err = client.FPutObject(ctx, bucket, key, local, options)
	if err != nil {
		clean := context.WithoutCancel(ctx)
		return errors.Join(s3Error(err), removeParts(clean, client, bucket, key))
	}
	return arrived(ctx, client, bucket, key, info.Size())
}

// removeObject deletes an object and reports whether it existed.
func (p *Places) removeObject(ctx context.Context, dest string) (was bool, err error) {
	client, bucket, key, err := p.bucketOf(dest)
	if err != nil {
		return false, err
	}
	if _, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{}); err != nil {
		if err = s3Error(err); stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return false, nil
		}
		return false, err
	}
	if err := client.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{}); err != nil {
		return false, s3Error(err)
	}
	return true, nil
}

// removeParts deletes the parts of a failed upload, which would cost money.
func removeParts(ctx context.Context, client *minio.Client, bucket, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.RemoveIncompleteUpload(ctx, bucket, key); err != nil && minio.ToErrorResponse(err).Code != "NoSuchUpload" {
		return fmt.Errorf("remove the parts that were sent: %w", err)
	}
	return nil
}

func contentType(key string) string {
	switch CompressionOf(key) {
	case durable.Gzip:
		return "application/gzip"
	case durable.Zstd:
		return "application/zstd"
	}
	switch formatOf(path.Base(key)) {
	case formatJSON:
		return "application/json"
	case formatGeoJSON:
		return "application/geo+json"
	case formatNDJSON:
		return "application/x-ndjson"
	case formatCSV:
		return "text/csv; charset=utf-8"
	case formatTSV:
		return "text/tab-separated-values; charset=utf-8"
	case formatParquet:
		return "application/vnd.apache.parquet"
	}
	return "application/octet-stream"
}
