package output

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

// tree writes one file per item: formats json and catalog.
type tree struct {
	*base
	jobs  []job
	bytes int     // of the items in jobs
	nodes []*node // of a catalog
	split split
	named map[string]*node // by directory, folded
	dead  map[string]bool  // files of items that have moved
	where map[uint64]int   // the nodes of items that are there from earlier runs, by unit and name
	// staging is the lock of the stage, once there is one.
	staging *flock.Flock
}

// job is an item on its way to its file.
type job struct {
	*admitted
	node *node
	name string
	rel  string
	size int64
	// taken says that an item of another collection has the file.
	taken bool
}

// writers is how many files are written at a time. Most of the time they wait for the disk.
const writers = 16

// maxPending bounds the text of the items that wait to be written.
const maxPending = 32 << 20

const (
	collectionFile = "collection.json"
	catalogFile    = "catalog.json"
	mediaJSON      = "application/json"
	mediaItem      = "application/geo+json"
)

func openTree(b *base) (*tree, error) {
	t := &tree{base: b, named: map[string]*node{}, dead: map[string]bool{}, where: map[uint64]int{}}
	c := &b.config
	b.arrange("item_id")
	b.shared = !b.perUnit
	var err error
	if t.split, err = parseSplit(c.Split); err != nil {
		return nil, err
	}
	b.resumed = t.seen
	if err := b.load(); err != nil {
		return nil, err
	}
	b.resumed = nil
	if b.policy.Mode == durable.Replace && !b.later {
		t.place.stage = t.stageDir()
	}
	if err := t.resumeStage(); err != nil {
		return nil, err
	}
	if err := t.verify(); err != nil {
		t.releaseStage()
		return nil, err
	}
	if err = b.openUnit(); err != nil {
		t.releaseStage()
	}
	return t, err
}

// seen rebuilds nodes from a record of the ledger.
func (t *tree) seen(r record) {
	switch r.kind {
	case recordNode:
		n := &node{number: r.number, unit: r.entry.unit, parent: r.parent, dir: r.text, changed: r.at >= t.since}
		t.addNode(n)
		if parent := t.nodeAt(n.parent); parent != nil && n.changed {
			parent.changed = true
		}
	case recordItem:
		if n := t.nodeAt(r.entry.node); n != nil {
			n.offsets = append(n.offsets, r.at)
			n.count++
			n.changed = n.changed || r.at >= t.since
		}
	}
}

// verify finds out whether the output is still as it was left: all files when there are not many, else
// some of every part.
func (t *tree) verify() error {
	if len(t.index) == 0 || t.place.away {
		return nil
	}
	stride, n := max(1, len(t.index)/50_000), 0
	return t.ledger.each(func(r record) error {
		if r.kind != recordItem {
			return nil
		}
		if !t.index.current(r.entry) {
			return nil
		}
		if n++; n%stride != 0 {
			return nil
		}
		rel := t.pathOf(r.entry)
		_, err := os.Stat(t.place.at(rel))
		if err != nil && t.place.stage != "" && !t.place.away { // it has been published, and then the run was cut off
			_, err = os.Stat(t.place.local(rel))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", stream.ErrStateGone, err)
		}
		return nil
	})
}

// pathOf is where an item of the ledger is.
func (t *tree) pathOf(e entry) string {
	if n := t.nodeAt(e.node); n != nil {
		return path.Join(n.dir, e.name+".json")
	}
	return t.itemPath(t.units[e.unit], e.name)
}

func (t *tree) itemPath(u *unit, name string) string {
	switch t.config.OrganizeBy {
	case "item_id":
		return path.Join(name, name+".json")
	case "flat":
		return name + ".json"
	}
	return path.Join(u.Dir, "items", name+".json")
}

// Write implements stream.Sink.
func (t *tree) Write(ctx context.Context, batch []*stream.Item) error {
	for _, it := range batch {
		a, err := t.admit(it, t.perUnit)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if a.old == updated && t.policy.Keep == durable.KeepLast { // the one before may still wait to be written
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
		if err := t.enqueue(a); err != nil {
			return err
		}
		if len(t.jobs) >= t.config.BufferSize || t.bytes >= maxPending {
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// enqueue finds an item's place.
func (t *tree) enqueue(a *admitted) error {
	j := job{admitted: a, name: fileName(a.id)}
	if a.twin {
		j.name = twin(a.id)
	}
	if t.config.Format == "catalog" {
		names, err := t.split.names(a.it.Value)
		if err != nil {
			return t.reject(a, err)
		}
		if j.node, err = t.nodeOf(a, j.name, names); err != nil {
			return err
		}
		j.rel = path.Join(j.node.dir, j.name+".json")
	} else {
		j.rel = t.itemPath(a.unit, j.name)
	}
	if about := t.about(a); about != nil && about.Summary.Add(a.it.Value) {
		about.changed = true
	}
	t.jobs = append(t.jobs, j)
	t.bytes += len(a.it.Bytes())
	return nil
}

// collections is the directory of the Collections where files do not tell them apart.
const collections = "collections"

// about describes an item's collection: the unit of its files, or one for this alone; nil when it has none.
func (t *tree) about(a *admitted) *unit {
	if t.perUnit {
		return a.unit
	}
	id := a.it.Collection()
	if id == "" {
		return nil
	}
	u := t.byID[id]
	if u == nil {
		u = &unit{number: len(t.units), ID: id}
		t.units = append(t.units, u)
		t.byID[id] = u
	}
	if !u.touched || !u.Filled {
		u.touched, u.Filled, u.changed = true, true, true
	}
	if !u.watched {
		if u.watched = true; u.Summary.Ranges == nil {
			u.Summary.Ranges = summary.Ranges(t.knownOf(id))
		}
	}
	return u
}

// collectionPath is the document of a collection.
func (t *tree) collectionPath(u *unit, id string) string {
	if t.perUnit {
		return path.Join(u.Dir, collectionFile)
	}
	return path.Join(collections, fileName(id)+".json")
}

// flush writes the files of pending items, many at a time.
func (t *tree) flush(ctx context.Context) error {
	if len(t.jobs) == 0 {
		return nil
	}
	if err := t.holdStage(); err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range t.jobs {
		j := &t.jobs[i]
		group.Go(func() error {
			if t.shared {
				defer t.files.Turn(t.place.shown(j.rel))() // others may write an item of the same name
				if j.taken = t.takenByAnother(gctx, j); j.taken {
					return nil
				}
			}
			text := t.render(j)
			j.size = int64(len(text))
			return t.place.write(gctx, j.unit.Dir, j.rel, text)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	t.ledger.add(record{kind: recordTime, time: time.Now().UnixMilli()})
	for i := range t.jobs {
		if j := &t.jobs[i]; !j.taken {
			t.record(j)
		} else if err := t.reject(j.admitted, t.errTwice(j.it)); err != nil {
			return err
		}
	}
	t.jobs, t.bytes = t.jobs[:0], 0
	return t.ledger.flush(bufferedLedger)
}

func (t *tree) record(j *job) {
	e := entry{key: j.key, value: j.val, unit: j.unit.number, name: j.name, size: j.size}
	if j.node != nil {
		if e.node, e.title = j.node.number, titleOf(j.it.Value); e.title == "" {
			e.title = cut(j.id+" ", min(len(j.id), 1000))
		}
	}
	if !j.unit.Filled {
		j.unit.Filled, j.unit.changed = true, true
	}
	at := t.ledger.add(record{kind: recordItem, entry: e})
	if j.node != nil {
		j.node.offsets = append(j.node.offsets, at)
		j.node.changed = true
	}
	t.written++
}

// titleOf is an item's title, bounded.
func titleOf(it *item.Value) string {
	title, _ := it.Get("properties").Get("title").Str()
	if len(title) > 1000 {
		return ""
	}
	return title
}

// render is the text of an item's file, with links of its new place.
func (t *tree) render(j *job) []byte {
	from := originOf(t.env, j.it)
	dir := ""
	if !t.place.away {
		dir = filepath.Dir(t.place.local(j.rel))
	}
	rebase := func(href string) string { return from.rebase(href, dir) }
	if hasRelative(j.it.Bytes()) {
		rebaseAssets(j.it.Value, rebase)
	}
	relink(j.it.Value, t.itemLinks(j), true, rebase)
	return j.it.AppendLine(nil)
}

// itemLinks are the links that tell where an item is.
func (t *tree) itemLinks(j *job) []link {
	var links []link
	add := func(rel, target, media string) {
		links = append(links, link{rel: rel, href: t.href(path.Dir(j.rel), target), media: media})
	}
	switch {
	case j.node != nil:
		add("root", catalogFile, mediaJSON)
		add("parent", t.docOf(j.node), mediaJSON)
		add("collection", path.Join(j.unit.Dir, collectionFile), mediaJSON)
	case j.it.Collection() != "":
		for _, rel := range []string{"root", "parent", "collection"} {
			add(rel, t.collectionPath(j.unit, j.it.Collection()), mediaJSON)
		}
	}
	if t.absolute() {
		add("self", j.rel, mediaItem)
	}
	return links
}

// absolute reports whether all links begin with base_url.
func (t *tree) absolute() bool {
	return t.config.BaseURL != "" && (t.config.Format != "catalog" || t.config.Layout == "absolute")
}

// href is a link from a directory of the output to a file of it.
func (t *tree) href(dir, file string) string {
	if t.absolute() {
		return t.url(file)
	}
	return relative(dir, file)
}

func (t *tree) url(file string) string {
	return strings.TrimSuffix(t.config.BaseURL, "/") + "/" + escapePath(file)
}

// Commit implements stream.Sink: all files are synced as they are written, so that their names are left.
func (t *tree) Commit(ctx context.Context) (int64, any, error) {
	if err := t.flush(ctx); err != nil {
		return 0, nil, err
	}
	s, err := t.commit()
	return t.taken, s, err
}

// Close implements stream.Sink. Items come first, then the documents that link to them, so that a reader
// never meets a link to nothing.
func (t *tree) Close(ctx context.Context) (st, outputs any, err error) {
	if err := t.flush(ctx); err != nil {
		return nil, nil, err
	}
	if _, err := t.commit(); err != nil {
		return nil, nil, err
	}
	if err := t.env.HandOver(ctx); err != nil {
		return nil, nil, err
	}
	if err := t.policy.MayReplace(t.place.shown(""), t.env.Given(t.written), func() (bool, error) { return t.later || t.itemsBefore(ctx) > 0, nil }); err != nil && !t.later {
		return nil, nil, err
	}
	if t.config.Format == "catalog" {
		err = t.writeDocuments(ctx)
	} else {
		err = t.writeCollections(ctx)
	}
	if err == nil && t.place.stage != "" {
		err = t.unstage(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	outputs, err = t.finish(ctx, func(add func(listed)) error { return t.audit(ctx, add) })
	if err != nil {
		return nil, nil, err
	}
	if t.policy.Mode != durable.Replace {
		if err := t.sweepStages(ctx, nil); err != nil {
			t.warn("stages of runs that died could not be removed", err)
		}
	}
	s, err := t.end()
	return s, outputs, err
}

// writeDocuments writes those of a catalog, and removes the files of items that are elsewhere now.
func (t *tree) writeDocuments(ctx context.Context) error {
	if t.stale {
		if err := t.findDead(); err != nil {
			return err
		}
	}
	if err := t.writeCatalog(ctx); err != nil {
		return err
	}
	return t.removeDead()
}

// findDead finds the files of items that are elsewhere in the catalog now, and the nodes that link to them.
func (t *tree) findDead() error {
	left := map[[16]byte][]entry{}
	return t.ledger.each(func(r record) error {
		switch {
		case r.kind != recordItem:
		case !t.index.current(r.entry):
			left[r.entry.key] = append(left[r.entry.key], r.entry)
		default:
			now := t.pathOf(r.entry)
			for _, old := range left[r.entry.key] {
				if was := t.pathOf(old); was != now {
					t.dead[was] = true
					t.nodeAt(old.node).changed = true
				}
			}
			delete(left, r.entry.key)
		}
		return nil
	})
}

// removeDead removes the files of items that are elsewhere now.
func (t *tree) removeDead() error {
	for rel := range t.dead {
		if err := t.place.remove(rel); err != nil {
			return err
		}
	}
	return nil
}

// Abandon implements stream.Sink.
func (t *tree) Abandon() {
	t.releaseStage()
	t.abandon()
}
