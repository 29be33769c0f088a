package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// Streams puts the items of tests in the place of sources, and keeps those that sinks get. Modifiers stay what they are.
type Streams struct {
	// Dir is where segments keep their files. Its content is deleted before each test.
	Dir string

	mu   sync.Mutex
	run  *run
	got  map[string][]any // items that sinks got, by step
	lost map[string][]any // items that failed, by step: {item, error}
}

// maxItemFile bounds a file of items, in bytes.
const maxItemFile = 64 << 20

// Replace gives modules whose sources and sinks are those of the test that runs.
func (s *Streams) Replace(modules []stream.Module) []stream.Module {
	out := make([]stream.Module, len(modules))
	for i, m := range modules {
		if role := m.Spec.Stream; role != nil {
			m.Open, m.Try = s.opener(role.Role, m.Spec.Effect, m.Open), nil
			if role.Role == spec.Sink {
				m.Replaces = nil
			}
		}
		out[i] = m
	}
	return out
}

type opener func(ctx context.Context, env *stream.Env, config map[string]any) (any, error)

// opener opens what stands for a component. A modifier is the real one, unless the test gives it items, as where it reads a file.
func (s *Streams) opener(role spec.Role, effect spec.Effect, open opener) opener {
	return func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		outputs, given, err := s.outcome(env.Step)
		if err != nil {
			return nil, err
		}
		n := s.run.t.items[env.Step]
		switch {
		case role == spec.Sink:
			return &collector{s: s, step: env.Step, outputs: outputs}, nil
		case n != nil || given && role == spec.Source:
			items, err := s.read(n)
			return &source{items: items, outputs: outputs}, err
		case role == spec.Source && !s.run.real(env.Step):
			return nil, s.noItems(env.Step)
		case s.run.o.Closed && effect != spec.NoEffect:
			return nil, &stream.Error{Type: stream.ConfigurationError, Err: stepwell.Errorf(stepwell.CodeForbidden, "write what it gives under items: {"+env.Step+": [{id: a}, …]}, or run the test with `stepwell test`",
				"the module of %s may read files or services: it does not run in a test that is sent here", env.Step)}
		}
		part, err := open(ctx, env, config)
		if modifier, ok := part.(stream.Modifier); ok && err == nil && role == spec.Modifier && !s.run.real(env.Step) {
			part = s.modifier(env, modifier)
		}
		return part, err
	}
}

// modifier is a modifier that is no source: one that is both would read what is outside. The items that it fails are kept.
func (s *Streams) modifier(env *stream.Env, m stream.Modifier) any {
	fail := env.Fail
	env.Fail = func(f stream.Failure) error {
		s.fail(env.Step, f.Item, f.Err)
		return fail(f)
	}
	only := modifierOnly{Modifier: m, s: s, step: env.Step}
	if c, ok := m.(stream.CollectionModifier); ok {
		return collectionModifierOnly{only, c}
	}
	return only
}

// fail keeps an item that has failed.
func (s *Streams) fail(step, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[step] = append(s.lost[step], map[string]any{"item": id, "error": fmt.Sprint(err)})
}

// modifierOnly passes on what a modifier has besides Read.
type modifierOnly struct {
	stream.Modifier
	s    *Streams
	step string
}

// Modify implements stream.Modifier.
func (m modifierOnly) Modify(ctx context.Context, it *stream.Item) (*stream.Item, error) {
	out, err := m.Modifier.Modify(ctx, it)
	if err != nil {
		m.s.fail(m.step, it.ID(), err)
	}
	return out, err
}

// Read implements stream.Source.
func (m modifierOnly) Read(context.Context, iter.Seq[*stream.Item], stream.Out) error {
	return m.s.noItems(m.step)
}

// Finish implements stream.Finisher.
func (m modifierOnly) Finish(failed error) (any, error) {
	if f, ok := m.Modifier.(stream.Finisher); ok {
		return f.Finish(failed)
	}
	return nil, nil
}

type collectionModifierOnly struct {
	modifierOnly
	stream.CollectionModifier
}

func (s *Streams) noItems(step string) error {
	return &stream.Error{Type: stream.ConfigurationError, Err: stepwell.Invalid("write items: {"+step+": [{id: a}, …]}", "the source %s has no items", step)}
}

// outcome is that of the mock of a stream step, if it has one: its outputs, or why it cannot work.
func (s *Streams) outcome(step string) (outputs any, given bool, err error) {
	m := s.run.t.find(step, step, "", func(string, string) bool { return false })
	if m == nil {
		return nil, false, nil
	}
	s.run.used[m] = true
	o := m.outcomes[min(s.run.count["stream "+step], len(m.outcomes)-1)]
	s.run.count["stream "+step]++
	if o.Fail != "" {
		return nil, true, errors.New(o.Fail)
	}
	if o.outputs != nil {
		outputs, _, err = valueOf(o.outputs, expr.Vars{"row": any(s.run.t.row), "params": s.run.t.Params})
	}
	return outputs, true, err
}

// begin makes ready for a test.
func (s *Streams) begin(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.got, s.lost = r, map[string][]any{}, map[string][]any{}
	return os.RemoveAll(s.Dir)
}

// read reads items, and those of files.
func (s *Streams) read(n *spec.Node) (out []json.RawMessage, err error) {
	if n == nil {
		return nil, nil
	}
	for _, one := range n.Items {
		if one.Kind == spec.MapNode {
			v, _, err := valueOf(one, nil)
			if err != nil {
				return nil, err
			}
			raw, err := expr.Marshal(v)
			if err != nil {
				return nil, err
			}
			out = append(out, raw)
			continue
		}
		if s.run.o.Closed {
			return nil, &stream.Error{Type: stream.ConfigurationError, Err: stepwell.Errorf(stepwell.CodeForbidden, "write the items themselves: [{id: a}, …]", "items of a test that is sent here are in no file")}
		}
		more, err := itemFile(filepath.Join(filepath.Dir(s.run.t.File), one.Text))
		if err != nil {
			return nil, &stream.Error{Type: stream.ConfigurationError, Err: fmt.Errorf("items in %s: %w", one.Text, err)}
		}
		out = append(out, more...)
	}
	return out, nil
}

// itemFile reads JSON: an object, a list of them, or one on each line.
func itemFile(name string) (out []json.RawMessage, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxItemFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxItemFile {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "the file is larger than %d MiB", maxItemFile>>20)
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '[' {
		return out, json.Unmarshal(raw, &out)
	}
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		var one json.RawMessage
		if err := dec.Decode(&one); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
}

// source gives the items of a test.
type source struct {
	items   []json.RawMessage
	outputs any
}

// Read implements stream.Source.
func (s *source) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	out.Expect(int64(len(s.items)))
	for i, raw := range s.items {
		v, err := item.Parse(raw)
		if err != nil {
			return err
		}
		if err := out.Item(stream.New(v, stream.Place{Line: int64(i + 1)})); err != nil {
			return err
		}
	}
	return nil
}

// Finish implements stream.Finisher.
func (s *source) Finish(error) (any, error) { return s.outputs, nil }

// collector is a sink that keeps items for the test.
type collector struct {
	s       *Streams
	step    string
	outputs any
	n       int64
}

// Write implements stream.Sink.
func (c *collector) Write(_ context.Context, batch []*stream.Item) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, it := range batch {
		v, err := expr.Decode(it.Bytes())
		if err != nil {
			return err
		}
		c.s.got[c.step] = append(c.s.got[c.step], v)
		c.n++
	}
	return nil
}

// Commit implements stream.Sink.
func (c *collector) Commit(context.Context) (int64, any, error) { return c.n, nil, nil }

// Close implements stream.Sink.
func (c *collector) Close(context.Context) (state, outputs any, err error) {
	return nil, c.outputs, nil
}

// Abandon implements stream.Sink.
func (c *collector) Abandon() {}

// compareItems compares the items that sinks got, and the counts of items that failed.
func (r *run) compareItems(c *comparison, e spec.Entry) {
	for _, inner := range entries(e.Value) {
		path := e.Key + "." + inner.Key
		got := map[string][]any{}
		if r.o.Streams != nil {
			got = r.o.Streams.of(e.Key)
		}
		c.value(inner.Value, path, append([]any{}, got[inner.Key]...))
	}
}

// of are the items that sinks got, or that failed.
func (s *Streams) of(key string) map[string][]any {
	if key == "items" {
		return s.got
	}
	for _, list := range s.lost { // of several goroutines: in an order that is always the same
		slices.SortStableFunc(list, func(a, b any) int {
			x, y := a.(map[string]any), b.(map[string]any)
			return cmp.Or(cmp.Compare(fmt.Sprint(x["item"]), fmt.Sprint(y["item"])), cmp.Compare(fmt.Sprint(x["error"]), fmt.Sprint(y["error"])))
		})
	}
	return s.lost
}

// itemFailures are some of the items that failed, for people.
func (r *run) itemFailures() (out []string) {
	if r.o.Streams == nil {
		return nil
	}
	lost := r.o.Streams.of("failures")
	for _, step := range slices.Sorted(maps.Keys(lost)) {
		for _, one := range lost[step][:min(5, len(lost[step]))] {
			m := one.(map[string]any)
			out = append(out, fmt.Sprintf("%s: item %v failed: %v", step, m["item"], m["error"]))
		}
	}
	return out
}
