package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/parquet"
)

// table writes stac-geoparquet files: format parquet. Items wait in spools, which are durable at Commit; a part file is
// made when its spool is full, or at the end. It is hidden until the run ends: then the parts are added to the existing
// ones or replace them, and existing parts with items that this run replaces are rewritten without them.
type table struct {
	*base
	options geoparquet.Options
	rejects *durable.Set           // of one file; nil: misfits are only failures
	columns map[int]parquet.Schema // of the parts so far, by unit, once they are needed
	there   map[int][]lying        // the parts at the place, by unit, once they are needed
	tags    map[string]string      // of the versions of remote parts that were read, by path
}

// maxSeveral bounds the collections that one file of all describes.
const maxSeveral = 1000

var columnKinds = map[string]parquet.Kind{"string": parquet.Text, "int": parquet.Int, "double": parquet.Double,
	"bool": parquet.Bool, "timestamp": parquet.Timestamp, "json": parquet.JSON}

func openTable(ctx context.Context, b *base) (*table, error) {
	c := &b.config
	b.arrange("flat")
	b.anew = true
	t := &table{base: b, columns: map[int]parquet.Schema{}, there: map[int][]lying{}, tags: map[string]string{}, options: geoparquet.Options{RowGroup: c.RowGroup}}
	switch c.Schema {
	case "first_n":
		t.options.FirstN = c.FirstN
	case "fixed":
		t.options.Schema = parquet.Schema{}
		for name, kind := range c.Columns {
			t.options.Schema = append(t.options.Schema, parquet.Field{Name: name, Type: &parquet.Type{Kind: columnKinds[kind]}})
		}
		slices.SortFunc(t.options.Schema, func(x, y parquet.Field) int { return cmp.Compare(x.Name, y.Name) })
	}
	if c.Mixed == "json" {
		t.options.Conflict = parquet.AsJSON
	}
	cutOff, err := t.cutOff()
	if err == nil {
		err = b.load()
	}
	if err != nil {
		return nil, err
	}
	if err := t.reopen(ctx, cutOff); err != nil {
		t.closeFiles()
		return nil, err
	}
	return t, nil
}

// reopen opens the files of the state.
func (t *table) reopen(ctx context.Context, cutOff *moves) (err error) {
	if cutOff != nil {
		if err := t.replay(ctx, cutOff); err != nil {
			return err
		}
	}
	for _, u := range t.units {
		if cutOff != nil {
			u.Spooled, u.Own, u.changed = nil, nil, true
			continue
		}
		if t.closed {
			if err := t.verify(ctx, u); err != nil {
				return err
			}
			continue
		}
		for _, p := range u.Own {
			if info, err := os.Stat(t.made(u, p.Number)); err != nil || info.Size() != p.Size {
				return fmt.Errorf("%w: %s was changed or is missing", stream.ErrStateGone, t.made(u, p.Number))
			}
		}
		if len(u.Spooled) == 0 {
			continue
		}
		if err := t.place.lockUnit(u.Dir); err != nil {
			return err
		}
		if err := t.reopenParts(u); err != nil {
			return err
		}
	}
	if err := t.openRejects(ctx); err != nil {
		return err
	}
	return t.openUnit()
}

// verify checks that the parts published by a run still exist. A file that is upserted into or appended to may have
// rows of others, but never loses any.
func (t *table) verify(ctx context.Context, u *unit) error {
	was, now := int64(0), int64(0)
	for _, p := range u.Parts {
		was += p.Rows
	}
	there, err := t.lying(ctx, u)
	if err != nil {
		return err
	}
	same := len(there) == len(u.Parts)
	for i, p := range there {
		now += p.Rows
		same = same && p.Size == u.Parts[i].Size
	}
	if same || t.policy.Mode != durable.Replace && now >= was {
		return nil
	}
	return fmt.Errorf("%w: %s was changed or is missing", stream.ErrStateGone, t.place.shown(t.file(u, 1)))
}

// reopenParts opens a unit's spools. A full one may have become a file just when the run was cut off: with the rows of the
// state, and no more, it is good.
func (t *table) reopenParts(u *unit) error {
	u.live = map[int]*geoparquet.File{}
	left := u.Spooled
	u.Spooled = nil // one after the other, each knows the columns of those before
	for _, s := range left {
		known, err := t.known(context.Background(), u)
		if err != nil {
			return err
		}
		o := t.options
		o.Resume, o.Known = &s.State, known
		f, err := geoparquet.New(t.spool(u, s.Number), o)
		if err == nil {
			u.live[s.Number] = f
			u.Spooled = append(u.Spooled, s)
			continue
		}
		if !errors.Is(err, durable.ErrGone) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		gone := fmt.Errorf("%w: %w", stream.ErrStateGone, err)
		made, rows, more := t.made(u, s.Number), int64(-1), parquet.Schema(nil)
		info, err := os.Stat(made)
		if err == nil && t.config.PartRows > 0 { // else the run has one part, which takes more items
			if rows, more, err = parquet.Describe(made); err != nil {
				return err
			}
		}
		if rows != s.State.Rows {
			return gone
		}
		t.columns[u.number] = known.Join(more)
		u.Own, u.changed = append(u.Own, part{Number: s.Number, Rows: rows, Size: info.Size()}), true
	}
	return nil
}

// made is where a part of this run waits until the run ends.
func (t *table) made(u *unit, number int) string {
	return filepath.Join(t.env.Data, fmt.Sprintf("made-%s-%d-%d.parquet", t.token, u.number, number))
}

// file is a part's file.
func (t *table) file(u *unit, number int) string {
	if name := t.config.single(); name != "" {
		if number == 1 || t.config.PartRows <= 0 {
			return name
		}
		ext := path.Ext(name)
		return fmt.Sprintf("%s-%05d%s", name[:len(name)-len(ext)], number, ext)
	}
	return path.Join(u.Dir, "items", fmt.Sprintf("part-%05d.parquet", number))
}

// spool is the directory of a part that is not written yet.
func (t *table) spool(u *unit, number int) string {
	return filepath.Join(t.env.Data, "table-"+strconv.Itoa(u.number)+"-"+strconv.Itoa(number))
}

// beginPart begins a part, with columns that are known.
func (t *table) beginPart(u *unit, known parquet.Schema) (*geoparquet.File, error) {
	u.Next++
	dir := t.spool(u, u.Next)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	o := t.options
	o.Known = known
	f, err := geoparquet.New(dir, o)
	if err != nil {
		return nil, err
	}
	if u.live == nil {
		u.live = map[int]*geoparquet.File{}
	}
	u.live[u.Next], u.changed = f, true
	u.Spooled = append(u.Spooled, spooled{Number: u.Next})
	return f, nil
}

// current is the part that takes items.
func (t *table) current(ctx context.Context, u *unit) (*geoparquet.File, error) {
	if n := len(u.Spooled); n > 0 {
		f := u.live[u.Spooled[n-1].Number]
		if t.config.PartRows <= 0 || f.Items < t.config.PartRows {
			return f, nil
		}
	}
	known, err := t.known(ctx, u)
	if err != nil {
		return nil, err
	}
	return t.beginPart(u, known)
}

// Write implements stream.Sink.
func (t *table) Write(ctx context.Context, batch []*stream.Item) error {
	t.ledger.add(record{kind: recordTime, time: time.Now().UnixMilli()})
	for _, it := range batch {
		a, err := t.admit(it, t.perUnit)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if err := t.add(ctx, a); err != nil {
			return err
		}
	}
	return t.ledger.flush(bufferedLedger)
}

func (t *table) add(ctx context.Context, a *admitted) error {
	f, err := t.current(ctx, a.unit)
	if err != nil {
		return err
	}
	if hasRelative(a.it.Bytes()) {
		from, dir := originOf(t.env, a.it), ""
		if !t.place.away {
			dir = filepath.Dir(t.place.local(t.file(a.unit, 2)))
		}
		rebaseAll(a.it.Value, func(href string) string { return from.rebase(href, dir) })
	}
	err = f.Add(a.it.Value)
	if misfit, ok := errors.AsType[durable.Refusal](err); ok {
		if err := t.setAside(a); err != nil {
			return err
		}
		return t.reject(a, explain(misfit.Unwrap()))
	}
	if err != nil {
		return err
	}
	if t.summaryOf(a).Add(a.it.Value) {
		a.unit.changed = true
	}
	if a.old == updated {
		a.unit.Stale, a.unit.changed = true, true
	}
	t.ledger.add(record{kind: recordItem, entry: entry{key: a.key, value: a.val, unit: a.unit.number}})
	t.written++
	return nil
}

// summaryOf is the summary of the item's collection.
func (t *table) summaryOf(a *admitted) *summary.Summary {
	collection := a.it.Collection()
	if t.perUnit || collection == "" {
		return &a.unit.Summary
	}
	if a.unit.Several == nil {
		a.unit.Several = map[string]*summary.Summary{}
	}
	s := a.unit.Several[collection]
	if s == nil {
		s = &summary.Summary{}
		if len(a.unit.Several) < maxSeveral {
			a.unit.Several[collection] = s
		}
	}
	return s
}

// Commit implements stream.Sink. A full part is made by the Commit after the one that has committed its whole spool:
// its content is certain then, so that a run interrupted in between finds it.
func (t *table) Commit(ctx context.Context) (int64, any, error) {
	s, err := t.sync(ctx)
	return t.taken, s, err
}

func (t *table) sync(ctx context.Context) (state, error) {
	for _, u := range t.units {
		for i := 0; i < len(u.Spooled); {
			s := &u.Spooled[i]
			f := u.live[s.Number]
			if full := i < len(u.Spooled)-1 && s.State.Rows == f.Items; full {
				if err := t.finishPart(ctx, u, s.Number); err != nil {
					return state{}, err
				}
				continue // it has left the list
			}
			now, err := f.Commit()
			if err != nil {
				return state{}, err
			}
			if now != s.State {
				s.State, u.changed = now, true
			}
			i++
		}
	}
	if t.rejects != nil {
		if err := t.rejects.Sync(); err != nil {
			return state{}, err
		}
		t.rejected = t.rejects.State()
	}
	return t.commit()
}

// finishPart makes the file of a part, unless it is empty.
func (t *table) finishPart(ctx context.Context, u *unit, number int) error {
	if u.live[number].Items == 0 {
		return t.dropSpool(u, number)
	}
	p, err := t.makePart(ctx, u, number)
	if err != nil {
		return err
	}
	u.Own = append(u.Own, p)
	return t.dropSpool(u, number)
}

// makePart makes the file of a part from its spool.
func (t *table) makePart(ctx context.Context, u *unit, number int) (part, error) {
	stats, err := u.live[number].Close(ctx, t.made(u, number), t.collections(u))
	return part{Number: number, Rows: stats.Items, Size: stats.Bytes}, err
}

// dropSpool removes the spool of a part.
func (t *table) dropSpool(u *unit, number int) error {
	err := u.live[number].Discard()
	delete(u.live, number)
	u.Spooled, u.changed = slices.DeleteFunc(u.Spooled, func(s spooled) bool { return s.Number == number }), true
	return errors.Join(err, os.RemoveAll(t.spool(u, number)))
}

// collections are the descriptions that go into a file.
func (t *table) collections(u *unit) map[string]*item.Value {
	of := u.Several
	if t.perUnit && u.ID != "" {
		of = map[string]*summary.Summary{u.ID: &u.Summary}
	}
	out := map[string]*item.Value{}
	for id, s := range of {
		out[id] = t.collectionOf(id, s, nil)
		summary.Merge(out[id], s)
	}
	return out
}

func (t *table) closeFiles() {
	for _, u := range t.units {
		for _, f := range u.live {
			if err := f.Leave(); err != nil {
				t.warn("a part was left with an error", err)
			}
		}
	}
	if t.rejects != nil {
		if err := t.rejects.Leave(); err != nil {
			t.warn("the file of rejects was left with an error", err)
		}
	}
}

// openRejects begins the file of rejects, or goes on with it. It appears under its name when the run ends.
func (t *table) openRejects(ctx context.Context) (err error) {
	if t.config.Rejects == "" {
		return nil
	}
	dest := t.env.Path(t.config.Rejects)
	var older struct {
		Rejects struct{ Size int64 } // of versions that let the file grow in its place
	}
	if _, err := stream.State(t.env.State, &older); err != nil || older.Rejects.Size > 0 {
		return fmt.Errorf("%w: %s is of an older version", stream.ErrStateGone, dest)
	}
	o := t.files.LineOptions(t.env, dest, files.CompressionOf(dest), durable.Policy{Mode: durable.Replace})
	if t.rejects, err = durable.OpenSet(ctx, o, t.rejected); err != nil || t.rejects.Has(dest) {
		return err
	}
	_, err = t.rejects.File(dest, nil)
	return err
}

// setAside puts an item that does not fit into the file of rejects.
func (t *table) setAside(a *admitted) error {
	if t.rejects == nil {
		return nil
	}
	m, err := t.rejects.File(t.env.Path(t.config.Rejects), nil)
	if err != nil {
		return err
	}
	return t.rejects.Write(m, a.it.Value)
}

// Abandon implements stream.Sink.
func (t *table) Abandon() {
	t.closeFiles()
	t.abandon()
}
