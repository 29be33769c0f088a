package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/minio/minio-go/v7"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Sought is an item that is looked for in a file.
type Sought struct {
	ID, Collection string
	Line           int64 // where it is; 0: not known. What else the line has is not it
	MaxBytes       int64 // longer ones are passed over
}

// errEnds ends the reading of a file.
var errEnds = errors.New("it has been found")

// mostFetched bounds a Parquet file in S3, which is fetched whole to be read.
const mostFetched = 64 << 20

// Find reads a local file, or an object in S3, for the first row with the id, and the collection where both have one, and says in which line it
// begins (of Parquet: its number). The time is bounded by the context. The error is CodeNotFound when no row is it,
// CodeInvalid for a URL, and CodeLimit for a Parquet file in S3 of more than 64 MiB.
func (p *Places) Find(ctx context.Context, path string, q Sought) (found json.RawMessage, line int64, err error) {
	shape := Shape{Format: formatAuto, MaxItem: q.MaxBytes}
	if err := p.seekable(ctx, path, shape); err != nil {
		return nil, 0, err
	}
	rows, long := 0, 0
	err = p.Each(ctx, path, shape, nil, func(r Row) error {
		rows++
		switch {
		case stepwell.CodeOf(r.Err) == stepwell.CodeLimit:
			long++
			return nil
		case r.Err != nil || r.Line < q.Line: // a row that is no good is nobody's item
			return nil
		case q.Line > 0 && r.Line > q.Line:
			return errEnds
		}
		if v, err := item.Parse(r.Text); err == nil && q.is(v) {
			found, line = r.Text, r.Line
			return errEnds
		}
		return nil
	})
	if err == errEnds { //nolint:errorlint // ours
		err = nil
	}
	switch {
	case found != nil || err != nil:
		return found, line, err
	case long > 0:
		return nil, 0, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("%s does not have it, or it is one of %d that are longer than %d bytes", path, long, q.MaxBytes)}
	case q.Line > 0:
		return nil, 0, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("line %d of %s has another item now", q.Line, path)}
	}
	return nil, 0, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("none of the %d items in %s is it", rows, path)}
}

// seekable refuses files that reading would take too much of.
func (p *Places) seekable(ctx context.Context, path string, shape Shape) error {
	switch {
	case isWeb(path):
		return stepwell.Invalid("", "%s is behind a URL, which is not asked for one item", shown(path))
	case isS3(path):
		if shape.complete(path).Format != formatParquet {
			return nil
		}
		client, bucket, key, err := p.bucketOf(path)
		if err != nil {
			return about(path, err)
		}
		stat, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
		switch {
		case err != nil:
			return about(path, s3Error(err))
		case stat.Size > mostFetched:
			return stepwell.Errorf(stepwell.CodeLimit, "", "%s has %d bytes: Parquet in S3 is fetched whole, which is not done for more than %d", path, stat.Size, mostFetched)
		}
		return nil
	}
	if p.admit != nil {
		if err := p.admit(path); err != nil {
			return err
		}
	}
	if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() { // what is not there is told when it is read
		return stepwell.Invalid("", "%s is no file: reading it might wait for ever", shown(path))
	}
	return nil
}

func (q *Sought) is(v *item.Value) bool {
	text := func(name string) string {
		of := v.Get(name)
		if s, ok := of.Str(); ok {
			return s
		}
		if of.Kind() == item.Number {
			return string(of.Bytes())
		}
		return ""
	}
	if text("id") != q.ID {
		return false
	}
	c := text("collection")
	return c == "" || q.Collection == "" || c == q.Collection
}
