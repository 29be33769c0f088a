package reshape

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

const dedupeDoc = "Two items are the same when all values of `by` are: texts by what they say, everything else as it is written, so that 1, 1.0 and \"1\" are three. " +
	"The first stays, the others are dropped and counted in the output `duplicates`. An item without one of the values (or with null) is recorded as a failure, " +
	"except for `collection`, which an item outside of any collection does not have.\n\n" +
	"What is remembered is a hash for each item, about 25 bytes, and only as long as the stream runs. A stream that was cut off and continues is therefore read from its beginning; " +
	"what its sinks have already is not written again."

func dedupeModule() stream.Module {
	return stream.Typed[dedupeConfig]{
		Spec: spec.Spec{
			Name:    "stream.dedupe",
			Summary: "Drops duplicate items.",
			Doc:     dedupeDoc,
			Effect:  spec.NoEffect,
			Stream:  &spec.Stream{Role: spec.Modifier, Remembers: true},
			Outputs: []spec.Field{{Name: "duplicates", Type: spec.Integer, Doc: "How many items were dropped in this run."}},
			Examples: []spec.Example{
				{Title: "pages that overlap", YAML: "id: unique\nmodule: stream.dedupe\ndepends_on: [scenes]\nconfig:\n  by: [collection, id]"},
			},
		},
		Open: func(_ context.Context, _ *stream.Env, c *dedupeConfig) (any, error) { return &c.dedupe, nil },
		Check: func(c *dedupeConfig, _ stream.Config) []error {
			c.dedupe = dedupe{limit: c.Limit}
			return c.dedupe.read(c.By)
		},
	}.Module()
}

type dedupeConfig struct {
	By    []string `json:"by" minItems:"1" default:"[\"collection\",\"id\"]" doc:"The paths whose values make two items equal."`
	Keep  string   `json:"keep" enum:"first" default:"first" doc:"Which of several is kept."`
	Limit int64    `json:"limit" minimum:"1" maximum:"1e9" default:"50000000" doc:"How many items may be remembered, at up to 27 bytes each; more end the stream with an error."`

	dedupe dedupe
}

type dedupe struct {
	by         []key
	limit      int64
	seen       seen
	duplicates int64
	buf        []byte
}

type key struct {
	path item.Path
	name string
}

func (d *dedupe) read(by []string) (problems []error) {
	for _, text := range by {
		p, err := item.ParsePath(text)
		if err == nil && stars(p) > 0 {
			err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "path " + strconv.Quote(text) + " stands for several values", Hint: "name one, without *"}
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("by: %w", err))
		}
		d.by = append(d.by, key{p, p.String()})
	}
	return problems
}

// Modify implements stream.Modifier.
func (d *dedupe) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	d.buf = d.buf[:0]
	for _, k := range d.by {
		v := it.Find(k.path)
		if v.IsNull() && k.name != "collection" {
			return nil, &stream.Error{Type: stream.DataProcessing, Context: stream.Context{Field: k.name}, Err: fmt.Errorf("the item has no %s to tell it from others", k.name)}
		}
		d.buf = appendPart(d.buf, v)
	}
	if !d.seen.add(xxh3.Hash128(d.buf)) {
		d.duplicates++
		return nil, nil
	}
	if d.seen.n > d.limit {
		return nil, stream.Abort(&stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("more than %d different items", d.limit),
			Hint: "raise limit (at up to 27 bytes of memory each), or run the pipeline for parts of the items"})
	}
	return it, nil
}

// appendPart appends a value so that no two rows of different values look the same.
func appendPart(dst []byte, v *item.Value) []byte {
	size := len(dst)
	dst = append(dst, byte(v.Kind()), 0, 0, 0, 0, 0, 0, 0, 0)
	if s, ok := v.Str(); ok {
		dst = append(dst, s...)
	} else {
		dst = v.AppendTo(dst)
	}
	binary.LittleEndian.PutUint64(dst[size+1:], uint64(len(dst)-size))
	return dst
}

// Finish implements stream.Finisher.
func (d *dedupe) Finish(error) (any, error) {
	return map[string]any{"duplicates": d.duplicates}, nil
}
