// Package files reads and writes the files of item streams wherever they are: local paths, globs, S3
// objects, https URLs; and the formats in them: JSON, NDJSON, GeoJSON, CSV, TSV, Parquet, as they are or
// compressed. It holds the modules stream.read and stream.write.
//
// Reading streams: no file is held in memory, a row is bounded, and a row that is wrong does not end the file where its
// format has a next row to go on with. What is written appears under its name only when it is complete (specifications:
// semantics §6, stac-and-media §2 and §4). The exported names are stable.
package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stream/durable"
)

// Options configure the access to remote files.
type Options struct {
	// HTTP reads https:// URLs. Defaults to none: such paths are refused.
	HTTP *outbound.Client
	// S3 configures s3:// paths. Defaults to the environment (AWS_*).
	S3 S3Options
	// Admit is CodeDenied when a local file may not be opened. Defaults to all.
	Admit func(path string) error
}

// Places opens, lists and publishes files by path. It is used by many goroutines.
type Places struct {
	http  *outbound.Client
	s3    *bucketClient
	locks durable.Locks
	admit func(path string) error
}

// Info is known about a file before it is read. Size is that on the disk or the wire, -1 when unknown; ModTime may be
// zero.
type Info struct {
	Size    int64
	ModTime time.Time
}

// New makes a Places.
func New(o Options) *Places {
	return &Places{http: o.HTTP, s3: &bucketClient{options: o.S3}, admit: o.Admit}
}

// Open opens a file for reading from its beginning. Gzip and zstd, recognised by their first bytes, are decompressed; a
// compressed text that is cut off ends with io.ErrUnexpectedEOF.
func (p *Places) Open(ctx context.Context, path string) (io.ReadCloser, Info, error) {
	raw, info, err := p.OpenRaw(ctx, path)
	if err != nil {
		return nil, Info{}, err
	}
	in, _, err := unpack(raw, path)
	if err != nil {
		return nil, Info{}, about(path, errors.Join(err, raw.Close()))
	}
	return &closing{in, func() error { return errors.Join(in.Close(), raw.Close()) }}, info, nil
}

// OpenRaw opens a file for reading as it is.
func (p *Places) OpenRaw(ctx context.Context, path string) (io.ReadCloser, Info, error) {
	raw, info, err := p.open(ctx, path, 0)
	if err != nil {
		return nil, Info{}, about(path, err)
	}
	return raw, info, nil
}

// closing is a reader that is closed by a function.
type closing struct {
	io.Reader
	close func() error
}

// Close implements io.Closer.
func (c *closing) Close() error { return c.close() }

// open opens a file at an offset.
func (p *Places) open(ctx context.Context, path string, offset int64) (io.ReadCloser, Info, error) {
	if err := supported(path); err != nil {
		return nil, Info{}, err
	}
	switch {
	case isWeb(path):
		return p.openWeb(ctx, path, offset)
	case isS3(path):
		return p.openS3(ctx, path, offset)
	}
	if p.admit != nil {
		if err := p.admit(path); err != nil {
			return nil, Info{}, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Info{}, diskError(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "it is a directory"}
	}
	if err == nil && offset > 0 {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, Info{}, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return f, Info{Size: -1}, nil // a pipe
	}
	return f, Info{Size: info.Size(), ModTime: info.ModTime()}, nil
}

// diskError gives an error of the disk its code; the path is in the text around it.
func diskError(err error) error {
	code := stepwell.CodeFailed
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = stepwell.CodeNotFound
	case errors.Is(err, fs.ErrPermission):
		code = stepwell.CodeInvalid
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &stepwell.Error{Code: code, Err: err}
}

func isWeb(path string) bool {
	return strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://")
}

func isS3(path string) bool { return strings.HasPrefix(path, "s3://") }

// supported refuses URLs that nothing here can open.
func supported(path string) error {
	scheme, _, ok := strings.Cut(path, "://")
	if !ok || strings.ContainsAny(scheme, `/\`) || isWeb(path) || isS3(path) {
		return nil
	}
	e := &stepwell.Error{Code: stepwell.CodeInvalid, Message: path + ": " + scheme + ":// is not supported",
		Hint: "use a local path, s3:// or https://"}
	switch scheme {
	case "gs":
		e.Hint = "use s3:// with the endpoint storage.googleapis.com, or https://storage.googleapis.com/<bucket>/<object>"
	case "file":
		e.Hint = "write the path alone"
	}
	return e
}

// shown is a path for people: a URL without user and query, where secrets are.
func shown(path string) string {
	if !isWeb(path) {
		return path
	}
	u, err := url.Parse(path)
	if err != nil {
		return "the URL"
	}
	u.User = nil
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}
