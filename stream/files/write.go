package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

const journalName = "stream.write.closed.json"

// writer is the sink of stream.write: a durable.Set of files.
type writer struct {
	env     *stream.Env
	places  *Places
	target  target
	set     *durable.Set
	recent  map[string]*durable.Member // by collection
	written int64                      // items that Write was given
}

func openWriter(ctx context.Context, p *Places, env *stream.Env, t target) (*writer, error) {
	w := &writer{env: env, places: p, target: t, recent: map[string]*durable.Member{}}
	var state durable.SetState
	found, err := stream.State(env.State, &state)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if w.set, err = durable.OpenSet(ctx, w.options(), state); err != nil {
		return nil, err
	}
	if found || strings.Contains(w.target.path, perCollection) {
		return w, nil
	}
	if _, err = w.file(ctx, ""); err != nil {
		return nil, errors.Join(err, w.set.Leave())
	}
	return w, nil
}

func (w *writer) options() *durable.SetOptions {
	o := w.places.setOptions(w.env, &w.target)
	if len(w.target.key) > 0 {
		o.Key = w.target.keyOf
	}
	return o
}

// setOptions are those of the files of a target.
func (p *Places) setOptions(env *stream.Env, t *target) *durable.SetOptions {
	format := rowFormat{p, t}
	return &durable.SetOptions{Policy: t.policy, Journal: journalName, Claim: env.Claims, HandOver: env.Hand, LockPath: lockPath,
		Options: durable.Options{Places: p, Format: format, Packing: t.packing, Remote: isS3(t.path), Data: env.Data},
		Lock: func(dest string, alone bool, clear func() error) (*durable.Lock, error) {
			return p.Lock(dest, env.Run, alone, clear)
		},
		Count: func(ctx context.Context, dest string) (int64, bool, error) {
			return p.Count(ctx, dest, format.shape(t.format))
		}}
}

// LineOptions are those of a durable.Set of NDJSON files below root; packing is a compression as durable has it.
func (p *Places) LineOptions(env *stream.Env, root, packing string, policy durable.Policy) *durable.SetOptions {
	return p.setOptions(env, &target{path: root, format: formatNDJSON, packing: packing, policy: policy})
}

// file is the file for a collection's items, open.
func (w *writer) file(ctx context.Context, collection string) (*durable.Member, error) {
	dest := w.resolve(collection)
	return w.set.File(dest, func() error { return w.vacant(ctx, dest) })
}

// resolve is the path for a collection's items. Characters unfit for a file's name are written as %XX.
func (w *writer) resolve(collection string) string {
	path := strings.ReplaceAll(w.target.path, perCollection, fileName(collection))
	if isS3(path) {
		return path
	}
	return w.env.Path(path)
}

// fileName encodes a collection's id so that different ids stay different, also on file systems that ignore case or
// reject characters.
func fileName(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; c < ' ' || strings.IndexByte(`/\%:*?"<>|`, c) >= 0 || c == 0x7f || i == 0 && c == '.' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(id[i])
	}
	return b.String()
}

// vacant checks that a file can be written and, with overwrite off, is not there: else that would show after all items.
func (w *writer) vacant(ctx context.Context, dest string) error {
	if isS3(dest) {
		if err := w.places.hasBucket(ctx, dest); err != nil {
			return err
		}
	} else if info, err := os.Stat(dest); err == nil && info.IsDir() {
		return stepwell.Invalid("write the path of a file", "%s is a directory", dest)
	}
	if w.target.overwrite {
		return nil
	}
	in, _, err := w.places.OpenRaw(ctx, dest)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	return errors.Join(in.Close(), &stepwell.Error{Code: stepwell.CodeConflict, Message: dest + " is there already", Hint: "take it away, or set `overwrite: true`"})
}

// Write implements stream.Sink.
func (w *writer) Write(ctx context.Context, batch []*stream.Item) error {
	for _, it := range batch {
		w.written++
		m, err := w.fileOf(ctx, it)
		if err == nil {
			err = w.set.Write(m, it.Value)
		}
		if r, ok := errors.AsType[durable.Refusal](err); ok {
			err = w.env.Refuse(it, w.explain(r.Unwrap()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// explain says more about an item that is refused for its key.
func (w *writer) explain(err error) error {
	switch {
	case errors.Is(err, durable.ErrNoKey):
		return stepwell.Invalid("set it in a step before", "the item has no %s, which is its key", w.target.keyText())
	case errors.Is(err, durable.ErrSameKey):
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "another item of this run has the same " + w.target.keyText(),
			Hint: "`keep: first` or `keep: last` keeps one of them"}
	}
	return err
}

// fileOf is the file that an item goes into.
func (w *writer) fileOf(ctx context.Context, it *stream.Item) (*durable.Member, error) {
	collection := ""
	if strings.Contains(w.target.path, perCollection) {
		if collection = w.collection(it); collection == "" {
			return nil, durable.Refuse(stepwell.Invalid("set `collection` in a step before", "the item names no collection, which the path needs"))
		}
	}
	m := w.recent[collection]
	if m == nil {
		var err error
		if m, err = w.file(ctx, collection); err != nil {
			return nil, err
		}
		w.recent[collection] = m
	}
	return m, nil
}

func (w *writer) collection(it *stream.Item) string {
	if id := it.Collection(); id != "" {
		return id
	}
	id, _ := w.env.Collection["id"].(string)
	return id
}

// keyOf is the key of an item or a row: the texts of its members, in which 1 and "1" are the same.
func (t *target) keyOf(row *item.Value) (durable.Key, bool) {
	text := make([]byte, 0, 128)
	for i, path := range t.key {
		v := row.Get(t.keyNames[i])
		if v == nil {
			v = row.Find(path)
		}
		switch v.Kind() {
		case item.Text:
			s, _ := v.Str()
			text = append(text, s...)
		case item.Number, item.Bool:
			text = append(text, v.Bytes()...)
		default:
			return durable.Key{}, false
		}
		text = append(text, 0)
	}
	return xxh3.Hash128(text).Bytes(), true
}

func (t *target) keyText() string { return strings.Join(t.keyNames, ", ") }

// Commit implements stream.Sink.
func (w *writer) Commit(context.Context) (int64, any, error) {
	err := w.set.Sync()
	return w.written, w.set.State(), err
}

// Close implements stream.Sink.
func (w *writer) Close(ctx context.Context) (state, outputs any, err error) {
	past, err := w.set.Past(ctx, w.env.Past)
	if err != nil {
		return nil, nil, err
	}
	if err := w.set.MayReplace(ctx, shown(w.target.path), w.env.Given(0), past); err != nil {
		return nil, nil, err
	}
	empty, err := w.set.Publish(ctx)
	if err != nil {
		return nil, nil, err
	}
	removed, err := w.removeOld(ctx, append(past, empty...))
	if err != nil {
		return nil, nil, err
	}
	out, err := w.manifest(ctx, removed)
	if err != nil {
		return nil, nil, err
	}
	return w.set.State(), out, w.set.Done()
}

// removeOld removes the files of earlier runs under the names of outputs that have no rows, and those of collections that
// this run does not have, unless overwrite is off: rows that are not of this run must not be taken for its result.
func (w *writer) removeOld(ctx context.Context, old []string) (removed []any, err error) {
	for _, dest := range old {
		if !w.target.overwrite {
			continue
		}
		was, err := w.places.Remove(ctx, dest)
		if err != nil {
			return nil, fmt.Errorf("take away the old %s, as no items came: %w", shown(dest), err)
		}
		if was {
			w.env.Log(slog.LevelWarn, "the file of an earlier run was removed", slog.String("path", dest))
			removed = append(removed, dest)
		}
	}
	return removed, nil
}

// manifest describes the files on disk.
func (w *writer) manifest(ctx context.Context, removed []any) (map[string]any, error) {
	found, unchecked, err := w.set.Check(ctx)
	if err != nil {
		return nil, err
	}
	files, items := []any{}, int64(0)
	for _, f := range found {
		items += f.Items
		files = append(files, map[string]any{"path": f.Path, "items": f.Items, "bytes": f.Bytes})
	}
	if len(files) == 0 && w.target.format == formatParquet {
		w.env.Log(slog.LevelWarn, "no items, so there is no Parquet file", slog.String("path", w.target.path))
	}
	out := map[string]any{"items": items, "files": files, "items_not_checked": unchecked}
	if len(w.target.key) > 0 {
		out["items_repeated"], out["items_left_out"] = w.set.Repeated, w.set.LeftOut
	}
	if removed != nil {
		out["removed"] = removed
	}
	return out, nil
}

// Abandon implements stream.Sink.
func (w *writer) Abandon() {
	if err := w.set.Leave(); err != nil {
		w.env.Log(slog.LevelWarn, "the output was left with an error", slog.String("error", err.Error()))
	}
}
