package parquet

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Options are the options of a Writer.
type Options struct {
	// RowGroup is the number of rows of a row group. Defaults to 20,000. A row group ends earlier when its
	// rows are 128 MiB of text.
	RowGroup int
}

const (
	defaultRowGroup = 20_000
	maxGroupText    = 128 << 20
	batchText       = 1 << 20 // rows are handed to the columns together, this much text or 256 rows of them
	batchRows       = 256
	batchMemory     = 32 << 20 // of the batches on their way to the columns, unless two take more
	pageMemory      = 16 << 20 // of all columns' pages that are being filled
	maxPending      = 4 << 20  // values in those pages, nulls included
	maxDictionary   = 64 << 10 // of a column; beyond, its values are written plainly
)

// Writer writes rows of one schema, compressed with zstd. It is not safe for concurrent use; by itself it uses all
// processors.
type Writer struct {
	out     *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	schema  Schema
	o       Options

	batch   *rows
	pending int // values in open pages
	group   struct {
		rows int
		text int
	}
}

// NewWriter begins a file. Errors: ErrNoColumns, and a schema beyond MaxColumns.
func NewWriter(w io.Writer, s Schema, o Options) (*Writer, error) {
	s = s.clone()
	for _, f := range s {
		f.Type.finish(true)
	}
	batch := newRows(s)
	columns := batch.root.end
	switch {
	case columns == 0:
		return nil, ErrNoColumns
	case columns > MaxColumns:
		return nil, fmt.Errorf("%d columns, more than %d", columns, MaxColumns)
	}
	if o.RowGroup <= 0 {
		o.RowGroup = defaultRowGroup
	}
	zip, err := newCodec()
	if err != nil {
		return nil, err
	}
	page := max(8<<10, min(256<<10, pageMemory/columns))
	out := parquet.NewGenericWriter[any](w, parquet.NewSchema("row", group(s)),
		parquet.Compression(zip), parquet.PageBufferSize(page), parquet.DictionaryMaxBytes(maxDictionary),
		parquet.CreatedBy("stepwell", "", ""), parquet.ColumnPageBuffers(parquet.NewChunkBufferPool(16<<10)))
	return &Writer{out: out, columns: out.ColumnWriters(), schema: s, o: o, batch: batch}, nil
}

// Write adds a row, whose text must not change before Close. A RowError says that the row does not fit; it
// has been left out, and others can follow. Any other error ends the file.
func (w *Writer) Write(row *item.Value) error {
	text := row.Bytes()
	if err := w.batch.add(text); err != nil {
		return err
	}
	if w.batch.last = w.endsGroup(len(text)); w.batch.last || w.batch.n >= batchRows || w.batch.text >= batchText {
		return w.flush(w.batch)
	}
	return nil
}

// writeAll adds rows. Their texts must not change before Close. Batches of them are spread over the
// columns by all processors, and go to the columns in order. Errors are those of each, and of the first row that does
// not fit, with its number.
func (w *Writer) writeAll(ctx context.Context, each func(context.Context, func(text []byte) error) error) error {
	procs := runtime.GOMAXPROCS(0)
	free := make(chan *rows, max(2, min(2*procs, batchMemory/(24*batchRows*len(w.columns)))))
	todo, ordered := make(chan *rows, cap(free)), make(chan *rows, cap(free)) // as many as there are: sending never waits
	for range cap(free) {
		free <- newRows(w.schema)
	}
	g, ctx := errgroup.WithContext(ctx)
	for range procs {
		g.Go(func() error {
			for r := range todo {
				r.err = guarded(r.addWaiting)
				r.spread <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		first := int64(1)
		for r := range ordered {
			<-r.spread
			if r.err != nil {
				return fmt.Errorf("row %d: %w", first+int64(r.n), r.err)
			}
			first += int64(r.n)
			if err := w.flush(r); err != nil {
				return err
			}
			free <- r
		}
		return nil
	})
	g.Go(func() error {
		defer close(todo)
		defer close(ordered)
		var r *rows
		size := 0
		hand := func() {
			todo <- r
			ordered <- r
			r, size = nil, 0
		}
		err := each(ctx, func(text []byte) error {
			if r == nil {
				select {
				case r = <-free:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			r.waiting = append(r.waiting, text)
			size += len(text)
			if r.last = w.endsGroup(len(text)); r.last || len(r.waiting) >= batchRows || size >= batchText {
				hand()
			}
			return nil
		})
		if err == nil && r != nil {
			hand()
		}
		return err
	})
	return g.Wait()
}

// guarded makes an error of a panic, which would end the process in a goroutine of ours.
func guarded(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("writing a Parquet file: %v\n%s", cause, debug.Stack())}
		}
	}()
	return f()
}

// endsGroup counts a row, and reports whether it is the last of its row group.
func (w *Writer) endsGroup(text int) bool {
	w.group.rows++
	w.group.text += text
	if w.group.rows < w.o.RowGroup && w.group.text < maxGroupText {
		return false
	}
	w.group.rows, w.group.text = 0, 0
	return true
}

// SetMetadata adds key/value metadata, until Close.
func (w *Writer) SetMetadata(key, value string) { w.out.SetKeyValueMetadata(key, value) }

// Close writes the remaining rows and the footer. It does not close the io.Writer.
func (w *Writer) Close() error {
	if err := w.flush(w.batch); err != nil {
		return err
	}
	if err := w.eachColumn(w.flushColumn); err != nil {
		return err
	}
	return w.out.Close()
}

// flush hands rows to the columns.
func (w *Writer) flush(r *rows) error {
	err := w.eachColumn(func(i int) error {
		if len(r.values[i]) == 0 {
			return nil
		}
		_, err := w.columns[i].WriteRowValues(r.values[i])
		return err
	})
	if err != nil {
		return err
	}
	for _, values := range r.values {
		w.pending += len(values)
	}
	last := r.last
	r.reset()
	switch {
	case last:
		w.pending = 0
		if err := w.eachColumn(w.flushColumn); err != nil {
			return err
		}
		return w.out.Flush()
	case w.pending >= maxPending: // columns of nulls never fill a page by themselves
		w.pending = 0
		return w.eachColumn(w.flushColumn)
	}
	return nil
}

func (w *Writer) flushColumn(i int) error { return w.columns[i].Flush() }

// columnsAtOnce are handled by one goroutine before it asks for more.
const columnsAtOnce = 16

// eachColumn calls f for each column, on all processors: ColumnWriters encode and compress independently.
func (w *Writer) eachColumn(f func(i int) error) error {
	var g errgroup.Group
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), (len(w.columns)+columnsAtOnce-1)/columnsAtOnce) {
		g.Go(func() error {
			return guarded(func() error {
				for {
					first := int(next.Add(columnsAtOnce)) - columnsAtOnce
					if first >= len(w.columns) {
						return nil
					}
					for i := first; i < min(first+columnsAtOnce, len(w.columns)); i++ {
						if err := f(i); err != nil {
							return err
						}
					}
				}
			})
		})
	}
	return g.Wait()
}
