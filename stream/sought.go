package stream

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell/stream/durable"
)

// NotFound is the failure of an item that a retry was to repeat, and that its source no longer has.
const NotFound = "not_found"

// marks identify an item across runs, regardless of modifiers: by its collection and id as it left the source, else by
// its line, else by its content. 0 is none.
type marks struct {
	id, place uint64
}

// mark makes the marks of an item of a root. key is that of its content, nil when that is not known.
func (r *root) mark(collection, id string, p Place, key []byte) (m marks) {
	var short [256]byte // nearly always enough: this is done for every item
	if id != "" {
		text := append(binary.AppendUvarint(short[:0], uint64(r.index)), collection...)
		m.id = xxh3.Hash(append(append(text, 0), id...))
	}
	switch {
	case p.Line > 0:
		text := binary.AppendUvarint(binary.AppendUvarint(short[:0], uint64(r.index)), uint64(p.Line))
		m.place = xxh3.Hash(append(text, p.File...))
	case key != nil:
		m.place = binary.LittleEndian.Uint64(key)
	}
	return m
}

// bare is the mark of an id whose collection is not known, 0 without an id.
func (r *root) bare(id string) uint64 { return r.mark("", id, Place{}, nil).id }

// markItem makes the marks of an item as it leaves its source.
func markItem(it *Item, key []byte) marks {
	return it.origin.root.mark(it.Collection(), it.ID(), it.Place, key)
}

// sought are the failed items of the retried run that have not come from their sources again. Items found are in a
// journal, which is durable before a cursor behind them is, so that a resumed attempt looks only for the rest.
type sought struct {
	path, journal string

	mu    sync.Mutex
	items []soughtItem
	index [3]map[uint64][]int32 // numbers of items, by each kind of mark
	left  int
	found *os.File
	out   *bufio.Writer
	dirty bool
}

// The kinds of marks in sought.index.
const (
	byID = iota
	byPlace
	byBare // by id alone
)

// soughtItem is a failed item, as its failure record describes it.
type soughtItem struct {
	marks
	root  int32
	seq   int64
	bare  uint64 // mark of its id without a collection
	ends  uint64 // that it has not reached, by bit
	found bool
	again bool // found in an attempt that was cut off, and may come once more
}

func (it *soughtItem) same(other *soughtItem) bool {
	return it.marks == other.marks && it.root == other.root && it.seq == other.seq
}

// maxSought bounds the failed items that are looked for one by one; the others are repeated all the same.
const maxSought = 1_000_000

// Suffixes of the files of sought, of those of a segment's result.
const (
	soughtSuffix = ".sought.ndjson"
	foundSuffix  = ".found"
)

func (s *segment) newSought() *sought {
	base := s.resultBase()
	return &sought{path: base + soughtSuffix, journal: base + foundSuffix}
}

// seek prepares the failures of the retried run: those stored with that execution, and those that it was itself looking
// for when it was cut off.
func (s *segment) seek(ctx context.Context, p *past) error {
	if s.call.GoesOn == "" {
		return nil
	}
	to, before := s.newSought(), s.newSought()
	before.path, before.journal = s.ofRetried(before.path), s.ofRetried(before.journal)
	var err error
	if !p.ended || p.run != s.call.GoesOn { // else its unfound items are among its failures
		err = before.load(ctx)
	}
	if err == nil {
		err = durable.WriteFile(to.path, func(w *os.File) error {
			out := bufio.NewWriter(w)
			put := func(r *failureRecord) error {
				raw, err := json.Marshal(r)
				out.Write(append(raw, '\n')) // errors stay until Flush
				return err
			}
			failed := func(r *failureRecord) error {
				if len(r.Origin) < 3 || len(before.items) > 0 && r.Type == NotFound { // that is missing still
					return nil
				}
				if len(r.Origin) == 3 { // else it was looked for in vain before
					r.Origin = append(r.Origin, s.missed(r.Step, p))
				}
				return put(r)
			}
			return errors.Join(before.missing(ctx, put), s.formerFailures(ctx, p, failed), out.Flush())
		})
	}
	if err == nil {
		err = remove(to.journal)
	}
	if err != nil {
		return fmt.Errorf("failures of before: %w", err)
	}
	return nil
}

// missed are the ends that an item did not reach that failed at a step: those behind it, or, when the run did not come to
// its end, any.
func (s *segment) missed(step string, p *past) uint64 {
	if p.ended && p.run == s.call.GoesOn {
		for _, n := range s.graph.nodes {
			if n.step.ID == step && n.ends != 0 {
				return n.ends
			}
		}
	}
	return math.MaxUint64
}

// formerFailures calls do for the failures stored with the retried execution, or, when it was cut off, for those of its
// checkpoint.
func (s *segment) formerFailures(ctx context.Context, p *past, do func(*failureRecord) error) error {
	err := eachFailure(ctx, s.ofRetried(s.resultBase()+spoolSuffix), do)
	if !errors.Is(err, fs.ErrNotExist) || p.run != s.call.GoesOn {
		return unlessAbsent(err)
	}
	f, err := os.Open(s.spool.path)
	if err != nil {
		return unlessAbsent(err)
	}
	defer f.Close()
	return eachRecord(ctx, io.LimitReader(f, p.spool), filepath.Base(s.spool.path), do)
}

// unlessAbsent is an error that is not about a file that is not there.
func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ofRetried is a file of the execution that this one retries.
func (s *segment) ofRetried(path string) string {
	return filepath.Join(filepath.Dir(s.runs), fileName(s.call.GoesOn), filepath.Base(path))
}

// loadSought loads the sought items of the roots that this attempt reads.
func (s *segment) loadSought(ctx context.Context) error {
	if s.call.GoesOn == "" || !s.keyed {
		return nil
	}
	so := s.newSought()
	if err := so.load(ctx); err != nil || len(so.items) == 0 {
		return err
	}
	s.sought, s.resumes = so, true
	return nil
}

// load reads the list and the journal.
func (so *sought) load(ctx context.Context) error {
	err := eachFailure(ctx, so.path, func(r *failureRecord) error {
		so.add(r)
		return nil
	})
	if unlessAbsent(err) != nil {
		return err
	}
	raw, err := os.ReadFile(so.journal)
	if unlessAbsent(err) != nil {
		return err
	}
	for ; len(raw) >= 4; raw = raw[4:] {
		if i := binary.LittleEndian.Uint32(raw); int(i) < len(so.items) && !so.items[i].found {
			so.items[i].found, so.items[i].again = true, true
			so.left--
		}
	}
	return nil
}

// add enters a record; an item that failed on several branches is one.
func (so *sought) add(r *failureRecord) (fresh bool) {
	it, ok := r.sought()
	if !ok || len(so.items) >= maxSought {
		return false
	}
	for _, list := range [][]int32{so.index[byID][it.id], so.index[byPlace][it.place]} {
		for _, i := range list {
			if so.items[i].same(&it) {
				so.items[i].ends |= it.ends
				return false
			}
		}
	}
	i := int32(len(so.items))
	so.items = append(so.items, it)
	so.left++
	for kind, mark := range [...]uint64{byID: it.id, byPlace: it.place, byBare: it.bare} {
		if so.index[kind] == nil {
			so.index[kind] = map[uint64][]int32{}
		}
		if mark != 0 {
			so.index[kind][mark] = append(so.index[kind][mark], i)
		}
	}
	return true
}

// sought returns the item of a record; not ok: it cannot be searched for.
func (r *failureRecord) sought() (soughtItem, bool) {
	if len(r.Origin) != 4 || r.Origin[1] == 0 && r.Origin[2] == 0 {
		return soughtItem{}, false
	}
	it := soughtItem{root: int32(r.Origin[0]), marks: marks{r.Origin[1], r.Origin[2]}, ends: r.Origin[3]}
	if it.id != 0 {
		it.bare = (&root{index: int(it.root)}).bare(r.Item)
	}
	if len(r.At) == 2 {
		it.seq = r.At[1]
	}
	return it, true
}

// matchItem finds the sought item that an item, or the failure of one, from a source is, and marks it as found: the one with
// the same id and collection; when one of the two has no collection, the one with the same id; when one of the two has no
// id, the one at the same place. It returns the ends that the sought item did not reach.
func (so *sought) matchItem(r *root, m marks, id string) (missed uint64, found bool, err error) {
	if so == nil {
		return 0, false, nil
	}
	so.mu.Lock()
	defer so.mu.Unlock()
	first := func(list []int32, matches func(*soughtItem) bool) int {
		at := slices.IndexFunc(list, func(i int32) bool {
			it := &so.items[i]
			return (!it.found || it.again) && matches(it)
		})
		if at < 0 {
			return -1
		}
		return int(list[at])
	}
	at := -1
	if same := so.index[byID][m.id]; len(same) > 0 {
		at = first(same, func(*soughtItem) bool { return true })
	} else {
		at = first(so.index[byPlace][m.place], func(it *soughtItem) bool { return it.id == 0 || m.id == 0 })
	}
	if at < 0 && m.id != 0 {
		bare := r.bare(id)
		at = first(so.index[byBare][bare], func(it *soughtItem) bool { return it.id == bare || m.id == bare })
	}
	if at < 0 {
		return 0, false, nil
	}
	it := &so.items[at]
	if it.again {
		it.again = false
		return it.ends, true, nil
	}
	return it.ends, true, so.recordFound(int32(at))
}

func (so *sought) recordFound(i int32) error {
	if so.found == nil {
		f, err := os.OpenFile(so.journal, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = f.Truncate(info.Size() &^ 3) // an entry that was cut off
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		so.found, so.out = f, bufio.NewWriter(f)
	}
	so.items[i].found, so.dirty = true, true
	so.left--
	_, err := so.out.Write(binary.LittleEndian.AppendUint32(nil, uint32(i)))
	return err
}

// sync makes the found items durable.
func (so *sought) sync() error {
	if so == nil {
		return nil
	}
	so.mu.Lock()
	defer so.mu.Unlock()
	if !so.dirty {
		return nil
	}
	so.dirty = false
	return errors.Join(so.out.Flush(), so.found.Sync())
}

func (so *sought) close() error {
	if so == nil || so.found == nil {
		return nil
	}
	err := errors.Join(so.sync(), so.found.Close())
	so.found = nil
	return err
}

// missing calls do for the records of items not found, once per item.
func (so *sought) missing(ctx context.Context, do func(*failureRecord) error) error {
	if so.left == 0 {
		return nil
	}
	again := &sought{}
	return eachFailure(ctx, so.path, func(r *failureRecord) error {
		if !again.add(r) || so.items[len(again.items)-1].found {
			return nil
		}
		return do(r)
	})
}

// missingItem is an item that a retry did not find again, as the outputs of its source tell it.
type missingItem struct {
	Item       string `json:"item_id"`
	Collection string `json:"collection_id,omitempty"`
	File       string `json:"source_file,omitempty"`
	Line       int64  `json:"line_number,omitempty"`
	Step       string `json:"step_id"` // where it failed
	Message    string `json:"message"` // why
}

// maxMissing bounds the sample.
const maxMissing = 10

// recordMissing records failures for items that their fully read sources no longer have.
func (s *segment) recordMissing(ctx context.Context) error {
	if s.sought == nil {
		return nil
	}
	roots := make(map[int]*node, len(s.graph.roots))
	for _, r := range s.graph.roots {
		if n := r.node; n.done == nil && n.because == nil && !n.failed {
			roots[r.index] = n
		}
	}
	return s.sought.missing(ctx, func(old *failureRecord) error {
		n := roots[int(old.Origin[0])]
		if n == nil {
			return nil
		}
		r := *old
		context := Context{}
		if old.Context != nil {
			context = Context{File: old.Context.File, Line: old.Context.Line, URL: old.Context.URL}
		}
		r.Step, r.Type, r.Time, r.At, r.Context = n.step.ID, NotFound, time.Now().UTC().Format(recordTime), nil, &context
		if old.Type != NotFound { // not looked for in vain before
			r.Message = cut(fmt.Sprintf("the source no longer has this item, which failed at %s: %s", old.Step, old.Message))
		}
		raw, err := json.Marshal(&r)
		if err != nil {
			return err
		}
		if n.missing++; len(n.sample) < maxMissing {
			n.sample = append(n.sample, missingItem{r.Item, r.Collection, context.File, context.Line, old.Step, old.Message})
		}
		n.counts.failed.Add(1)
		_, _, err = s.spool.add(&r, raw)
		return err
	})
}

// endSearch ends the search of a finished stream: items not found are among its failures.
func (s *segment) endSearch() error {
	if s.call.GoesOn == "" || !s.keyed {
		return nil
	}
	so := s.newSought()
	return errors.Join(s.sought.close(), remove(so.path), remove(so.journal))
}

// remove removes a file that may not be there.
func remove(path string) error {
	return unlessAbsent(os.Remove(path))
}
