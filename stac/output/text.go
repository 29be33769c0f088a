package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// text writes items as lines: format ndjson. It is a durable.Set of files, one per collection or one for all.
type text struct {
	*base
	set    *durable.Set
	recent map[string]*durable.Member // by collection
	of     map[string]string          // the collection of a file, by its destination
}

// textState is the stored state of a text: that of its Set, and the collections of the files.
type textState struct {
	durable.SetState
	Of map[string]string `json:"of,omitempty"`
}

func openText(ctx context.Context, b *base) (*text, error) {
	b.arrange("flat")
	t := &text{base: b, recent: map[string]*durable.Member{}, of: map[string]string{}}
	o := b.files.LineOptions(b.env, b.place.root, t.packing(), b.policy)
	o.Key = func(row *item.Value) (durable.Key, bool) {
		it := stream.New(row, stream.Place{})
		return durable.Key(keyOf(it.Collection(), it.ID(), true)), it.ID() != ""
	}
	var state textState
	known, err := stream.State(b.env.State, &state)
	if err != nil || known && state.Token == "" { // the state of an older version
		return nil, fmt.Errorf("%w: its state is of an older version", stream.ErrStateGone)
	}
	if t.set, err = durable.OpenSet(ctx, o, state.SetState); err != nil {
		return nil, err
	}
	maps.Copy(t.of, state.Of)
	if known := b.fixed(); !b.perUnit || known != "" {
		if err := t.beginFile(known); err != nil {
			return nil, errors.Join(err, t.set.Leave())
		}
	}
	return t, nil
}

// suffixes are those of the names of compressed files.
var suffixes = map[string]string{durable.Gzip: ".gz", durable.Zstd: ".zst"}

// packing is how files are compressed.
func (t *text) packing() string {
	if t.config.Compression == "none" {
		return ""
	}
	return cmp.Or(t.config.Compression, files.CompressionOf(t.config.single()))
}

// dest is the file for a collection's items.
func (t *text) dest(collection string) (string, error) {
	if name := t.config.single(); name != "" {
		return t.place.shown(name), nil
	}
	name := "items.ndjson" + suffixes[t.packing()]
	if !t.perUnit {
		return t.place.shown(name), nil
	}
	u, err := t.unitOf(collection)
	if err != nil {
		return "", err
	}
	return t.place.shown(path.Join(u.Dir, name)), nil
}

// beginFile takes a file for this stream, unless a run before has finished it: then its first item does.
func (t *text) beginFile(collection string) error {
	dest, err := t.dest(collection)
	if err != nil || t.set.Has(dest) {
		return err
	}
	_, err = t.file(collection)
	return err
}

// file is the file for a collection's items, open.
func (t *text) file(collection string) (*durable.Member, error) {
	if !t.perUnit {
		collection = ""
	}
	if m := t.recent[collection]; m != nil {
		return m, nil
	}
	dest, err := t.dest(collection)
	if err != nil {
		return nil, err
	}
	m, err := t.set.File(dest, nil)
	if err == nil {
		t.recent[collection], t.of[dest] = m, collection
	}
	return m, err
}

// Write implements stream.Sink.
func (t *text) Write(_ context.Context, batch []*stream.Item) error {
	for _, it := range batch {
		it, err := t.named(it, t.perUnit)
		if err != nil {
			return err
		}
		if it == nil {
			continue
		}
		if err := t.write(it); err != nil {
			return err
		}
	}
	return nil
}

func (t *text) write(it *stream.Item) error {
	m, err := t.file(it.Collection())
	if err != nil {
		return err
	}
	if hasRelative(it.Bytes()) {
		from, dir := originOf(t.env, it), ""
		if !t.place.away {
			dir = filepath.Dir(m.Dest)
		}
		rebaseAll(it.Value, func(href string) string { return from.rebase(href, dir) })
	}
	err = t.set.Write(m, it.Value)
	if r, ok := errors.AsType[durable.Refusal](err); ok {
		if err = r.Unwrap(); errors.Is(err, durable.ErrSameKey) {
			err = t.errTwice(it)
		}
		t.refused++
		return t.env.Refuse(it, err)
	}
	return err
}

// Commit implements stream.Sink.
func (t *text) Commit(context.Context) (int64, any, error) {
	err := t.set.Sync()
	return t.taken, t.state(), err
}

func (t *text) state() textState { return textState{t.set.State(), t.of} }

// Close implements stream.Sink.
func (t *text) Close(ctx context.Context) (st, outputs any, err error) {
	past, err := t.set.Past(ctx, t.env.Past)
	if t.policy.Mode == durable.Replace && t.perUnit && t.fixed() == "" && !t.later() {
		past = append(past, t.formerFiles(ctx, past)...)
	}
	if err == nil {
		err = t.set.MayReplace(ctx, t.place.shown(t.config.single()), t.env.Given(0), past)
	}
	if err != nil {
		return nil, nil, err
	}
	t.written, t.repeated, t.leftOut = t.set.Written(), t.set.Repeated, t.set.LeftOut
	if _, err := t.set.Publish(ctx); err != nil {
		return nil, nil, err
	}
	for _, dest := range past {
		if err := t.place.discard(ctx, t.place.relative(dest)); err != nil {
			return nil, nil, err
		}
	}
	found, unchecked, err := t.set.Check(ctx)
	if err != nil {
		return nil, nil, err
	}
	t.unchecked = unchecked
	now := stamp(time.Now())
	outputs, err = t.finish(ctx, func(add func(listed)) error {
		for _, f := range found {
			add(listed{Path: t.place.relative(f.Path), Collection: t.of[f.Path], Items: f.Items, Bytes: f.Bytes, Created: now})
		}
		return nil
	})
	if err == nil {
		err = t.set.Done()
	}
	if err != nil {
		return nil, nil, err
	}
	t.abandon()
	return t.state(), outputs, nil
}

// later reports whether the run resumes from a finished one.
func (t *text) later() bool {
	for _, m := range t.set.Order {
		if m.State.Later || m.State.Done {
			return true
		}
	}
	return false
}

// formerFiles are the files in the last manifest, except known ones and those that this run writes.
func (t *text) formerFiles(ctx context.Context, known []string) (dests []string) {
	for _, f := range t.listedBefore(ctx, "") {
		dest := t.place.shown(f.Path)
		if _, name := path.Split(f.Path); strings.HasPrefix(name, "items.ndjson") && !t.set.Has(dest) && !slices.Contains(known, dest) {
			dests = append(dests, dest)
		}
	}
	return dests
}

// Abandon implements stream.Sink.
func (t *text) Abandon() {
	if err := t.set.Leave(); err != nil {
		t.warn("the output was left with an error", err)
	}
	t.abandon()
}
