package output

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// state is the state of a sink of files: the durable size of its ledger, which holds everything else.
type state struct {
	Ledger string `json:"ledger"`
	Size   int64  `json:"size"`
	Start  int64  `json:"start"`            // where the records of this run begin
	Closed bool   `json:"closed,omitempty"` // the run has ended
	Later  bool   `json:"later,omitempty"`  // it resumes from a finished run
	Token  string `json:"token,omitempty"`  // of the files not published yet
	// Published is up to where the records are of items that are at the place, as the run was cut off while it published.
	Published int64 `json:"published,omitempty"`
	// Rejects is how far the file of rejects is.
	Rejects durable.SetState `json:"rejects,omitzero"`
}

// unit is a collection in the output; or, where files do not separate collections, all of it.
type unit struct {
	number int
	ID     string `json:"id"`
	Dir    string `json:"dir"` // relative
	unitState
	changed bool                     // since the ledger heard of it
	touched bool                     // in this run
	watched bool                     // its Collection's ranges have been loaded
	adopted bool                     // the documents that are there have been looked at
	live    map[int]*geoparquet.File // the open spools of its parts, by number
}

// unitState is a unit's state in the ledger.
type unitState struct {
	Summary summary.Summary `json:"summary,omitzero"`
	Filled  bool            `json:"filled,omitempty"`  // there are items in it
	Spooled []spooled       `json:"spooled,omitempty"` // parts that are not written yet; only the last takes items
	Parts   []part          `json:"parts,omitempty"`   // that the last run has left at the place
	Own     []part          `json:"own,omitempty"`     // of this run, waiting for its end
	Next    int             `json:"next,omitempty"`    // number of parts ever begun
	// Several are the summaries of the collections in a unit of all, up to maxSeveral.
	Several map[string]*summary.Summary `json:"several,omitempty"`
	Stale   bool                        `json:"stale,omitempty"` // some item in it has been replaced since
}

// part is a finished Parquet file.
type part struct {
	Number int   `json:"number"`
	Rows   int64 `json:"rows"`
	Size   int64 `json:"size"`
}

// spooled is a Parquet file that is still to be written.
type spooled struct {
	Number int              `json:"number"`
	State  geoparquet.State `json:"state"`
}

// base is the common part of all sinks of files: the config, the place, the ledger with its index, and the counts.
type base struct {
	env    *stream.Env
	config config
	policy durable.Policy
	files  *files.Places
	place  *place
	ledger *ledger
	index  index
	since  int64  // where the ledger's records of this run begin
	about  string // the format and the place, which a ledger must be of
	stale  bool   // the ledger holds items that have been replaced
	closed bool   // the state that was opened was of a run that had ended
	later  bool   // this run resumes from a finished one
	token  string // of this run's hidden files
	// published is up to where the ledger's records are of items that this run has published before it was cut off.
	published int64
	guard     *flock.Flock
	// rejected is how far the file of rejects is durable.
	rejected durable.SetState

	units      []*unit
	byID       map[string]*unit
	resumed    func(record) // is called for each record that is loaded; nil: not called
	highest    int          // number of a unit that the ledger's items and nodes are in
	perUnit    bool         // each collection has a directory, and a lock, of its own
	shared     bool         // files of all collections are in one directory, so that ids must differ across them
	anew       bool         // items of earlier runs are not in the index: those at the place count
	taken      int64        // items that Write was given
	written    int64
	repeated   int64
	leftOut    int64 // by keep
	refused    int64
	mu         sync.Mutex
	known      map[string]*stream.Item // the Collections that sources know, by id
	knownBytes int                     // of their texts
	// unchecked are the items that the check at the end has not looked at.
	unchecked int64
}

// openBase locks the step for this run; load opens its ledger.
func (o Options) openBase(env *stream.Env, c config) (*base, error) {
	root := c.target()
	if !remote(root) {
		abs, err := filepath.Abs(env.Path(root))
		if err != nil {
			return nil, err
		}
		root = abs
	}
	policy, err := c.Policy(durable.Upsert)
	if err != nil {
		return nil, err
	}
	b := &base{env: env, config: c, policy: policy, files: o.Places, index: index{}, byID: map[string]*unit{}}
	name := c.single()
	if name != "" {
		root = strings.TrimSuffix(strings.TrimSuffix(filepath.ToSlash(root), name), "/")
	}
	b.place = newPlace(root, o.Places, env)
	b.place.alone = policy.Mode == durable.Replace
	b.place.fixed = b.fixed() != ""
	if name != "" {
		b.place.hidden = hidden + "-" + name
	}
	b.guard, err = lockRun(env, filepath.Join(env.Data, "output.lock"))
	return b, err
}

// lockRun locks a file for this run of the step. CodeConflict: another one has it.
func lockRun(env *stream.Env, path string) (*flock.Flock, error) {
	lock := flock.New(path)
	if got, err := lock.TryLock(); err != nil || !got {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "another run of step " + env.Step + " is under way",
			Hint: "wait for it to end, or stop it", Err: err}
	}
	return lock, nil
}

// fixed is the collection that a stream is about, "" when it may be about several.
func (c *config) fixed(env *stream.Env) string {
	if v, ok := env.Collection["id"].(string); ok && v != "" {
		return v
	}
	return c.CollectionID
}

func (b *base) fixed() string { return b.config.fixed(b.env) }

// load begins a ledger, or rebuilds the base from that of the state.
func (b *base) load() error {
	c := &b.config
	b.about = strings.Join([]string{c.Format, c.OrganizeBy, b.place.root, c.single(), c.Split, c.Compression}, "|")
	if b.anew {
		b.about += "|2" // the second way of putting parts together
	}
	var s state
	if known, err := stream.State(b.env.State, &s); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrStateGone, err)
	} else if !known {
		b.ledger, err = newLedger(b.env.Data, b.about)
		if err == nil {
			b.since, b.token = b.ledger.size(), durable.NewToken()
		}
		return err
	}
	b.since, b.closed, b.rejected, b.later, b.token = s.Start, s.Closed, s.Rejects, s.Later, s.Token
	if s.Closed {
		b.since, b.later, b.token = s.Size, true, durable.NewToken()
	}
	if b.published > 0 {
		s.Size = b.published
	} else if !s.Closed {
		b.published = s.Published
	}
	var err error
	b.highest = -1
	if b.ledger, err = openLedger(b.env.Data, b.about, s, b.loadRecord); err == nil && b.highest >= len(b.units) {
		err = fmt.Errorf("%w: the ledger is damaged", stream.ErrStateGone)
	}
	return err
}

func (b *base) loadRecord(r record) error {
	switch r.kind {
	case recordItem:
		b.highest = max(b.highest, r.entry.unit)
		if b.anew && r.at < b.since {
			break
		}
		value := r.entry.value &^ thisRun
		was, known := b.index[r.entry.key]
		if r.at >= b.since {
			if r.at >= b.published {
				value |= thisRun
			}
			if !known || was&thisRun == 0 && r.at >= b.published {
				b.written++
			}
		}
		b.stale = b.stale || known
		b.index[r.entry.key] = value
	case recordNode:
		b.highest = max(b.highest, r.entry.unit)
	case recordUnit:
		u := &unit{number: r.number}
		if err := json.Unmarshal([]byte(r.text), u); err != nil || r.number > len(b.units) {
			return fmt.Errorf("%w: the ledger is damaged", stream.ErrStateGone)
		}
		u.touched = r.at >= b.since
		if r.number == len(b.units) {
			b.units = append(b.units, u)
		}
		b.units[r.number] = u
		b.byID[u.ID] = u
	}
	if b.resumed != nil {
		b.resumed(r)
	}
	return nil
}

// unitOf is the unit of a collection, which it locks for this stream on first use.
func (b *base) unitOf(collection string) (*unit, error) {
	id := collection
	if !b.perUnit {
		id = ""
	}
	u := b.byID[id]
	if u == nil {
		u = &unit{number: len(b.units), ID: id, changed: true}
		if b.perUnit {
			u.Dir = fileName(id)
			for _, other := range b.units { // a name that differs in case only
				if fold(other.Dir) == fold(u.Dir) {
					u.Dir = twin(id)
				}
			}
		}
		b.units = append(b.units, u)
		b.byID[id] = u
	}
	if u.touched && b.place.held(u.Dir) {
		return u, nil
	}
	if err := b.place.lockUnit(u.Dir); err != nil {
		return nil, err
	}
	u.touched, u.changed = true, true
	return u, nil
}

// openUnit locks the one unit that the stream is known to write to, if there is one.
func (b *base) openUnit() (err error) {
	if known := b.fixed(); !b.perUnit || known != "" {
		_, err = b.unitOf(known)
	}
	return err
}

// arrange completes organize_by: one where the place is one file, or format json has an output_path; else collection.
func (b *base) arrange(one string) {
	c := &b.config
	if c.OrganizeBy == "" {
		c.OrganizeBy = "collection"
		if c.single() != "" || c.Format == "json" && c.OutputPath != "" {
			c.OrganizeBy = one
		}
	}
	b.perUnit = c.OrganizeBy == "collection"
}

// admitted is an item that is to be written, and in the index already.
type admitted struct {
	it   *stream.Item
	unit *unit
	id   string
	key  [16]byte // in the index, as val is
	val  uint64
	twin bool    // another id that differs in case only came first
	old  verdict // fresh or updated
	prev uint64  // the index's value before, of updated
}

// named counts an item, and returns a copy that has an id and, where it needs one, a collection; nil when it is refused.
func (b *base) named(it *stream.Item, needCollection bool) (*stream.Item, error) {
	b.taken++
	it = it.Clone()
	id, collection := it.ID(), it.Collection()
	if collection == "" && b.config.CollectionID != "" {
		collection = b.config.CollectionID
		it.Set("collection", item.OfText(collection))
	}
	switch {
	case id == "":
		return nil, b.refuse(it, "the item has no id", "")
	case collection == "" && needCollection:
		return nil, b.refuse(it, "the item names no collection", "collection_id gives the collection of such items")
	}
	return it, nil
}

// errTwice is an item whose key another one of the run has.
func (b *base) errTwice(it *stream.Item) error {
	hint := "ids must be unique within a collection; keep: first or keep: last keeps one of each"
	if b.shared {
		hint = "all collections share one directory; organize_by: collection keeps them apart"
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the stream has another item " + it.ID() + " of collection " + it.Collection(), Hint: hint}
}

// admit decides about an item by the index: nil when there is nothing to write, because it is refused, left out or there
// already.
func (b *base) admit(it *stream.Item, needCollection bool) (*admitted, error) {
	it, err := b.named(it, needCollection)
	if it == nil || err != nil {
		return nil, err
	}
	id, collection := it.ID(), it.Collection()
	value, among := valueOf(id, it.Bytes()), collection
	if b.shared {
		among = ""
	}
	key, isTwin, verdict := b.index.lookup(among, id, value)
	switch verdict {
	case repeated:
		b.repeated++
		return nil, nil
	case duplicate:
		switch b.policy.Keep.Judge(false) {
		case durable.LeftOut:
			b.leftOut++
			return nil, nil
		case durable.Replaced:
			b.leftOut++
			b.written--
			verdict = updated
		default:
			b.refused++
			return nil, b.env.Refuse(it, b.errTwice(it))
		}
	}
	u, err := b.unitOf(collection)
	if err != nil {
		return nil, err
	}
	if !u.watched { // Collections come before their items
		if u.watched = true; u.Summary.Ranges == nil && b.perUnit {
			u.Summary.Ranges = summary.Ranges(b.knownOf(collection))
		}
	}
	a := &admitted{it: it, unit: u, id: id, key: key, val: value, twin: isTwin, old: verdict, prev: b.index[key]}
	b.index[key] = value
	b.stale = b.stale || verdict == updated
	return a, nil
}

// reject refuses an item that was admitted, and takes it out of the index.
func (b *base) reject(a *admitted, cause error) error {
	if a.old == updated {
		b.index[a.key] = a.prev
	} else {
		delete(b.index, a.key)
	}
	b.refused++
	return b.env.Refuse(a.it, cause)
}

func (b *base) refuse(it *stream.Item, message, hint string) error {
	b.refused++
	return b.env.Refuse(it, &stepwell.Error{Code: stepwell.CodeConflict, Message: message, Hint: hint})
}

// recordUnits writes changed units into the ledger.
func (b *base) recordUnits() error {
	for _, u := range b.units {
		if !u.changed {
			continue
		}
		text, err := json.Marshal(u)
		if err != nil {
			return err
		}
		if len(text) > maxRecord {
			return &stepwell.Error{Code: stepwell.CodeLimit, Message: "collection " + u.ID + " has too many parts", Hint: "raise part_rows"}
		}
		b.ledger.add(record{kind: recordUnit, number: u.number, text: string(text)})
		u.changed = false
	}
	return nil
}

// commit makes the names of files, and then the ledger, durable; the files are.
func (b *base) commit() (state, error) {
	if err := b.place.sync(); err != nil {
		return state{}, err
	}
	if err := b.recordUnits(); err != nil {
		return state{}, err
	}
	if err := b.ledger.sync(); err != nil {
		return state{}, err
	}
	return state{Ledger: b.ledger.id, Size: b.ledger.size(), Start: b.since, Rejects: b.rejected, Later: b.later, Token: b.token, Published: b.published}, nil
}

func (b *base) warn(message string, err error) {
	b.env.Log(slog.LevelWarn, message, slog.String("error", err.Error()))
}

// abandon closes the ledger, and releases all locks.
func (b *base) abandon() {
	if b.ledger != nil {
		b.ledger.close()
	}
	b.place.release()
	b.guard.Unlock()
}
