package durable

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Merging describes the contents of a finished file besides the rows of its spool. The zero value: none.
type Merging struct {
	// Base keeps the rows of the file that is in the place now, in front.
	Base bool
	// Drop reports whether a row of that file is left out. Defaults to none.
	Drop func(row *item.Value) bool
	// Keys leaves out those rows of the spool whose key a later one has. Defaults to keeping all.
	Keys *Keys
	// LeftOut is how many rows of the spool that will be.
	LeftOut int64
}

// Complete makes the finished, still hidden file: the spool with its end, or a merge of the published file and the spool.
// State then describes the finished file, except for Offset, which stays before the end of the spool.
func (o *File) Complete(ctx context.Context, m Merging) (made string, err error) {
	if err := o.start(); err != nil {
		return "", err
	}
	if err := o.flush(BlockSize); err != nil {
		return "", err
	}
	if m.Base {
		if m.Base, err = o.holds(ctx); err != nil {
			return "", err
		}
	}
	maker, isMaker := o.enc.(Maker)
	if !isMaker {
		if err := o.end(); err != nil {
			return "", err
		}
	}
	if err := o.f.Sync(); err != nil {
		return "", o.full(err)
	}
	made, rows := o.spool, o.Items
	if isMaker || m.Base || m.LeftOut > 0 {
		made = strings.TrimSuffix(o.spool, ".part") + ".made"
		err := WriteNew(made, func(f *os.File) error {
			if isMaker {
				rows, err = o.make(ctx, maker, m, f)
			} else {
				rows, err = o.merge(ctx, m, f)
			}
			return err
		})
		if err != nil {
			return "", o.full(err)
		}
	}
	info, err := os.Stat(made)
	if err != nil {
		return "", err
	}
	o.State.Own = o.State.Prior + o.Items - m.LeftOut
	o.State.Was, o.State.Size, o.State.Items, o.State.Done, o.State.Some = o.State.Size, info.Size(), rows, true, false
	return made, nil
}

// end writes the text after the rows to the spool; the state stays as before.
func (o *File) end() error {
	before := o.State
	o.pending = o.enc.End(o.pending, o.Items)
	err := o.flush(BlockSize)
	o.State = before
	return err
}

// holds reports whether there is a file in the place with something in it.
func (o *File) holds(ctx context.Context) (bool, error) {
	in, size, err := o.o.Places.OpenFile(ctx, o.Dest)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return size != 0, in.Close()
}

// HasRows reports whether the file in the place holds a row.
func (o *File) HasRows(ctx context.Context) (bool, error) {
	if there, err := o.holds(ctx); err != nil || !there {
		return false, err
	}
	found := errors.New("there is one")
	err := o.o.Format.Rows(ctx, o.Dest, func(*item.Value) error { return found })
	if errors.Is(err, found) {
		return true, nil
	}
	return err != nil, nil // nolint:nilerr // an unreadable file counts as contents, and must not be lost
}

// base gives the rows of the file in the place that stay.
func (o *File) base(ctx context.Context, m Merging, row func(*item.Value) error) error {
	at := int64(0)
	return o.o.Format.Rows(ctx, o.Dest, func(v *item.Value) error {
		if at++; o.State.Some && at > o.State.First || m.Drop != nil && m.Drop(v) {
			return nil
		}
		return row(v)
	})
}

// kept calls row for those rows of a spool that have not lost their key to a later one.
func kept[Row any](m Merging, spooled func(row func(Row) error) error, row func(Row) error) error {
	if m.LeftOut == 0 {
		return spooled(row)
	}
	current, err := m.Keys.Current()
	if err != nil {
		return err
	}
	return spooled(func(r Row) error {
		keep, err := current()
		if err != nil || !keep {
			return err
		}
		return row(r)
	})
}

// make writes a file that cannot grow, and returns its number of rows.
func (o *File) make(ctx context.Context, maker Maker, m Merging, f *os.File) (n int64, err error) {
	if m.Base {
		if err := o.base(ctx, m, maker.Learn); err != nil {
			return 0, err
		}
	}
	err = maker.Make(ctx, f, func(ctx context.Context, row func([]byte) error) error {
		give := func(text []byte) error {
			n++
			return row(text)
		}
		if m.Base {
			if err := o.base(ctx, m, func(v *item.Value) error { return give(v.Bytes()) }); err != nil {
				return err
			}
		}
		return kept(m, func(row func([]byte) error) error { return o.lines(ctx, row) }, give)
	})
	return n, err
}

// merge writes the rows of the place and those of the spool.
func (o *File) merge(ctx context.Context, m Merging, f *os.File) (int64, error) {
	columns := o.enc.Columns()
	if m.Base {
		var err error
		if columns, err = o.o.Format.Joined(ctx, o.Dest, columns); err != nil {
			return 0, err
		}
	}
	enc := o.o.Format.Encoder(columns)
	text, err := enc.Begin(nil)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	put := func(all bool) error {
		if len(text) < BlockSize && !all || len(text) == 0 {
			return nil
		}
		if o.packed, err = o.packer.pack(o.packed[:0], text); err != nil {
			return err
		}
		text = text[:0]
		_, err := f.Write(o.packed)
		return err
	}
	add := func(v *item.Value) error {
		if text, err = enc.Row(text, v, n); err != nil {
			return err
		}
		n++
		return put(false)
	}
	if m.Base {
		if err := o.base(ctx, m, add); err != nil {
			return n, err
		}
	}
	spooled := func(row func(*item.Value) error) error { return o.o.Format.Rows(ctx, o.spool, row) }
	if err := kept(m, spooled, add); err != nil {
		return n, err
	}
	text = enc.End(text, n)
	return n, put(true)
}

// Count counts the line ends of a text. whole reports whether the text is empty or ends with one.
func Count(in io.Reader) (n int64, whole bool, err error) {
	r := bufio.NewReaderSize(in, 256<<10)
	last := byte('\n')
	for {
		_, err := r.Peek(1)
		if err == io.EOF { //nolint:errorlint // bare
			return n, last == '\n', nil
		}
		if err != nil {
			return n, false, err
		}
		piece, err := r.Peek(r.Buffered())
		if err != nil {
			return n, false, err
		}
		n += int64(bytes.Count(piece, newline))
		last = piece[len(piece)-1]
		if _, err := r.Discard(len(piece)); err != nil {
			return n, false, err
		}
	}
}

var newline = []byte{'\n'}
