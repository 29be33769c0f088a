package files

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/parquet"
)

// A Parquet file has its index at the end and its columns at the beginning of all: it cannot be cut and gone on
// with. So its rows wait in the spool as lines, and become columns when the last is there.

// learn makes the encoder know what it would, had it written what is in the spool.
func (o *output) learn(ctx context.Context) error {
	o.enc = newEncoder(o.target, o.state.Columns)
	p, ok := o.enc.(*parquetEncoder)
	if !ok {
		return nil
	}
	return o.eachSpooled(ctx, func(row *item.Value) error { return p.union.Add(row) })
}

func (o *output) eachSpooled(ctx context.Context, f func(row *item.Value) error) error {
	return o.places.Each(ctx, o.spool, Shape{Format: formatNDJSON, Encoding: "utf-8", MaxItem: 1 << 40}, nil, func(r Row) error {
		if r.Err != nil {
			return r.Err
		}
		v, err := item.Parse(r.Text)
		if err != nil {
			return err
		}
		return f(v)
	})
}

// unfold makes lines of a Parquet file again.
func (o *output) unfold(ctx context.Context) error {
	items := o.state.Items
	o.state = fileState{Size: o.state.Size, Later: items == 0}
	if err := o.open(0); err != nil {
		return err
	}
	if items == 0 {
		return nil
	}
	enough := errors.New("enough")
	err := o.places.Each(ctx, o.dest, Shape{Format: formatParquet}, nil, func(r Row) error {
		if o.items == items {
			return enough
		}
		v, err := item.Parse(r.Text)
		if err != nil {
			return err
		}
		return o.put(v, blockSize)
	})
	if err != nil && !errors.Is(err, enough) {
		return err
	}
	if o.items != items {
		return fmt.Errorf("it has %d rows, not %d", o.items, items)
	}
	return nil
}

// fold makes a Parquet file of the lines.
func (o *output) fold(ctx context.Context, p *parquetEncoder, made string) error {
	f, err := os.Create(made)
	if err != nil {
		return err
	}
	w, err := parquet.NewWriter(f, p.union.Schema(), parquet.Options{})
	if err == nil {
		err = o.eachSpooled(ctx, w.Write)
		err = errors.Join(err, w.Close())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(o.full(err), os.Remove(made))
	}
	return nil
}
