package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// Bucket is a durable.Shared in an S3 bucket, below a prefix. The service must have conditional writes
// (If-None-Match), which durable.Probe finds out.
type Bucket struct {
	client *minio.Client
	name   string
	prefix string // "" or with a slash at its end
}

var _ durable.Shared = (*Bucket)(nil)

// NewBucket is for s3://bucket/prefix. It asks nothing of the service yet.
func NewBucket(address string, o S3Options) (*Bucket, error) {
	bucket, prefix, err := bucketKey(address)
	if err != nil {
		return nil, err
	}
	client, err := dialS3(o.complete())
	if err != nil {
		return nil, err
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &Bucket{client, bucket, prefix}, nil
}

// Put implements durable.Shared.
func (b *Bucket) Put(ctx context.Context, name string, body []byte) error {
	return b.store(ctx, name, body, minio.PutObjectOptions{})
}

// Create implements durable.Shared.
func (b *Bucket) Create(ctx context.Context, name string, body []byte) error {
	o := minio.PutObjectOptions{}
	o.SetMatchETagExcept("*")
	err := b.store(ctx, name, body, o)
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return errors.Join(fs.ErrExist, err)
	}
	return err
}

func (b *Bucket) store(ctx context.Context, name string, body []byte, o minio.PutObjectOptions) error {
	o.DisableMultipart = true
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(body), int64(len(body)), o)
	return b.fault(name, err)
}

// Get implements durable.Shared.
func (b *Bucket) Get(ctx context.Context, name string) ([]byte, error) {
	in, _, _, err := (minio.Core{Client: b.client}).GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.fault(name, err)
	}
	body, err := io.ReadAll(in)
	return body, b.fault(name, errors.Join(err, in.Close()))
}

// List implements durable.Shared.
func (b *Bucket) List(ctx context.Context, prefix string) (found []durable.Stored, err error) {
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, b.fault(prefix, o.Err)
		}
		found = append(found, durable.Stored{Name: strings.TrimPrefix(o.Key, b.prefix), Modified: o.LastModified})
	}
	slices.SortFunc(found, func(a, b durable.Stored) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Remove implements durable.Shared.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	return b.fault(name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

func (b *Bucket) fault(name string, err error) error {
	if err == nil {
		return nil
	}
	fault := s3Error(err)
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		fault = errors.Join(fs.ErrNotExist, fault)
	}
	if stepwell.CodeOf(fault) == stepwell.CodeNotFound && minio.ToErrorResponse(err).Code == minio.NoSuchBucket {
		fault = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "there is no bucket " + b.name, Hint: "create it", Err: err}
	}
	return about("s3://"+b.name+"/"+b.prefix+name, fault)
}
