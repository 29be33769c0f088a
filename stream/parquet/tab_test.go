package parquet_test

import (
	"context"
	"path/filepath"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

type tableOptions = parquet.EncoderOptions

// tabFile is a Parquet file that is written as streams write theirs: by an Encoder, over a spool in dir.
type tabFile struct{ *durable.File }

type tabFormat struct {
	durable.Format
	o tableOptions
	e *durable.Encoder
}

// Encoder implements durable.Format: the spool's own, once it is asked for.
func (f tabFormat) Encoder([]string) durable.Encoder {
	*f.e = parquet.NewEncoder(f.o)
	return *f.e
}

func newTab(dir string, o tableOptions, resume *durable.State) (*tabFile, error) {
	f, err := durable.NewFile(&durable.Options{Format: tabFormat{o: o, e: new(durable.Encoder)}}, filepath.Join(dir, "rows"), "token")
	if err != nil {
		return nil, err
	}
	if resume == nil {
		return &tabFile{f}, f.Begin()
	}
	f.State = *resume
	found, err := f.GoOn(context.Background())
	if err == nil && !found {
		err = durable.ErrGone
	}
	return &tabFile{f}, err
}

func (t *tabFile) append(v *item.Value) error { return t.Put(v, durable.BlockSize) }

func (t *tabFile) commit() (durable.State, error) {
	err := t.Sync()
	return t.State, err
}

func (t *tabFile) finish(ctx context.Context, dest string) error {
	made, err := t.Complete(ctx, durable.Merging{})
	if err == nil {
		err = durable.Publish(ctx, made, dest)
	}
	if err != nil {
		return err
	}
	return t.Discard()
}
