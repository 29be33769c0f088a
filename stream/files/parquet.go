package files

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

// eachParquet reads a Parquet file, which needs random access: a remote file is fetched first.
func (p *Places) eachParquet(ctx context.Context, path string, e *emitter) (err error) {
	raw, info, err := p.open(ctx, path, 0)
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := e.sameSize(info); err != nil {
		return err
	}
	f, size := (*os.File)(nil), info.Size
	if local, ok := raw.(*os.File); ok && size >= 0 {
		f = local
	} else {
		if f, size, err = spool(ctx, raw); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	}
	e.count = e.from.Row
	return parquet.Each(ctx, f, size, e.from.Row, func(text []byte, n int64) error {
		e.count = n
		return e.emit(Row{Text: text, Line: n + 1})
	})
}

// spool copies to a temporary file.
func spool(ctx context.Context, in io.Reader) (*os.File, int64, error) {
	f, err := os.CreateTemp("", "stepwell-*.spool")
	if err != nil {
		return nil, 0, err
	}
	n, err := io.Copy(f, durable.Abortable(ctx, in))
	if err != nil {
		return nil, 0, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, n, nil
}
