package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/minio/minio-go/v7"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

var _ durable.Versions = (*Places)(nil)

// version is the condition of an upload: the ETag that the object has, "" for none, and the mark that it gets.
type version struct{ tag, mark string }

// markName is the name of a mark in the metadata of an object.
const markName = "Stepwell-Mark"

// partSize is that of the parts of a large object, and the size up to which an object is not large.
const partSize = 64 << 20

// Version implements durable.Versions for s3:// paths; local files have none.
func (p *Places) Version(ctx context.Context, path string) (v durable.Version, err error) {
	if !isS3(path) {
		return v, nil
	}
	client, bucket, key, err := p.bucketOf(path)
	if err != nil {
		return v, about(path, err)
	}
	stat, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err == nil {
		return durable.Version{Tag: stat.ETag, Mark: stat.UserMetadata[markName]}, nil
	}
	if err = s3Error(err); stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return v, nil
	}
	return v, about(path, err)
}

// PublishOver implements durable.Versions. Local files are published as with Publish.
func (p *Places) PublishOver(ctx context.Context, local, dest, tag, mark string) error {
	err := p.publish(ctx, local, dest, &version{tag, mark})
	if stepwell.CodeOf(err) == stepwell.CodeConflict && isS3(dest) {
		now, verr := p.Version(ctx, dest)
		if verr == nil && now.Mark == mark {
			return os.Remove(local)
		}
		err = errors.Join(&stepwell.Error{Code: stepwell.CodeConflict, Message: "it was changed while this run was about to publish it",
			Hint: "run the step again: it looks at what is there now"}, verr)
	}
	if err != nil {
		return about(dest, err)
	}
	return nil
}

// uploadOver is upload on a condition. The parts of a large object appear with the request that ends them, which has the
// condition.
func (p *Places) uploadOver(ctx context.Context, local, dest string, over *version, o minio.PutObjectOptions) error {
	client, bucket, key, err := p.bucketOf(dest)
	if err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	o.UserMetadata = map[string]string{markName: over.mark}
	condition := minio.PutObjectOptions{}
	for _, c := range []*minio.PutObjectOptions{&condition, &o} {
		if over.tag == "" {
			c.SetMatchETagExcept("*")
		} else {
			c.SetMatchETag(over.tag)
		}
	}
	if info.Size() <= partSize {
		o.DisableMultipart = true
		_, err = client.PutObject(ctx, bucket, key, f, info.Size(), o)
		err = s3ErrorOf(err)
	} else {
		plain := minio.PutObjectOptions{ContentType: o.ContentType, UserMetadata: o.UserMetadata}
		err = uploadParts(ctx, minio.Core{Client: client}, bucket, key, f, info.Size(), plain, condition)
	}
	if err != nil {
		return err
	}
	return arrived(ctx, client, bucket, key, info.Size())
}

// arrived checks that all of an object is there.
func arrived(ctx context.Context, client *minio.Client, bucket, key string, size int64) error {
	stat, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return s3Error(err)
	}
	if stat.Size != size {
		return &stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("%d bytes were sent, %d arrived", size, stat.Size)}
	}
	return nil
}

func s3ErrorOf(err error) error {
	if err == nil {
		return nil
	}
	return s3Error(err)
}

// uploadParts sends a file part by part. After an error none of them stays.
func uploadParts(ctx context.Context, core minio.Core, bucket, key string, f *os.File, size int64, o, end minio.PutObjectOptions) error {
	id, err := core.NewMultipartUpload(ctx, bucket, key, o)
	if err != nil {
		return s3Error(err)
	}
	var parts []minio.CompletePart
	step := max(partSize, size/9999+1) // a service takes 10,000 parts
	for at := int64(0); at < size && err == nil; at += step {
		var sent minio.ObjectPart
		n := min(step, size-at)
		sent, err = core.PutObjectPart(ctx, bucket, key, id, len(parts)+1, io.NewSectionReader(f, at, n), n, minio.PutObjectPartOptions{})
		parts = append(parts, minio.CompletePart{PartNumber: sent.PartNumber, ETag: sent.ETag})
	}
	if err == nil {
		_, err = core.CompleteMultipartUpload(ctx, bucket, key, id, parts, end)
	}
	if err == nil {
		return nil
	}
	return errors.Join(s3Error(err), s3ErrorOf(core.AbortMultipartUpload(context.WithoutCancel(ctx), bucket, key, id)))
}
