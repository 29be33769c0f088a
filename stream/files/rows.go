package files

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

// rowFormat is how durable files hold rows in one of the formats.
type rowFormat struct {
	places *Places
	target *target
}

// Encoder implements durable.Format.
func (f rowFormat) Encoder(columns []string) durable.Encoder { return newEncoder(*f.target, columns) }

// shape is how the files are read again. Cells stay texts, so that no number changes.
func (f rowFormat) shape(format string) Shape {
	s := Shape{Format: format, Encoding: "utf-8", MaxItem: 1 << 40}
	if format == formatCSV || format == formatTSV {
		s.AllText, s.Delimiter = true, string(f.target.delimiter)
	}
	return s
}

// Rows implements durable.Format.
func (f rowFormat) Rows(ctx context.Context, path string, row func(*item.Value) error) error {
	s := f.shape(f.target.format)
	return f.places.Each(ctx, path, s, nil, func(r Row) error {
		if r.Err != nil {
			return r.Err
		}
		v, err := item.Parse(r.Text)
		if err != nil {
			return err
		}
		if s.AllText {
			v = withoutEmpty(v)
		}
		return row(v)
	})
}

// withoutEmpty turns empty cells into null, as readers do.
func withoutEmpty(row *item.Value) *item.Value {
	for _, v := range row.Members() {
		if s, ok := v.Str(); ok && s == "" {
			v.Replace(nil)
		}
	}
	return row
}

// Joined implements durable.Format.
func (f rowFormat) Joined(ctx context.Context, path string, columns []string) ([]string, error) {
	if f.target.format != formatCSV && f.target.format != formatTSV {
		return nil, nil
	}
	all, err := f.header(ctx, path)
	for _, c := range columns {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all, err
}

// header is the first row of a table.
func (f rowFormat) header(ctx context.Context, path string) (columns []string, err error) {
	s := f.shape(f.target.format)
	s.Header = new(bool)
	err = f.places.Each(ctx, path, s, nil, func(r Row) error {
		if r.Err != nil {
			return r.Err
		}
		v, err := item.Parse(r.Text)
		if err != nil {
			return err
		}
		for _, cell := range v.Members() {
			name, _ := cell.Str() // AllText
			columns = append(columns, name)
		}
		return errEnough
	})
	if err == errEnough { //nolint:errorlint // ours
		err = nil
	}
	return columns, err
}

// Count is the number of rows of a finished file; ok is false for a remote file, which is not read for that.
func (p *Places) Count(ctx context.Context, path string, s Shape) (n int64, ok bool, err error) {
	if isS3(path) || isWeb(path) {
		return 0, false, nil
	}
	switch s.Format {
	case formatParquet:
		n, _, err = parquet.Describe(path)
		return n, true, err
	case formatNDJSON:
		return p.countLines(ctx, path)
	}
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return 0, true, nil
	}
	err = p.Each(ctx, path, s, nil, func(r Row) error {
		n++
		return r.Err
	})
	return n, true, err
}

func (p *Places) countLines(ctx context.Context, path string) (n int64, ok bool, err error) {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return 0, true, nil
	}
	in, _, err := p.Open(ctx, path)
	if err != nil {
		return 0, true, err
	}
	defer in.Close()
	n, whole, err := durable.Count(durable.Abortable(ctx, in))
	if err == nil && !whole {
		err = &stepwell.Error{Code: stepwell.CodeFailed, Message: shown(path) + ": the last line has no end"}
	}
	return n, true, err
}

// OpenFile implements durable.Places.
func (p *Places) OpenFile(ctx context.Context, path string) (io.ReadCloser, int64, error) {
	in, info, err := p.OpenRaw(ctx, path)
	return in, info.Size, err
}
