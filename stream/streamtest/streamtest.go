// Package streamtest tries stream modules one at a time, without a segment around them. For tests only.
package streamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// Rig is a module's environment, with a record of its calls.
type Rig struct {
	Env      *stream.Env
	mu       sync.Mutex
	failures []stream.Failure
	refused  []*stream.Item
	lines    []string
}

// New makes surroundings in a temporary directory.
func New(t testing.TB) *Rig {
	r := &Rig{}
	r.Env = &stream.Env{Step: "step", Workflow: "flow", Run: "run-1", Dir: t.TempDir(), Data: t.TempDir(),
		Log: func(level slog.Level, message string, attrs ...slog.Attr) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lines = append(r.lines, fmt.Sprint(level, " ", message, " ", attrs))
		},
		Fail: func(f stream.Failure) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failures = append(r.failures, f)
			return nil
		},
		Refuse: func(it *stream.Item, cause error) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused = append(r.refused, it)
			r.failures = append(r.failures, stream.Failure{Item: it.ID(), Collection: it.Collection(), Err: cause})
			return nil
		},
		Eval: func(template string, extra map[string]any) (any, error) {
			tm, err := expr.Parse(template)
			if err != nil {
				return nil, err
			}
			return tm.Eval(expr.Vars(extra), expr.Limits{})
		},
	}
	return r
}

// Failures are the failures recorded so far.
func (r *Rig) Failures() []stream.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// Refused are the items that a sink has refused.
func (r *Rig) Refused() []*stream.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}

// Lines are the log lines.
func (r *Rig) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// Open checks and completes a config as the segment does, and opens the component.
func (r *Rig) Open(m stream.Module, config map[string]any) (any, error) {
	checker, err := spec.Compile(m.Spec.Params, m.Spec.OpenParams)
	if err != nil {
		return nil, err
	}
	if problems := checker.Check(config); len(problems) > 0 {
		return nil, fmt.Errorf("%s", problems[0].String())
	}
	return m.Open(context.Background(), r.Env, checker.Apply(config))
}

// Read opens a source and reads it to its end. It returns the items (as texts), the cursors and the error.
func (r *Rig) Read(m stream.Module, config map[string]any, in ...*stream.Item) (items []string, cursors []json.RawMessage, err error) {
	c, err := r.Open(m, config)
	if err != nil {
		return nil, nil, err
	}
	o := &out{rig: r}
	var stream0 iter.Seq[*stream.Item]
	if in != nil {
		stream0 = slices.Values(in)
	}
	err = c.(stream.Source).Read(context.Background(), stream0, o)
	if f, ok := c.(stream.Finisher); ok {
		if _, ferr := f.Finish(err); err == nil {
			err = ferr
		}
	}
	return o.items, o.cursors, err
}

type out struct {
	rig     *Rig
	items   []string
	cursors []json.RawMessage
}

func (o *out) Item(it *stream.Item) error {
	if err := it.Parse(); err != nil {
		return o.Fail(stream.Failure{Err: err, Context: stream.Context{File: it.Place.File, Line: it.Place.Line, URL: it.Place.URL}})
	}
	o.items = append(o.items, string(it.Bytes()))
	return nil
}

func (o *out) Mark(cursor any) error {
	raw, err := json.Marshal(cursor)
	o.cursors = append(o.cursors, raw)
	return err
}

func (o *out) Fail(f stream.Failure) error { return o.rig.Env.Fail(f) }
func (o *out) Expect(int64)                {}

// Item makes an item of a text, which must be a JSON object.
func Item(t testing.TB, text string) *stream.Item {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return stream.New(v, stream.Place{})
}
