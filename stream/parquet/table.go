package parquet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// TableOptions are the options of a Table.
type TableOptions struct {
	// Writer are those of the file.
	Writer Options
	// Conflict says what becomes of a column whose rows disagree. Defaults to Refuse.
	Conflict Conflict
	// Base are columns that are known already; they come first. A Timestamp among them is how a column of
	// RFC 3339 texts becomes one.
	Base Schema
	// FirstN takes the schema from the first n rows; rows that do not fit it are refused from then on.
	// Defaults to 0: from all rows.
	FirstN int64
	// Fixed takes Base for the whole schema.
	Fixed bool
	// Row makes the row to write of the value given to Append, which it must not change. Defaults to the value
	// itself.
	Row func(*item.Value) (*item.Value, error)
	// Seen is called for every row that has been taken, also for those there before (Resume). Defaults to
	// nothing.
	Seen func(row *item.Value)
	// Finish may change the schema before the file is written.
	Finish func(Schema) Schema
	// Metadata is asked for key/value metadata when all rows have been written. Defaults to none.
	Metadata func() (map[string]string, error)
	// Resume goes on behind the rows that Commit has told of, with the spool in the same directory. What
	// has been appended since is dropped.
	Resume *State
}

// Table writes rows whose schema is known only when the last has come: rows wait in a spool on disk. It is
// not safe for concurrent use.
type Table struct {
	o     TableOptions
	spool *spool
	union *Union
	text  []byte // of the last row
}

// New makes a table whose spool is in dir, which exists. Errors: those of the file system, and ErrStateGone
// when there is nothing to resume.
func New(dir string, o TableOptions) (*Table, error) {
	s, err := openSpool(filepath.Join(dir, "rows.ndjson.zst"), o.Resume)
	if err != nil {
		return nil, err
	}
	t := &Table{o: o, spool: s, union: NewUnion(o.Base, o.Conflict)}
	if o.Fixed {
		t.union.Freeze()
	}
	if err := t.relearn(); err != nil {
		s.close()
		return nil, err
	}
	return t, nil
}

// relearn finds the schema of the rows that were there before.
func (t *Table) relearn() error {
	total := t.spool.rows
	n := int64(0)
	err := t.spool.each(context.Background(), func(text []byte) error {
		row, err := item.Parse(text)
		if err != nil {
			return err
		}
		if err := t.union.Add(row); err != nil {
			return err
		}
		n++
		t.taken(row, n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %d rows: %w", ErrStateGone, total, err)
	}
	return nil
}

// taken follows up on row number n (from 1) that has been taken.
func (t *Table) taken(row *item.Value, n int64) {
	if t.o.Seen != nil {
		t.o.Seen(row)
	}
	if t.o.FirstN > 0 && n >= t.o.FirstN {
		t.union.Freeze()
	}
}

// Append adds a row, a JSON object. A RowError, or the error of TableOptions.Row, says that it does not fit and has
// been left out; others can follow. An error that wraps ErrSpool ends the table.
func (t *Table) Append(v *item.Value) error {
	row := v
	if t.o.Row != nil {
		var err error
		if row, err = t.o.Row(v); err != nil {
			return err
		}
	}
	t.text = row.AppendTo(t.text[:0]) // not Bytes: a row of TableOptions.Row may share its insides with the value
	text := t.text
	if err := t.union.add(row, text); err != nil {
		return err
	}
	if err := t.spool.add(text); err != nil {
		return fmt.Errorf("%w: %w", ErrSpool, err)
	}
	t.taken(row, t.spool.rows)
	return nil
}

// Schema are the columns of the rows so far, also after Close. It must not be changed.
func (t *Table) Schema() Schema { return t.union.root.Fields }

// ErrSpool says that rows cannot be kept: the disk is full, say.
var ErrSpool = errors.New("writing the spool")

// Rows is the number of rows so far.
func (t *Table) Rows() int64 { return t.spool.rows }

// Commit makes the rows so far durable, and tells how to go on from here.
func (t *Table) Commit() (State, error) { return t.spool.commit(true) }

// Close writes the file, in the place of dest at once (temporary file beside it, fsync, rename), and removes
// the spool. After an error nothing has changed, and the table can be abandoned and resumed. Errors:
// ErrNoColumns, those of the file system and of TableOptions.Metadata, ctx.Err.
func (t *Table) Close(ctx context.Context, dest string) (err error) {
	if _, err := t.spool.commit(false); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(dest), "."+filepath.Base(dest)+".partial")
	out, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			out.Close()
			os.Remove(temp)
		}
	}()
	if err := t.write(ctx, out); err != nil {
		return err
	}
	if err := publish(out, temp, dest); err != nil {
		return err
	}
	t.spool.close()
	return os.Remove(t.spool.path)
}

func publish(out *os.File, temp, dest string) error {
	if err := out.Sync(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Rename(temp, dest); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(dest))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// write writes all rows of the spool.
func (t *Table) write(ctx context.Context, out *os.File) error {
	schema := t.union.Schema()
	if t.o.Finish != nil {
		schema = t.o.Finish(schema)
	}
	buffer := bufio.NewWriterSize(out, 256<<10)
	w, err := NewWriter(buffer, schema, t.o.Writer)
	if err != nil {
		return err
	}
	if err := w.writeAll(ctx, t.spool.each); err != nil {
		if _, misfit := errors.AsType[*RowError](err); misfit { // Append has found it fit
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the spool", Err: err}
		}
		return err
	}
	if t.o.Metadata != nil {
		more, err := t.o.Metadata()
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

// Abandon ends without a file. What Commit has told of stays in the spool and can be resumed.
func (t *Table) Abandon() { t.spool.close() }
