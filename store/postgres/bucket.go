package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// bucket holds the bodies of blobs in an S3 service: aa/<hash>-<suffix>, where aa is how the hash begins.
type bucket struct {
	client *minio.Client
	name   string
	prefix string // "" or with a slash at its end
}

// openBucket is for s3://bucket/prefix. The service and the credentials are those of the environment, as the tools of Amazon
// take them.
func openBucket(address string) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(address, "s3://"), "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	endpoint, secure := "s3.amazonaws.com", true
	for _, variable := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		if given := os.Getenv(variable); given != "" {
			u, err := url.Parse(given)
			if err != nil || u.Host == "" {
				return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: variable + " is not a URL", Hint: "https://s3.example.org:9000"}
			}
			endpoint, secure = u.Host, u.Scheme != "http"
		}
	}
	region := os.Getenv("AWS_REGION")
	if region == "" {
		region = os.Getenv("AWS_DEFAULT_REGION")
	}
	client, err := minio.New(endpoint, &minio.Options{Secure: secure, Region: region,
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})})
	if err != nil || name == "" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%q names no bucket", address), Hint: "blobs=s3://bucket/folder", Err: err}
	}
	return &bucket{client: client, name: name, prefix: prefix}, nil
}

func (b *bucket) key(name string) string { return b.prefix + name[:2] + "/" + name }

func (b *bucket) put(ctx context.Context, name string, v []byte) error {
	_, err := b.client.PutObject(ctx, b.name, b.key(name), bytes.NewReader(v), int64(len(v)), minio.PutObjectOptions{})
	return bucketFault("store a blob", err)
}

func (b *bucket) get(ctx context.Context, name string, into []byte) ([]byte, error) {
	o, err := b.client.GetObject(ctx, b.name, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, bucketFault("read a blob", err)
	}
	v := bytes.NewBuffer(into[:0])
	_, err = v.ReadFrom(io.LimitReader(o, maxBlob+1))
	if err = errors.Join(err, o.Close()); minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, notFound("the blob %s is not in the bucket %s", name, b.name)
	}
	return v.Bytes(), bucketFault("read a blob", err)
}

// place is a name of the bucket's folder. Whoever asks first gives it one.
func (b *bucket) place(ctx context.Context) (string, error) {
	read := func() (string, error) {
		o, err := b.client.GetObject(ctx, b.name, b.prefix+"place", minio.GetObjectOptions{})
		if err != nil {
			return "", err
		}
		raw, err := io.ReadAll(io.LimitReader(o, 1000))
		return "bucket " + string(raw), errors.Join(err, o.Close())
	}
	name, err := read()
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		fresh := rand.Text()
		if _, err = b.client.PutObject(ctx, b.name, b.prefix+"place", strings.NewReader(fresh), int64(len(fresh)), minio.PutObjectOptions{}); err == nil {
			name, err = read() // of the one who was last
		}
	}
	return name, bucketFault("read the name of the bucket's folder", err)
}

// remove removes an object. A missing one is no error.
func (b *bucket) remove(ctx context.Context, name string) error {
	return bucketFault("remove a blob", b.client.RemoveObject(ctx, b.name, b.key(name), minio.RemoveObjectOptions{}))
}

// old gives the names of a part's objects that were stored before a time, some at once.
func (b *bucket) old(ctx context.Context, part string, before time.Time, f func(names []string) error) error {
	var names []string
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + part + "/", Recursive: true}) {
		if o.Err != nil {
			return bucketFault("list blobs", o.Err)
		}
		if name := o.Key[strings.LastIndexByte(o.Key, '/')+1:]; o.LastModified.Before(before) && objectName(name) {
			names = append(names, name)
		}
		if len(names) == sweepPage {
			if err := f(names); err != nil {
				return err
			}
			names = nil
		}
	}
	if len(names) == 0 {
		return nil
	}
	return f(names)
}

// objectName reports whether a name is one that insert has given.
func objectName(name string) bool {
	hash, _, ok := strings.Cut(name, "-")
	return ok && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
}

func bucketFault(op string, err error) error {
	if err == nil {
		return nil
	}
	return store.Away(op, "the bucket of the blobs cannot be used", "check the S3 service and its credentials", err)
}
