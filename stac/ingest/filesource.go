package ingest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// fileSource reads the items of files, or of a static catalog.
type fileSource struct {
	s      *settings
	env    *stream.Env
	places *files.Places
	client *apiclient.Client
	source string
	layout layout
	shape  files.Shape
	filter *itemFilter
	from   fileCursor

	given int64 // items of all runs
	items int64 // of this run
	rows  int64
	failures
	stop error
}

// fileCursor is where reading goes on. Before is a hash of the paths up to the file: when others have come or
// gone there, going on would leave items out.
type fileCursor struct {
	File   int            `json:"file"`
	Path   string         `json:"path"`
	Before string         `json:"before"`
	At     files.Position `json:"at"`
	Items  int64          `json:"items"`
	Done   bool           `json:"done,omitempty"`
}

func (o Options) openFiles(ctx context.Context, env *stream.Env, s *settings, source string, client *apiclient.Client) (any, error) {
	l := &locator{places: o.Places, client: client, env: env, want: s.SourceType, wanted: s.search.Collections, empty: s.AllowEmpty || env.Collection != nil}
	if l.want == "auto" {
		l.want = ""
	}
	found, err := l.find(ctx, source)
	if err != nil {
		return nil, err
	}
	if len(found.paths) > 0 && isWeb(found.paths[0]) && (s.Credentials != nil || len(s.Headers) > 0) {
		return nil, wrongConfig("credentials and headers are for APIs and catalogs; "+shown(source)+" is a file", "use a URL that can be read without")
	}
	f := &fileSource{s: s, env: env, places: o.Places, client: client, source: source, layout: found, filter: newItemFilter(s.search)}
	f.shape = files.Shape{Format: s.Format, At: found.at, MaxItem: s.MaxItemBytes}
	if s.Format == "json" && found.at == "" { // in the source systems this only means: no Parquet
		f.shape.Format = "auto"
	}
	if err := f.shape.Check(); err != nil {
		return nil, configured(err)
	}
	if _, err := stream.State(env.Cursor, &f.from); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "cursor", Err: err}
	}
	return f, nil
}

// Read implements stream.Source.
func (f *fileSource) Read(ctx context.Context, in iter.Seq[*stream.Item], out stream.Out) error {
	if in != nil {
		return wrongConfig("the source "+f.source+" is a file, and files are not asked for another step's items", "items are fetched by id from an API")
	}
	f.given = f.from.Items
	if f.s.MaxItems > 0 && f.given >= f.s.MaxItems {
		return nil
	}
	if len(f.layout.left) > 0 {
		f.env.Log(slog.LevelWarn, "directories without collection.json are left out", slog.String("source", f.source), slog.Int("count", len(f.layout.left)), slog.String("first", f.layout.left[0]))
	}
	if err := f.sendCollections(ctx); err != nil {
		return err
	}
	var err error
	if f.layout.catalog != "" {
		err = f.walk(ctx, out)
	} else {
		err = f.read(ctx, out)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil {
		err = f.stop
	}
	if err == nil && f.rows == 0 && f.from.Path == "" && !f.s.AllowEmpty {
		return f.empty()
	}
	return err
}

// sendCollections sends the Collections next to the items. Those of a catalog are met on the way.
func (f *fileSource) sendCollections(ctx context.Context) error {
	if !wanted(f.env) {
		return nil
	}
	for _, at := range f.layout.told {
		text, err := readAll(ctx, f.places, at)
		if err == nil {
			err = sendCollection(ctx, f.env, text, stream.Place{File: at}, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty is a source with nothing in it, which is hardly meant; but of the collections that a discovery finds,
// some may be empty.
func (f *fileSource) empty() error {
	if f.env.Collection != nil && f.first == nil {
		f.env.Log(slog.LevelWarn, "the collection holds no items", slog.String("collection", collectionMember(f.env, "id")), slog.String("source", shown(f.source)))
		return nil
	}
	e := &stream.Error{Type: stream.ModuleException, Context: stream.Context{File: f.source},
		Err: &stepwell.Error{Code: stepwell.CodeNotFound, Message: f.source + " holds no items", Hint: "allow_empty: true accepts that"}}
	if f.first != nil {
		e.Err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "nothing could be read from " + f.source, Err: f.first}
	}
	return e
}

// portion is some of a file's rows, made ready, or how it ended.
type portion struct {
	entries []entry
	size    int
	end     bool
	err     error
}

// entry is a row: an item, a failure, or (neither) a filtered one.
type entry struct {
	item *stream.Item
	fail *stream.Failure
	next files.Position
}

// A portion has no more rows and bytes than that.
const (
	portionRows = 128
	portionSize = 1 << 20
)

type fileJob struct {
	fileCursor
}

// read reads the files in order, while the next ones are being opened.
func (f *fileSource) read(ctx context.Context, out stream.Out) error {
	jobs, err := f.jobs()
	if err != nil {
		return err
	}
	return ordered(ctx, max(1, min(f.s.Concurrency, 4)), true, jobs, f.run, func(j fileJob, p portion) error { return f.passPortion(ctx, j, p, out) })
}

func (f *fileSource) jobs() (iter.Seq[fileJob], error) {
	paths := f.layout.paths
	before := fnv.New64a()
	marks := make([]string, len(paths))
	for i, path := range paths {
		before.Write([]byte(path + "\x00")) //nolint:errcheck // it has none
		marks[i] = fmt.Sprintf("%016x", before.Sum64())
	}
	at := f.from
	if at.Path != "" && (at.File >= len(paths) || marks[at.File] != at.Before) {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the files up to " + at.Path + " are not those that were read before",
			Hint: "files have come or gone; start without resuming"}
	}
	return func(yield func(fileJob) bool) {
		for i := at.File; i < len(paths); i++ {
			j := fileJob{fileCursor{File: i, Path: paths[i], Before: marks[i]}}
			if i == at.File {
				if at.Done {
					continue
				}
				j.At = at.At
			}
			if !yield(j) {
				return
			}
		}
	}, nil
}

// run reads one file and makes its items ready.
func (f *fileSource) run(ctx context.Context, j fileJob, give func(portion) bool) {
	var p portion
	stopped := errors.New("stopped")
	from := j.At
	err := f.each(ctx, j.Path, &from, func(row files.Row) error {
		p.entries = append(p.entries, f.entry(j.Path, row))
		p.size += len(row.Text)
		if len(p.entries) < portionRows && p.size < portionSize {
			return nil
		}
		if !give(p) {
			return stopped
		}
		p = portion{}
		return nil
	})
	if errors.Is(err, stopped) {
		return
	}
	p.end, p.err = true, err
	give(p)
}

// entry makes an item of a row.
func (f *fileSource) entry(path string, row files.Row) entry {
	e := entry{next: row.Next}
	place := stream.Place{File: path, Line: row.Line}
	err := row.Err
	if err == nil && f.layout.lone {
		err = feature(row.Text)
	}
	if err == nil {
		e.item, err = f.filter.item(row.Text, row.Key, place)
	}
	if err != nil {
		e.fail = &stream.Failure{Item: row.Key, Err: err, Context: stream.Context{File: path, Line: row.Line}}
	}
	return e
}

// passPortion passes on the rows of a portion.
func (f *fileSource) passPortion(ctx context.Context, j fileJob, p portion, out stream.Out) error {
	for _, e := range p.entries {
		f.rows++
		if err := f.pass(e, out); err != nil {
			return err
		}
	}
	at := j.fileCursor
	if at.Items = f.given; len(p.entries) > 0 {
		at.At = p.entries[len(p.entries)-1].next
	}
	if at.Done = p.end; p.err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if stepwell.CodeOf(p.err) == stepwell.CodeConflict {
			return p.err
		}
		if err := f.fail(stream.Failure{Err: p.err, Context: stream.Context{File: j.Path}}, out); err != nil {
			return err
		}
	}
	return out.Mark(at)
}

func (f *fileSource) pass(e entry, out stream.Out) error {
	switch {
	case e.fail != nil:
		f.rows-- // nothing of it has come in
		return f.fail(*e.fail, out)
	case e.item == nil:
		return nil
	}
	if err := out.Item(e.item); err != nil {
		return err
	}
	f.items++
	if f.given++; f.s.MaxItems > 0 && f.given >= f.s.MaxItems {
		return errEnough
	}
	return nil
}

// Finish implements stream.Finisher.
func (f *fileSource) Finish(error) (any, error) {
	return map[string]any{"items": f.items, "duplicates": int64(0), "pages": int64(len(f.layout.paths)), "failed": f.failed, "retries": int64(0)}, nil
}
