// Package geoparquet writes and reads STAC items as stac-geoparquet 1.1.0 files.
//
// An item is a row, every property a column; the geometry is WKB and the bbox a struct (GeoParquet 1.1.0,
// https://geoparquet.org/releases/v1.1.0; stac-geoparquet, https://github.com/radiantearth/stac-geoparquet-spec).
// Items survive: what is read back equals what was written, but for members that are null, which are dropped,
// stac_extensions, links and assets, which are always there, digits of times beyond microseconds, and members of
// a geometry that GeoJSON does not ask for. Stable.
//
// There is no kept Go library for stac-geoparquet (rustac is Rust, stac-geoparquet Python); WKB is
// written here because paulmach/orb knows two coordinates only; columns are stream/parquet's.
package geoparquet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

// Options are the options of a File.
type Options struct {
	// FirstN finds the columns over the first items; items that do not fit them are refused from then on. Defaults to 0:
	// over all items.
	FirstN int64
	// Schema, when it is not nil, are the columns besides the standard ones: properties, and assets and links, which are
	// collected over all items where they are not given.
	Schema parquet.Schema
	// Conflict handles a column whose items disagree (a text here, a number there). Defaults to refusing the later
	// item.
	Conflict parquet.Conflict
	// Known are columns of files that are to be read together with this one (Columns, File.Schema): they keep their
	// types, and an item that disagrees with them does not fit. With Schema they tell only of assets and links.
	Known parquet.Schema
	// RowGroup is the number of rows of a row group. Defaults to 20,000.
	RowGroup int
	// Resume goes on from a state, whose spool is in the same directory.
	Resume *State
}

// State is how far a File is durable.
type State struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"` // of the spool
}

// Stats describes the contents of a file.
type Stats struct {
	Items int64
	Bytes int64     // size of the file
	BBox  []float64 // 4 or 6 numbers; nil when no item has a place
}

// File collects items and writes them as one file. It is not safe for concurrent use.
type File struct {
	*durable.File
	enc         *parquet.Encoder
	found       findings
	collections map[string]*item.Value // those of Close
}

// New makes a file whose spool is in dir, which exists: items wait there until Close. Errors: those of the file system, and
// durable.ErrGone when there is nothing to resume.
func New(dir string, o Options) (*File, error) {
	f := &File{found: findings{types: map[string]bool{}}}
	t := parquet.EncoderOptions{
		Writer: parquet.Options{RowGroup: o.RowGroup}, Conflict: o.Conflict, Base: base(), FirstN: o.FirstN,
		Convert: rowOf, Seen: f.found.add, Finish: f.finish, Metadata: f.metadata,
	}
	known := o.Known
	if o.Schema != nil {
		t.Fixed, t.Base = true, with(t.Base, o.Schema)
		known = slices.DeleteFunc(slices.Clone(known), func(field parquet.Field) bool {
			return !slices.ContainsFunc(t.Base, func(b parquet.Field) bool { return b.Name == field.Name && b.Type.Open })
		})
	}
	t.Base = t.Base.Join(known)
	f.enc = parquet.NewEncoder(t)
	var err error
	if f.File, err = durable.NewFile(&durable.Options{Format: format{enc: f.enc}}, filepath.Join(dir, "rows"), ""); err != nil {
		return nil, err
	}
	if o.Resume == nil {
		return f, f.Begin()
	}
	// An execution that began before spools were durable files has this name; the lines are the same.
	if err := os.Rename(filepath.Join(dir, "rows.ndjson.zst"), filepath.Join(dir, ".rows..part")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f.File.State = durable.State{Items: o.Resume.Rows, Offset: o.Resume.Bytes}
	if found, err := f.GoOn(context.Background()); err != nil || !found {
		return nil, errors.Join(fmt.Errorf("%w: %d rows in %s: %w", durable.ErrGone, o.Resume.Rows, dir, cmp.Or(err, os.ErrNotExist)), f.Leave())
	}
	return f, nil
}

// format is that of a spool, which nothing but its Encoder is asked for.
type format struct {
	durable.Format
	enc durable.Encoder
}

// Encoder implements durable.Format.
func (f format) Encoder([]string) durable.Encoder { return f.enc }

// with puts columns behind the last. Columns that every file has stay, but for links and assets: they are what is given, or
// are found over all items.
func with(s, more parquet.Schema) parquet.Schema {
	known := map[string]int{}
	for i := range s {
		known[s[i].Name] = i
	}
	s[known["assets"]].Type.Open, s[known["links"]].Type.Open = true, true
	for _, field := range more {
		switch at, ok := known[field.Name]; {
		case !ok:
			s = append(s, field)
		case s[at].Type.Open:
			s[at].Type = field.Type
		}
	}
	return s
}

// block is how much text of a File waits in memory: there may be one for each of many collections.
const block = durable.BlockSize / 4

// Add adds an item, which stays as it is. A durable.Refusal says that the item does not fit and has been left out, and
// others can follow; any other error ends the file.
func (f *File) Add(it *item.Value) error { return f.Put(it, block) }

// Schema are the columns of the items so far, also after Close. It must not be changed.
func (f *File) Schema() parquet.Schema { return f.enc.Schema() }

// Commit makes the items so far durable, and returns the state to resume from (Options.Resume).
func (f *File) Commit() (State, error) {
	err := f.Sync()
	return State{Rows: f.State.Items, Bytes: f.State.Offset}, err
}

// Close writes the file, which appears at dest complete, and removes the spool. The collections of the items, by id, are
// written into it; nil for none. After an error there is nothing at dest that was not there before, the spool is still there,
// and Leave must be called.
func (f *File) Close(ctx context.Context, dest string, collections map[string]*item.Value) (Stats, error) {
	f.collections = collections
	made, err := f.Complete(ctx, durable.Merging{})
	if err == nil {
		err = durable.Publish(ctx, made, dest)
	}
	if err != nil {
		return Stats{}, err
	}
	return Stats{Items: f.Items, Bytes: f.State.Size, BBox: f.found.extent.list()}, f.Discard()
}

// finish drops proj:geometry where no item has one.
func (f *File) finish(s parquet.Schema) parquet.Schema {
	return slices.DeleteFunc(s, func(field parquet.Field) bool { return field.Name == projGeometry && !f.found.projected })
}
