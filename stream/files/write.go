package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
)

const (
	maxOutputs  = 500 // each takes two open files
	tokenLength = 12
	journalName = "stream.write.closed.json"
)

// writer is the sink of stream.write.
//
// All items go to a hidden spool, whose name holds the token of the state, so that nobody else's is taken for
// it. Commit writes blocks that stand for themselves and syncs; its state is the offsets, at which a later
// writer cuts the spools. Close ends the spools and renames them. Between the renaming and the moment in which
// the state of Close is kept, a crash leaves a state that tells of spools which are files by now: what their
// sizes are is noted in a journal before, so that they are recognised and cut in the same way.
type writer struct {
	env     *stream.Env
	places  *Places
	target  target
	packer  *packer
	token   string
	outputs map[string]*output // by path
	recent  map[string]*output // those that are open, by collection
	order   []*output
	written int64
}

// writerState is what Env.State holds: the files by path.
type writerState struct {
	Token string               `json:"token"`
	Files map[string]fileState `json:"files"`
}

func openWriter(ctx context.Context, p *Places, env *stream.Env, config map[string]any) (w *writer, err error) {
	w = &writer{env: env, places: p, outputs: map[string]*output{}, recent: map[string]*output{}}
	if w.target, err = targetOf(config); err != nil {
		return nil, err
	}
	packing := w.target.packing
	if w.target.format == formatParquet {
		packing = packZstd // of the spool
	}
	if w.packer, err = newPacker(packing); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.leave())
		}
	}()
	var state writerState
	found, err := stream.State(env.State, &state)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if found {
		return w, w.goOn(ctx, state)
	}
	token := make([]byte, tokenLength/2)
	if _, err := rand.Read(token); err != nil {
		return nil, err
	}
	w.token = hex.EncodeToString(token)
	if strings.Contains(w.target.path, perCollection) {
		return w, nil
	}
	_, err = w.output(ctx, w.resolve(""))
	return w, err
}

// goOn takes up what the state tells of.
func (w *writer) goOn(ctx context.Context, state writerState) error {
	w.token = state.Token
	var closed writerState
	raw, err := os.ReadFile(filepath.Join(w.env.Data, journalName))
	if err == nil {
		err = json.Unmarshal(raw, &closed)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", journalName, err)
	}
	if closed.Token != state.Token {
		closed.Files = nil // of another beginning
	}
	for _, dest := range slices.Sorted(maps.Keys(state.Files)) {
		o := w.add(dest)
		if o.state = state.Files[dest]; !o.state.Done {
			found, err := o.goOn(ctx)
			if err != nil {
				return err
			}
			if found {
				continue
			}
			if _, ok := closed.Files[dest]; !ok {
				return stream.ErrStateGone
			}
			o.state.Size, o.state.Done = -1, true // one of the journal's
		}
		if err := w.stillThere(ctx, o, closed.Files[dest]); err != nil {
			return err
		}
		if err := o.tidy(); err != nil {
			return err
		}
	}
	return nil
}

// stillThere looks whether a finished file is as it was left: by the state, or by a Close after it.
func (w *writer) stillThere(ctx context.Context, o *output, closed fileState) error {
	if o.state.Items == 0 && o.state.Size == 0 && w.target.format == formatParquet && closed.Size == 0 {
		return nil // there never was one
	}
	in, info, err := w.places.OpenRaw(ctx, o.dest)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return stream.ErrStateGone
	}
	if err != nil {
		return err
	}
	// Items tell which is later: the offset in a spool may shrink when the items of several blocks come into one.
	later := closed.Done && closed.Items >= o.state.Items && (info.Size == closed.Size || info.Size == closed.Was)
	if info.Size != o.state.Size && !later {
		err = stream.ErrStateGone
	}
	o.state.Size = info.Size
	return errors.Join(err, in.Close())
}

// resolve is the path for a collection's items. What is no good in a file's name is written as %XX.
func (w *writer) resolve(collection string) string {
	path := strings.ReplaceAll(w.target.path, perCollection, fileName(collection))
	if isS3(path) {
		return path
	}
	return w.env.Path(path)
}

// fileName writes a collection's id so that different ids stay different, also where file names ignore what
// is unusual.
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

func (w *writer) add(dest string) *output {
	o := &output{places: w.places, dest: dest, spool: spoolPath(dest, w.env.Data, w.token), target: w.target, packer: w.packer}
	w.outputs[dest] = o
	w.order = append(w.order, o)
	return o
}

// output is the file at dest, open.
func (w *writer) output(ctx context.Context, dest string) (*output, error) {
	o := w.outputs[dest]
	switch {
	case o != nil && o.f != nil:
		return o, nil
	case o != nil:
		if err := w.env.Claims(dest); err != nil {
			return nil, err
		}
		if err := o.reopen(ctx); err != nil {
			return nil, fmt.Errorf("take up %s: %w", shown(dest), err)
		}
		return o, nil
	case len(w.order) == maxOutputs:
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("more than %d collections, one file each", maxOutputs),
			Hint: "write them into one file, or in several runs"}
	}
	if err := w.env.Claims(dest); err != nil {
		return nil, err
	}
	o = w.add(dest)
	return o, o.begin(ctx)
}

// Write implements stream.Sink.
func (w *writer) Write(ctx context.Context, batch []*stream.Item) error {
	for _, it := range batch {
		w.written++
		collection := ""
		if strings.Contains(w.target.path, perCollection) {
			if collection = w.collection(it); collection == "" {
				if err := w.env.Refuse(it, invalid("the item names no collection, which the path needs", "set `collection` in a step before")); err != nil {
					return err
				}
				continue
			}
		}
		o := w.recent[collection]
		if o == nil {
			var err error
			if o, err = w.output(ctx, w.resolve(collection)); err != nil {
				return err
			}
			w.recent[collection] = o
		}
		err := o.put(it.Value, max(blockSize/16, min(blockSize, 16*blockSize/len(w.order))))
		if r, ok := errors.AsType[refusal](err); ok {
			err = w.env.Refuse(it, r.error)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) collection(it *stream.Item) string {
	if id := it.Collection(); id != "" {
		return id
	}
	id, _ := w.env.Collection["id"].(string)
	return id
}

// Commit implements stream.Sink.
func (w *writer) Commit(context.Context) (int64, any, error) {
	for _, o := range w.order {
		if err := o.sync(); err != nil {
			return 0, nil, err
		}
	}
	return w.written, w.state(), nil
}

func (w *writer) state() writerState {
	s := writerState{Token: w.token, Files: make(map[string]fileState, len(w.order))}
	for _, o := range w.order {
		s.Files[o.dest] = o.state
	}
	return s
}

// Close implements stream.Sink.
func (w *writer) Close(ctx context.Context) (state, outputs any, err error) {
	made := map[*output]string{}
	var empty []*output // that begin anew and can have no file
	for _, o := range w.order {
		if o.f == nil {
			continue // nothing has come for it
		}
		if o.items == 0 && w.target.format == formatParquet {
			w.env.Log(slog.LevelWarn, "no items, so there is no Parquet file", slog.String("path", o.dest))
			if !o.state.Later {
				empty = append(empty, o)
			}
			o.fresh = true // its spool goes
			o.state = fileState{Done: true}
			continue
		}
		if made[o], err = o.complete(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := w.journal(); err != nil {
		return nil, nil, err
	}
	for _, o := range w.order {
		if path, ok := made[o]; ok {
			if err := o.publish(ctx, path); err != nil {
				return nil, nil, err
			}
		}
	}
	removed, err := w.removeOld(ctx, empty)
	if err != nil {
		return nil, nil, err
	}
	return w.state(), w.manifest(removed), w.leave()
}

// removeOld takes away the files of earlier runs under the names of outputs that have none: rows that are not of
// this run must not be taken for its result.
func (w *writer) removeOld(ctx context.Context, empty []*output) (removed []any, err error) {
	for _, o := range empty {
		was, err := o.removeOld(ctx)
		if err != nil {
			return nil, fmt.Errorf("take away the old %s, as no items came: %w", shown(o.dest), err)
		}
		if was {
			w.env.Log(slog.LevelWarn, "the Parquet file of an earlier run was removed", slog.String("path", o.dest))
			removed = append(removed, o.dest)
		}
	}
	return removed, nil
}

// journal notes what the finished files will be.
func (w *writer) journal() error {
	raw, err := json.Marshal(w.state())
	if err != nil {
		return err
	}
	path := filepath.Join(w.env.Data, journalName)
	if err := os.WriteFile(path+".tmp", raw, 0o600); err != nil {
		return err
	}
	if err := syncPath(path + ".tmp"); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncPath(w.env.Data)
}

func (w *writer) manifest(removed []any) map[string]any {
	files, items := []any{}, int64(0)
	for _, o := range w.order {
		items += o.state.Items
		if o.state.Size > 0 || o.state.Items > 0 || w.target.format != formatParquet {
			files = append(files, map[string]any{"path": o.dest, "items": o.state.Items, "bytes": o.state.Size})
		}
	}
	out := map[string]any{"items": items, "files": files}
	if removed != nil {
		out["removed"] = removed
	}
	return out
}

// Abandon implements stream.Sink.
func (w *writer) Abandon() {
	if err := w.leave(); err != nil {
		w.env.Log(slog.LevelWarn, "the output was left with an error", slog.String("error", err.Error()))
	}
}

func (w *writer) leave() error {
	var errs []error
	for _, o := range w.order {
		errs = append(errs, o.leave())
	}
	return errors.Join(errs...)
}
