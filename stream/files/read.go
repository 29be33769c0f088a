package files

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// markEvery is how many rows lie between two marks.
const markEvery = 256

// reader is the source of stream.read.
type reader struct {
	places *Places
	env    *stream.Env

	*readConfig
	template bool // the id is made by one

	files        int
	rows, failed int64 // of this run
	given        int64 // of all runs, for maxItems
}

// cursor is where reading goes on. Before is a hash of the files up to the one it is in: when others have
// come or gone there, going on would leave rows out.
type cursor struct {
	File   int      `json:"file"`
	Path   string   `json:"path"`
	Before string   `json:"before"`
	At     Position `json:"at"`
	Given  int64    `json:"given"`
	Done   bool     `json:"done,omitempty"` // the file has been read to its end
}

// check validates the paths and the shape.
func (c *readConfig) check(given stream.Config) []error {
	c.paths = textsOf(c.Path)
	if list, ok := c.Path.([]any); (len(c.paths) == 0 || ok && len(list) != len(c.paths)) && !(c.Path == nil && given.Early) {
		return []error{stepwell.Invalid("write one path, or a list of them", "path is neither a text nor a list of texts")}
	}
	for _, p := range c.paths {
		if p == "" {
			return []error{stepwell.Invalid("", "a path is empty")}
		}
		if err := supported(p); err != nil {
			return []error{err}
		}
	}
	return problems(c.Shape.Check())
}

// file is a file to read, and its name as the user's paths have it.
type file struct{ path, name string }

// list names all files, those of each path in order; a file that two paths stand for comes once.
func (r *reader) list(ctx context.Context) ([]file, error) {
	var all []file
	seen := map[string]bool{}
	for _, path := range r.paths {
		found, err := r.places.List(ctx, r.env.Dir, path)
		if err != nil && !(r.AllowEmpty && stepwell.CodeOf(err) == stepwell.CodeNotFound) {
			return nil, err
		}
		for _, f := range found {
			if !seen[f] {
				seen[f] = true
				all = append(all, file{f, r.name(path, f)})
			}
		}
	}
	return all, nil
}

// name is a found file's path, relative as the pattern was.
func (r *reader) name(pattern, found string) string {
	if !filepath.IsAbs(pattern) && !isWeb(pattern) && !isS3(pattern) {
		if rel, err := filepath.Rel(r.env.Dir, found); err == nil {
			return rel
		}
	}
	return shown(found)
}

var errEnough = errors.New("as many items as were asked for")

// Read implements stream.Source.
func (r *reader) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	files, err := r.list(ctx)
	if err != nil {
		return err
	}
	r.files = len(files)
	var at cursor
	if _, err := stream.State(r.env.Cursor, &at); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	if at.Path != "" && (at.File >= len(files) || files[at.File].name != at.Path) {
		return errListing(at.Path)
	}
	r.given = at.Given
	before := fnv.New64a()
	for i, f := range files {
		before.Write([]byte(f.name + "\x00")) //nolint:errcheck // never fails
		begin := cursor{File: i, Path: f.name, Before: fmt.Sprintf("%016x", before.Sum64())}
		switch {
		case i < at.File:
			continue
		case at.Path == f.name:
			if begin.Before != at.Before {
				return errListing(f.name)
			}
			begin.At, begin.Done = at.At, at.Done
		}
		if begin.Done {
			continue
		}
		if err := r.file(ctx, f, begin, out); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func errListing(path string) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the files up to " + path + " are not those that were read before",
		Hint: "files have come or gone; start without resuming"}
}

// file reads one file. Errors of the file are failures of it; errors of out, or of the resume position, end the
// reading.
func (r *reader) file(ctx context.Context, f file, at cursor, out stream.Out) error {
	if r.MaxItems > 0 && r.given >= r.MaxItems {
		return errEnough
	}
	var stop error
	from := at.At
	err := r.places.Each(ctx, f.path, r.Shape, &from, func(row Row) error {
		stop = r.row(row, &at, out)
		return stop
	})
	switch {
	case err == nil:
	case stop != nil:
		return stop
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case stepwell.CodeOf(err) == stepwell.CodeConflict, stepwell.CodeOf(err) == stepwell.CodeDenied: // nothing that the file is to blame for
		return err
	default:
		r.failed++
		if err := out.Fail(stream.Failure{Type: typeOf(f.path), Err: err, Context: stream.Context{File: f.name}}); err != nil {
			return err
		}
	}
	at.Done, at.Given = true, r.given
	return out.Mark(at)
}

func typeOf(path string) string {
	if isWeb(path) || isS3(path) {
		return stream.NetworkError
	}
	return stream.DataProcessing
}

func (r *reader) row(row Row, at *cursor, out stream.Out) error {
	place := stream.Place{File: at.Path, Line: row.Line}
	it, err := r.item(row, place)
	r.rows++
	if err != nil {
		r.failed++
		err = out.Fail(stream.Failure{Item: row.Key, Err: err, Context: stream.Context{File: place.File, Line: place.Line}})
	} else {
		r.given++
		err = out.Item(it)
	}
	if err != nil {
		return err
	}
	at.At = row.Next
	if r.rows%markEvery == 0 {
		at.Given = r.given
		if err := out.Mark(at); err != nil {
			return err
		}
	}
	if r.MaxItems > 0 && r.given >= r.MaxItems {
		return errEnough
	}
	return nil
}

// item makes an item of a row; it is parsed only when its id has to be made.
func (r *reader) item(row Row, place stream.Place) (*stream.Item, error) {
	if row.Err != nil {
		return nil, row.Err
	}
	it := stream.Lazy(row.Text, place)
	if r.ID == "" && row.Key == "" {
		return it, nil
	}
	if err := it.Parse(); err != nil {
		return nil, err
	}
	if r.ID == "" {
		if it.Get("id") == nil {
			it.Set("id", item.OfText(row.Key))
		}
		return it, nil
	}
	id, err := r.newID(it, row)
	if err != nil {
		return nil, err
	}
	it.Set("id", item.OfText(id))
	return it, nil
}

func (r *reader) newID(it *stream.Item, row Row) (string, error) {
	if !r.template {
		v := it.Get(r.ID)
		if s, ok := v.Str(); ok && s != "" {
			return s, nil
		}
		if v.Kind() == item.Number || v.Kind() == item.Bool {
			return string(v.Bytes()), nil
		}
		return "", stepwell.Invalid("", "column %q, which is to be the id, is missing or empty", r.ID)
	}
	v, err := r.env.Eval(r.ID, map[string]any{"item": it.Value, "file": it.Place.File, "line": it.Place.Line, "key": row.Key})
	if err != nil {
		return "", fmt.Errorf("id: %w", err)
	}
	val, err := item.Of(v)
	if err != nil {
		return "", fmt.Errorf("id: %w", err)
	}
	switch s, ok := val.Str(); {
	case ok && s != "":
		return s, nil
	case val.Kind() == item.Number:
		return string(val.Bytes()), nil
	}
	return "", stepwell.Invalid("it should give a text that is not empty", "the template for the id gives %s", val.Kind().String())
}

// Finish implements stream.Finisher.
func (r *reader) Finish(error) (any, error) {
	return map[string]any{"files": r.files, "rows": r.rows, "failed": r.failed}, nil
}
