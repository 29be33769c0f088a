package ingest

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// each gives the rows of a file. Those of stac-geoparquet become items again, those of other GeoParquet files
// Features; the rows of a plain Parquet file are taken as they are.
func (f *fileSource) each(ctx context.Context, path string, from *files.Position, row func(files.Row) error) error {
	if !f.isParquet(path) {
		return f.places.Each(ctx, path, f.shape, from, row)
	}
	in, size, done, err := f.local(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	items, err := geoparquet.Is(in, size)
	if err != nil {
		return err
	}
	rows := 0
	err = geoparquet.Each(ctx, in, size, from.Row, func(text []byte, n int64) error {
		rows++
		return row(files.Row{Text: text, Line: n + 1, Next: files.Position{Row: n + 1, Size: size}})
	})
	if !items && rows == 0 && stepwell.CodeOf(err) == stepwell.CodeInvalid { // no geometry column
		return f.places.Each(ctx, path, f.shape, from, row)
	}
	return err
}

func (f *fileSource) isParquet(path string) bool {
	if f.s.Format == "parquet" {
		return true
	}
	name, _, _ := strings.Cut(strings.ToLower(path), "?")
	return f.s.Format != "ndjson" && f.s.Format != "geojson" && (strings.HasSuffix(name, ".parquet") || strings.HasSuffix(name, ".geoparquet") || strings.HasSuffix(name, ".pq"))
}

// local makes a file readable at any offset; a remote one is fetched first.
func (f *fileSource) local(ctx context.Context, path string) (in *os.File, size int64, done func(), err error) {
	raw, info, err := f.places.OpenRaw(ctx, path)
	if err != nil {
		return nil, 0, nil, err
	}
	if file, ok := raw.(*os.File); ok && info.Size >= 0 {
		return file, info.Size, func() { file.Close() }, nil //nolint:errcheck // it was only read
	}
	defer raw.Close() // nolint:errcheck // read errors have been reported
	spool, err := os.CreateTemp(f.env.Data, "parquet-*.spool")
	if err != nil {
		return nil, 0, nil, err
	}
	done = func() {
		spool.Close()           //nolint:errcheck // it goes
		os.Remove(spool.Name()) //nolint:errcheck // the segment's directory goes as well
	}
	if size, err = io.Copy(spool, durable.Abortable(ctx, raw)); err != nil {
		done()
		return nil, 0, nil, err
	}
	return spool, size, done, nil
}
