package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// seed makes items of a list.
type seed struct {
	Items      []any          `json:"items" doc:"Ids, or parts of items with an id."`
	SourceFile string         `json:"source_file" doc:"File, glob or URL with a JSON list of the same, or one per line."`
	Defaults   map[string]any `json:"defaults" doc:"Members that every item has unless its entry says otherwise; objects are merged in depth."`
	Collection string         `json:"collection" doc:"Collection of items that name none; defaults to the collection of a discovery."`
	Alias      string         `json:"collection_id" doc:"The same as collection."`
	AllowEmpty bool           `json:"allow_empty" doc:"Whether a run without any item is accepted."`

	env      *stream.Env
	places   *files.Places
	paths    []string
	defaults *item.Value
	from     seedCursor

	count int64 // entries so far, good or not
	given int64
	failures
}

type seedCursor struct {
	Entries int64 `json:"entries"`
}

func checkSeed(s *seed, config stream.Config) []error {
	e := &either{config: config.Values}
	e.one("collection", "collection_id")
	if len(config.Given("items", "source_file")) == 0 {
		e.wrong = append(e.wrong, wrongConfig("there is nothing to make items of", "give items, or source_file"))
	}
	for i, v := range s.Items {
		if _, err := entryOf(item.Of(v)); err != nil {
			e.wrong = append(e.wrong, wrongConfig(fmt.Sprintf("items[%d] is neither an id nor an object", i), "write an id, or the part of an item that is known"))
		}
	}
	return e.wrong
}

// entryOf makes the part of an item that an entry of the list stands for.
func entryOf(v *item.Value, err error) (*item.Value, error) {
	switch {
	case err != nil:
		return nil, err
	case v.Kind() == item.Object:
		return v, nil
	case v.Kind() == item.Number:
		v = item.OfText(string(v.Bytes()))
	case v.Kind() != item.Text:
		return nil, stepwell.Invalid("", "an entry is neither an id nor an object")
	}
	part := item.NewObject()
	part.Set("id", v)
	return part, nil
}

func (o Options) openSeed(ctx context.Context, env *stream.Env, s *seed) (_ any, err error) {
	s.env, s.places = env, o.Places
	if s.Collection == "" {
		s.Collection = s.Alias
	}
	if s.Collection == "" && env.Collection != nil {
		s.Collection = collectionMember(env, "id")
	}
	if s.Defaults == nil {
		s.Defaults = map[string]any{}
	}
	if s.defaults, err = item.Of(s.Defaults); err != nil {
		return nil, configured(err)
	}
	if s.SourceFile != "" {
		if s.paths, err = o.Places.List(ctx, env.Dir, s.SourceFile); err != nil {
			return nil, wrongConfig(err.Error(), "relative paths are meant against "+env.Dir)
		}
	}
	_, err = stream.State(env.Cursor, &s.from)
	return s, err
}

// Read implements stream.Source.
func (s *seed) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	for _, v := range s.Items {
		part, err := entryOf(item.Of(v))
		if err := s.entry(part, err, stream.Place{}, out); err != nil {
			return err
		}
	}
	for _, path := range s.paths {
		var stop error
		err := s.file(ctx, path, func(part *item.Value, err error) error {
			stop = s.entry(part, err, stream.Place{File: path}, out)
			return stop
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case stop != nil:
			return stop
		case err != nil:
			if err := s.fail(stream.Failure{Err: fmt.Errorf("%s: %w", shown(path), err), Context: stream.Context{File: path}}, out); err != nil {
				return err
			}
		}
	}
	switch {
	case s.given > 0, s.from.Entries > 0, s.AllowEmpty:
		return nil
	case s.first != nil:
		return &stream.Error{Type: stream.ModuleException, Err: fmt.Errorf("no item could be made: %w", s.first)}
	}
	return &stream.Error{Type: stream.ModuleException, Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: "there is nothing to make items of", Hint: "allow_empty: true accepts that"}}
}

// entry makes an item of an entry: the defaults, copied in depth, and the entry over them.
func (s *seed) entry(part *item.Value, err error, at stream.Place, out stream.Out) error {
	s.count++
	if s.count <= s.from.Entries {
		return nil
	}
	at.Line = s.count
	if err == nil && part.Get("id").IsNull() && s.defaults.Get("id").IsNull() {
		err = stepwell.Invalid("", "entry %d has no id", s.count)
	}
	if err != nil {
		return s.fail(stream.Failure{Err: err, Context: stream.Context{File: at.File, Line: at.Line}}, out)
	}
	v := s.defaults.Clone()
	v.Merge(part)
	if s.Collection != "" && v.Get("collection").IsNull() {
		v.Set("collection", item.OfText(s.Collection))
	}
	if err := out.Item(stream.New(v, at)); err != nil {
		return err
	}
	if s.given++; s.given%256 == 0 {
		return out.Mark(seedCursor{s.count})
	}
	return nil
}

// file reads a JSON list of ids and objects, a FeatureCollection, or one of them after the other.
func (s *seed) file(ctx context.Context, path string, entry func(*item.Value, error) error) (err error) {
	in, _, err := s.places.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	bounded := &meter{in: in}
	dec := jsontext.NewDecoder(bounded)
	take := func() error {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		bounded.since = 0
		return entry(entryOf(item.Parse(bytes.Clone(raw))))
	}
	for {
		switch dec.PeekKind() {
		case '[':
			if _, err := dec.ReadToken(); err != nil {
				return err
			}
			for dec.PeekKind() != ']' {
				if err := take(); err != nil {
					return cut(err)
				}
			}
			if _, err := dec.ReadToken(); err != nil {
				return cut(err)
			}
		default:
			if err := take(); errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// meter limits the bytes read for one entry.
type meter struct {
	in    io.Reader
	since int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.since > maxDocument {
		return 0, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("an entry is larger than %d MiB", maxDocument>>20)}
	}
	n, err := m.in.Read(p)
	m.since += n
	return n, err
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Finish implements stream.Finisher.
func (s *seed) Finish(error) (any, error) {
	return map[string]any{"items": s.given, "failed": s.failed}, nil
}
