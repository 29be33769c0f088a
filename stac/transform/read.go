package transform

import (
	"context"
	"iter"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

type sourceCounts struct {
	rows, failed, items int64
}

func (c *sourceCounts) outputs(out map[string]any) {
	out["rows"], out["rows_failed"], out["items"] = c.rows, c.failed, c.items
}

// cursor is where to go on: behind a row of a file.
type cursor struct {
	File string         `json:"file"`
	Next files.Position `json:"next"`
	Done bool           `json:"done,omitempty"` // with the file
}

// rowsPerMark is how many rows may be read again after a crash.
const rowsPerMark = 500

// Read makes an item of every row of the files.
func (t *transformer) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	if err := t.canRead(); err != nil {
		return err
	}
	paths, err := t.list(ctx)
	if err != nil {
		return err
	}
	var start cursor
	if _, err := stream.State(t.env.Cursor, &start); err != nil {
		return err
	}
	if start.File != "" {
		i := slices.Index(paths, start.File)
		if i < 0 {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: t.shown(start.File) + " was removed while it was being read", Hint: "put it back, or start without resuming"}
		}
		if paths = paths[i:]; start.Done {
			paths = paths[1:]
		}
	}
	for _, path := range paths {
		var from *files.Position
		if path == start.File {
			from = &start.Next
		}
		if err := t.readFile(ctx, path, from, out); err != nil {
			return err
		}
	}
	return nil
}

// canRead reports options that only a join has.
func (t *transformer) canRead() error {
	if t.joinOnly {
		return &stream.Error{Type: stream.ConfigurationError, Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: "input_file is a table to join items with, but no items come",
			Hint: "write source_file to make items of its rows, or depends_on to have items"}}
	}
	for _, m := range t.mappings {
		if m.named || slices.ContainsFunc(m.target, func(s item.Step) bool { return s.Any }) {
			return &stream.Error{Type: stream.ConfigurationError, Err: &stepwell.Error{Code: stepwell.CodeInvalid,
				Message: m.target.String() + ": wildcards and {names} stand for parts of an item, but no items come", Hint: "write depends_on to have items"}}
		}
	}
	return nil
}

func (t *transformer) readFile(ctx context.Context, path string, from *files.Position, out stream.Out) error {
	file, last := t.shown(path), files.Position{}
	if from != nil {
		last = *from
	}
	err := t.each(ctx, path, from, func(row files.Row) error {
		t.source.rows++
		last = row.Next
		place := stream.Place{File: file, Line: row.Line}
		it, id, err := t.build(row)
		if err != nil {
			t.source.failed++
			collection, _ := it.Get("collection").Str()
			err = out.Fail(stream.Failure{Item: id, Collection: collection, Type: stream.DataProcessing, Err: err, Context: stream.Context{File: file, Line: row.Line}})
		} else {
			t.source.items++
			err = out.Item(stream.New(it, place))
		}
		if err == nil && t.source.rows%rowsPerMark == 0 {
			err = out.Mark(cursor{File: path, Next: last})
		}
		return err
	})
	if err != nil {
		return err
	}
	return out.Mark(cursor{File: path, Next: last, Done: true})
}

// build makes the item of a row: the specification's TransformedItem. It gives the id also when it fails.
func (t *transformer) build(row files.Row) (it *item.Value, id string, err error) {
	if row.Err != nil {
		return nil, row.Key, row.Err
	}
	v, err := item.Parse(row.Text)
	if err != nil {
		return nil, row.Key, err
	}
	it = item.NewObject()
	for _, name := range []string{"id", "geometry", "bbox", "datetime", "properties", "assets", "links"} {
		val := &item.Value{}
		if name == "properties" || name == "assets" {
			val = item.NewObject()
		}
		it.Set(name, val)
	}
	if row.Key != "" {
		it.Set("id", item.OfText(row.Key))
	}
	var first error
	for _, m := range t.mappings {
		if err := m.apply(it, v, "merge"); err != nil && first == nil { // go on: the id makes a better record
			first = err
		}
	}
	id, _ = it.Get("id").Str()
	if id == "" && first == nil && t.mapsID() {
		first = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the row has no id"}
	}
	return it, id, first
}

func (c *config) mapsID() bool {
	return slices.ContainsFunc(c.mappings, func(m *mapping) bool { return m.target.String() == "id" })
}
