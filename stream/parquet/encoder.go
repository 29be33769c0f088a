package parquet

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// EncoderOptions are the options of an Encoder.
type EncoderOptions struct {
	// Writer are those of the file.
	Writer Options
	// Conflict handles a column whose rows disagree. Defaults to Refuse.
	Conflict Conflict
	// Base are columns that are known already; they come first. A Timestamp among them is how a column of
	// RFC 3339 texts becomes one.
	Base Schema
	// FirstN takes the schema from the first n rows; rows that do not fit it are refused from then on.
	// Defaults to 0: from all rows.
	FirstN int64
	// Fixed takes Base for the whole schema.
	Fixed bool
	// Convert makes the row to write of a value, which it must not change. Defaults to the value itself.
	Convert func(*item.Value) (*item.Value, error)
	// Seen is called for every row that has been taken, also for those of Learn. Defaults to nothing.
	Seen func(row *item.Value)
	// Finish may change the schema before the file is written.
	Finish func(Schema) Schema
	// Metadata is asked for key/value metadata when all rows have been written. Defaults to none.
	Metadata func() (map[string]string, error)
}

// Encoder writes rows whose schema is known only when the last has come: the durable.Maker of Parquet files, which have
// their columns in front and their index at the end, and so cannot grow. Not for several goroutines.
type Encoder struct {
	o     EncoderOptions
	union *Union
	n     int64
}

// NewEncoder makes the Encoder of one file.
func NewEncoder(o EncoderOptions) *Encoder {
	e := &Encoder{o: o, union: NewUnion(o.Base, o.Conflict)}
	if o.Fixed {
		e.union.Freeze()
	}
	return e
}

// Schema are the columns of the rows so far. It must not be changed.
func (e *Encoder) Schema() Schema { return e.union.root.Fields }

// Begin implements durable.Encoder: nothing stands before the rows of a spool.
func (e *Encoder) Begin(dst []byte) ([]byte, error) { return dst, nil }

// End implements durable.Encoder.
func (e *Encoder) End(dst []byte, _ int64) []byte { return dst }

// Columns implements durable.Encoder: they are those of the rows.
func (e *Encoder) Columns() []string { return nil }

// Row implements durable.Encoder: a row as a line. A RowError, or the error of EncoderOptions.Convert, says that it does not
// fit and is left out.
func (e *Encoder) Row(dst []byte, row *item.Value, _ int64) ([]byte, error) {
	if e.o.Convert != nil {
		var err error
		if row, err = e.o.Convert(row); err != nil {
			return dst, err
		}
	}
	start := len(dst)
	dst = row.AppendLine(dst) // not Bytes: a row of Convert may share its insides with the value
	if err := e.union.add(row, dst[start:len(dst)-1]); err != nil {
		return dst[:start], err
	}
	e.taken(row)
	return dst, nil
}

// Learn implements durable.Maker.
func (e *Encoder) Learn(row *item.Value) error {
	err := e.union.Add(row)
	if err == nil {
		e.taken(row)
	}
	return err
}

// taken counts a row, and freezes the schema behind the first FirstN.
func (e *Encoder) taken(row *item.Value) {
	if e.n++; e.o.Seen != nil {
		e.o.Seen(row)
	}
	if e.o.FirstN > 0 && e.n >= e.o.FirstN {
		e.union.Freeze()
	}
}

// Make implements durable.Maker. Errors: ErrNoColumns, those of the file system and of EncoderOptions.Metadata, ctx's cause.
func (e *Encoder) Make(ctx context.Context, f *os.File, rows func(context.Context, func(text []byte) error) error) error {
	schema := e.union.Schema()
	if e.o.Finish != nil {
		schema = e.o.Finish(schema)
	}
	buffer := bufio.NewWriterSize(f, 256<<10)
	w, err := NewWriter(buffer, schema, e.o.Writer)
	if err != nil {
		return err
	}
	if err := w.writeAll(ctx, rows); err != nil {
		if _, misfit := errors.AsType[*RowError](err); misfit { // Row has found it fit
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the spool", Err: err}
		}
		return err
	}
	if e.o.Metadata != nil {
		more, err := e.o.Metadata()
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(more)) {
			w.SetMetadata(key, more[key])
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return buffer.Flush()
}
