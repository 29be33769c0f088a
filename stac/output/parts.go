package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

// lying is a part at the place.
type lying struct {
	part
	rel   string
	local string // the file, or a copy of it
	time  time.Time
}

// lying are the parts of a unit at the place, in order of their numbers. Remote ones are fetched.
func (t *table) lying(ctx context.Context, u *unit) ([]lying, error) {
	if found, ok := t.there[u.number]; ok {
		return found, nil
	}
	var out []lying
	rels, err := t.partsAt(ctx, u)
	if err != nil {
		return nil, err
	}
	if err := t.seeVersions(ctx, rels); err != nil { // first: what is read then is not older
		return nil, err
	}
	for rel, number := range rels {
		p := lying{part: part{Number: number}, rel: rel, local: t.place.local(rel)}
		if t.place.away {
			p.local = filepath.Join(t.env.Data, fmt.Sprintf("there-%d-%d.parquet", u.number, number))
			if err := t.fetch(ctx, rel, p.local); err != nil {
				return nil, err
			}
		}
		info, err := os.Stat(p.local)
		if err != nil {
			return nil, err
		}
		p.Size, p.time = info.Size(), info.ModTime()
		if p.Rows, _, err = parquet.Describe(p.local); err != nil {
			return nil, stepwell.Invalid("move it away, or repair it", "%s is there, but cannot be read: %v", t.place.shown(rel), err)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b lying) int { return a.Number - b.Number })
	t.there[u.number] = out
	return out, nil
}

// partsAt are the numbers of the parts of a unit at the place, by path.
func (t *table) partsAt(ctx context.Context, u *unit) (map[string]int, error) {
	pattern, first := path.Join(u.Dir, "items", "part-*.parquet"), ""
	if name := t.config.single(); name != "" {
		ext := path.Ext(name)
		pattern, first = strings.TrimSuffix(name, ext)+"-[0-9][0-9][0-9][0-9][0-9]"+ext, name
	}
	out := map[string]int{}
	for _, p := range []string{pattern, first} {
		if p == "" {
			continue
		}
		found, err := t.files.List(ctx, "", t.place.shown(p))
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			number := 1
			if p != first {
				stem := strings.TrimSuffix(path.Base(filepath.ToSlash(name)), path.Ext(name))
				if _, err := fmt.Sscanf(stem[max(0, len(stem)-5):], "%05d", &number); err != nil {
					continue // not one of ours
				}
			}
			out[t.place.relative(name)] = number
		}
	}
	return out, nil
}

// seeVersions remembers which versions of remote files this run replaces; see durable.Versions.
func (t *table) seeVersions(ctx context.Context, rels map[string]int) error {
	if !t.place.versioned() {
		return nil
	}
	for rel := range rels {
		v, err := t.files.Version(ctx, t.place.shown(rel))
		if err != nil {
			return err
		}
		t.tags[rel] = v.Tag
	}
	return nil
}

// fetch copies a remote file.
func (t *table) fetch(ctx context.Context, rel, to string) error {
	in, _, err := t.files.OpenRaw(ctx, t.place.shown(rel))
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.WriteNew(to, func(f *os.File) error {
		_, err := io.Copy(f, durable.Abortable(ctx, in))
		return err
	})
}

// moves is the end of a run: hidden files to rename, and files to remove. It is stored first, so that an interrupted
// end can be completed.
type moves struct {
	Token  string   `json:"token"`
	Ledger int64    `json:"ledger,omitempty"` // its size, with all items that are published
	Moves  []move   `json:"moves"`
	Remove []string `json:"remove,omitempty"`
}

type move struct {
	From string `json:"from"`          // in Env.Data, of this worker or of one before
	To   string `json:"to"`            // in the place
	Tag  string `json:"tag,omitempty"` // of the version that is replaced, of a remote file
}

func (t *table) movesPath() string { return filepath.Join(t.env.Data, "output.moves.json") }

// cutOff reports whether the run of a state was interrupted while it published, and returns its moves.
func (t *table) cutOff() (*moves, error) {
	var s state
	if known, err := stream.State(t.env.State, &s); !known || err != nil || s.Closed {
		return nil, nil // nolint:nilerr // load returns it
	}
	text, err := os.ReadFile(t.movesPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m moves
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil || m.Token != s.Token {
		return nil, err
	}
	t.published = m.Ledger
	return &m, nil
}

// replay completes publishing. From there this run continues as from a finished one: items that come again, as their
// checkpoint was not written, are known.
func (t *table) replay(ctx context.Context, m *moves) error {
	if err := t.apply(ctx, *m); err != nil {
		return err
	}
	t.later, t.token = true, durable.NewToken()
	return nil
}

// apply moves and removes; completed moves are not repeated.
func (t *table) apply(ctx context.Context, m moves) error {
	for i, one := range m.Moves {
		from := filepath.Join(t.env.Data, filepath.Base(one.From))
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := t.place.bringOver(ctx, from, one.To, one.Tag, fmt.Sprintf("%s-%d", m.Token, i)); err != nil {
			return err
		}
	}
	if len(m.Remove) > 0 {
		if err := t.env.HandOver(ctx); err != nil {
			return err
		}
	}
	for _, rel := range m.Remove {
		if err := t.place.discard(ctx, rel); err != nil {
			return err
		}
	}
	return nil
}

// Close implements stream.Sink.
func (t *table) Close(ctx context.Context) (st, outputs any, err error) {
	if _, err := t.sync(ctx); err != nil {
		return nil, nil, err
	}
	if err := t.mayReplace(ctx); err != nil {
		return nil, nil, err
	}
	if err := t.publish(ctx); err != nil {
		return nil, nil, err
	}
	if t.rejects != nil {
		if _, err := t.rejects.Publish(ctx); err != nil {
			return nil, nil, err
		}
		if err := t.rejects.Done(); err != nil {
			return nil, nil, err
		}
		t.rejected, t.rejects = t.rejects.State(), nil
	}
	outputs, err = t.finish(ctx, func(add func(listed)) error { return t.list(ctx, add) })
	if err != nil {
		return nil, nil, err
	}
	s, err := t.end()
	return s, outputs, err
}

// publish puts the parts of this run in their places.
func (t *table) publish(ctx context.Context) error {
	m := moves{Token: t.token}
	units := slices.Clone(t.units) // in one order for all streams, so that none waits for another that waits for it
	slices.SortFunc(units, func(a, b *unit) int { return strings.Compare(a.Dir, b.Dir) })
	for _, u := range units {
		if u.touched {
			defer t.place.turn(u.Dir)()
		}
	}
	for _, u := range units {
		if !u.touched {
			continue
		}
		delete(t.there, u.number) // others may have written since
		if err := t.finishUnit(ctx, u, &m); err != nil {
			return err
		}
	}
	if _, err := t.commit(); err != nil {
		return err
	}
	m.Ledger = t.ledger.size()
	if err := t.seeTargets(ctx, &m); err != nil {
		return err
	}
	if err := durable.WriteFile(t.movesPath(), func(f *os.File) error { return json.NewEncoder(f).Encode(m) }); err != nil {
		return err
	}
	if err := t.env.HandOver(ctx); err != nil {
		return err
	}
	return t.apply(ctx, m)
}

// seeTargets notes the versions that the moves replace: those that were read, else those that are there now.
func (t *table) seeTargets(ctx context.Context, m *moves) error {
	for i := range m.Moves {
		one := &m.Moves[i]
		if _, seen := t.tags[one.To]; !seen {
			if err := t.seeVersions(ctx, map[string]int{one.To: 0}); err != nil {
				return err
			}
		}
		one.Tag = t.tags[one.To]
	}
	return nil
}

// mayReplace keeps an empty run from removing existing items.
func (t *table) mayReplace(ctx context.Context) error {
	if t.later || t.policy.Mode != durable.Replace {
		return nil
	}
	return t.policy.MayReplace(t.place.shown(t.config.single()), t.env.Given(t.written), func() (bool, error) {
		old, err := t.old(ctx)
		return len(old) > 0, err
	})
}

// old are the parts that a replacing run removes: those of its collections, and, unless it is about one collection
// only, all of the manifest.
func (t *table) old(ctx context.Context) (rels []string, err error) {
	for _, u := range t.units {
		found, err := t.partsAt(ctx, u)
		if err != nil {
			return nil, err
		}
		for rel := range found {
			rels = append(rels, rel)
		}
	}
	if t.config.single() == "" && t.fixed() == "" {
		for _, f := range t.listedBefore(ctx, "") {
			if strings.HasSuffix(f.Path, ".parquet") && !slices.Contains(rels, f.Path) {
				rels = append(rels, f.Path)
			}
		}
	}
	slices.Sort(rels)
	return rels, nil
}

// finishUnit makes the last files of a unit, and says where all of them go.
func (t *table) finishUnit(ctx context.Context, u *unit, m *moves) error {
	keep := t.policy.Mode != durable.Replace || t.later
	var there []lying
	if keep {
		var err error
		if there, err = t.lying(ctx, u); err != nil {
			return err
		}
	}
	one := t.config.single() != "" && t.config.PartRows <= 0
	if one && len(u.Spooled)+len(u.Own) > 0 {
		f, err := t.current(ctx, u)
		if err != nil {
			return err
		}
		for _, p := range there {
			if _, err := t.sift(ctx, u, p, f); err != nil {
				return err
			}
		}
	}
	if err := t.finishSpools(ctx, u); err != nil {
		return err
	}
	if u.Stale && t.policy.Keep == durable.KeepLast {
		if err := t.dropOwn(ctx, u); err != nil {
			return err
		}
	}
	next := 0
	for _, p := range there {
		next = max(next, p.Number)
		if one || t.policy.Mode == durable.Append {
			continue
		}
		if err := t.dropReplaced(ctx, u, p, m); err != nil {
			return err
		}
	}
	if one {
		next = 0
	}
	for i, p := range u.Own {
		m.Moves = append(m.Moves, move{From: t.made(u, p.Number), To: t.file(u, next+1+i)})
	}
	if !keep {
		return t.removeOld(ctx, m)
	}
	return nil
}

// finishSpools makes files of the remaining spools.
func (t *table) finishSpools(ctx context.Context, u *unit) error {
	for len(u.Spooled) > 0 {
		if err := t.finishPart(ctx, u, u.Spooled[0].Number); err != nil {
			return err
		}
	}
	return nil
}

// removeOld adds the removal of files that the run does not rewrite.
func (t *table) removeOld(ctx context.Context, m *moves) error {
	old, err := t.old(ctx)
	if err != nil {
		return err
	}
	m.Remove = m.Remove[:0]
	for _, rel := range old {
		if !slices.ContainsFunc(m.Moves, func(one move) bool { return one.To == rel }) {
			m.Remove = append(m.Remove, rel)
		}
	}
	return nil
}

// dropReplaced writes a part anew that holds items which this run has replaced.
func (t *table) dropReplaced(ctx context.Context, u *unit, p lying, m *moves) error {
	_, own, err := parquet.Describe(p.local) // it stays as it is, but for some rows
	if err != nil {
		return err
	}
	return t.rewrite(ctx, u, own, func(f *geoparquet.File) (int64, error) { return t.sift(ctx, u, p, f) }, func(made string, rows int64) {
		if rows == 0 {
			m.Remove = append(m.Remove, p.rel)
			return
		}
		m.Moves = append(m.Moves, move{From: made, To: p.rel})
	})
}

// rewrite makes a file from fill, unless fill has dropped nothing.
func (t *table) rewrite(ctx context.Context, u *unit, columns parquet.Schema, fill func(*geoparquet.File) (dropped int64, err error), done func(made string, rows int64)) error {
	f, err := t.beginPart(u, columns)
	if err != nil {
		return err
	}
	number := u.Next
	dropped, err := fill(f)
	if err != nil {
		return err
	}
	if dropped > 0 && f.Items > 0 {
		if _, err := t.makePart(ctx, u, number); err != nil {
			return err
		}
	}
	if dropped > 0 {
		done(t.made(u, number), f.Items)
	}
	return t.dropSpool(u, number)
}

// dropOwn writes those parts of this run anew in which items have lost their id to later ones (keep: last). The ledger
// has the items of a unit in the order of its rows.
func (t *table) dropOwn(ctx context.Context, u *unit) error {
	last := map[[16]byte]int64{}
	var order []bool
	for _, see := range []func(r record){func(r record) { last[r.entry.key] = r.at }, func(r record) { order = append(order, last[r.entry.key] == r.at) }} {
		err := t.ledger.each(func(r record) error {
			if r.kind == recordItem && r.at >= max(t.since, t.published) && r.entry.unit == u.number {
				see(r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	at := 0
	for i := range u.Own {
		p := u.Own[i]
		name := t.made(u, p.Number)
		_, columns, err := parquet.Describe(name)
		if err != nil {
			return err
		}
		err = t.rewrite(ctx, u, columns, func(f *geoparquet.File) (dropped int64, err error) {
			err = eachRow(ctx, name, p.Size, func(v *item.Value) error {
				at++
				if at <= len(order) && !order[at-1] { // behind them are those of an earlier run, in an output of one file
					dropped++
					return nil
				}
				return f.Add(v)
			})
			return dropped, err
		}, func(made string, rows int64) {
			u.Own[i] = part{Number: u.Next, Rows: rows}
		})
		if err != nil {
			return err
		}
	}
	u.Own = slices.DeleteFunc(u.Own, func(p part) bool { return p.Rows == 0 })
	return nil
}

// eachRow gives the items of a Parquet file.
func eachRow(ctx context.Context, name string, size int64, row func(*item.Value) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return geoparquet.Each(ctx, f, size, 0, func(text []byte, _ int64) error {
		v, err := item.Parse(text)
		if err != nil {
			return err
		}
		return row(v)
	})
}

// sift adds the items of a part that are still good to another file.
func (t *table) sift(ctx context.Context, u *unit, p lying, to *geoparquet.File) (dropped int64, err error) {
	err = eachRow(ctx, p.local, p.Size, func(v *item.Value) error {
		it := stream.New(v, stream.Place{})
		key, _, _ := t.index.lookup(it.Collection(), it.ID(), valueOf(it.ID(), nil))
		if t.policy.Mode != durable.Append && t.index[key]&thisRun != 0 {
			dropped++
			return nil
		}
		t.summaryOf(&admitted{it: it, unit: u}).Add(v)
		if err := to.Add(v); err != nil {
			return fmt.Errorf("%s, item %s, again: %w", t.place.shown(p.rel), it.ID(), err)
		}
		return nil
	})
	return dropped, err
}

// list adds the parts now on disk.
func (t *table) list(ctx context.Context, add func(listed)) error {
	for _, u := range t.units {
		delete(t.there, u.number)
		there, err := t.lying(ctx, u)
		if err != nil {
			return err
		}
		u.Parts, u.Own, u.changed = nil, nil, true
		for _, p := range there {
			u.Parts = append(u.Parts, p.part)
			add(listed{Path: p.rel, Collection: u.ID, Items: p.Rows, Bytes: p.Size, Created: stamp(p.time)})
			if t.place.away {
				if err := os.Remove(p.local); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
