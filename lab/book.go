package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/store"
)

// The rules of the book: what must be true of every run, whatever happens to it. A run that breaks one shows a fault of Stepwell.
const (
	ruleDispatch   = "nothing is dispatched before its commit"
	ruleAnswer     = "nothing is answered before its commit"
	rulePublish    = "nothing is published before its commit"
	ruleVersions   = "versions have no gap"
	ruleOneEnd     = "an attempt ends once"
	ruleEnded      = "an execution that has ended changes only by a restart"
	ruleOnce       = "what must not run twice does not"
	ruleClaim      = "what must not run twice is recorded as running before it runs"
	ruleMemos      = "memos are kept"
	ruleSignals    = "a signal is used once"
	ruleFold       = "the log leads to the recorded state"
	ruleKept       = "the store keeps what it has accepted"
	ruleRecovered  = "a process takes an execution up once"
	ruleStarts     = "a key starts one execution"
	ruleEnds       = "every accepted start ends"
	ruleForgotten  = "a worker's report counts only for the attempt that was dispatched last"
	ruleDispatched = "an attempt is dispatched once"
)

// The kinds of events in the log, by their stored numbers (docs/decisions.md): the book shares no code with the engine.
const (
	kindDone, kindFailed, kindSkipped, kindWaiting, kindRunning, kindRecovered, kindLost, kindRestart, kindDoneAll = 2, 3, 4, 5, 6, 9, 10, 14, 15
)

// book keeps what has happened in one run, and which rules that breaks.
type book struct {
	records *records
	pages   map[int64]*page
	ids     map[string]bool // of executions whose creation is durable
	signals map[string]int  // new ones that no commit has taken, by key
	boots   int
	begun   []begun // in order
	once    map[string]bool
	broken  map[string]string // what breaks a rule, by rule; the first time
	blank   []*page
}

// page is one execution.
type page struct {
	version  int64
	terminal bool
	times    map[int64]bool // of the commits
	credit   map[int32]int  // dispatches that commits have decided, by step
	epochs   map[int32][]uint32
	ends     map[attempt]int // kinds
	running  map[attempt]bool
	started  map[int32][]uint32 // attempts of steps that must not run twice
	memos    map[memo]string
	status   map[int32]stepwell.StepStatus // in the rows
	boot     int                           // that has taken it up
}

type (
	attempt struct {
		idx   int32
		epoch uint32
	}
	memo struct {
		idx int32
		key string
	}
	begun struct {
		key   string
		epoch uint32
	}
)

func newBook(rs *records) *book {
	if b, ok := rs.books.Get().(*book); ok {
		return b
	}
	return &book{records: rs, pages: map[int64]*page{}, ids: map[string]bool{}, signals: map[string]int{}, once: map[string]bool{}, broken: map[string]string{}}
}

// done gives the memory of a book to the next one. What breaks a rule stays with its reader.
func (b *book) done() {
	for _, p := range b.pages {
		p.reset()
		b.blank = append(b.blank, p)
	}
	clear(b.pages)
	clear(b.ids)
	clear(b.signals)
	clear(b.once)
	b.boots, b.begun, b.broken = 0, b.begun[:0], map[string]string{}
	b.records.books.Put(b)
}

// reset makes a page blank.
func (p *page) reset() {
	clear(p.times)
	clear(p.credit)
	clear(p.epochs)
	clear(p.ends)
	clear(p.running)
	clear(p.started)
	clear(p.memos)
	clear(p.status)
	p.version, p.terminal, p.boot = 0, false, 0
}

func (b *book) breaks(rule, format string, args ...any) {
	if _, known := b.broken[rule]; !known {
		b.broken[rule] = fmt.Sprintf(format, args...)
	}
}

func (b *book) page(run int64) *page {
	p := b.pages[run]
	if n := len(b.blank); p == nil && n > 0 {
		p, b.blank = b.blank[n-1], b.blank[:n-1]
		b.pages[run] = p
	}
	if p == nil {
		p = &page{times: map[int64]bool{}, credit: map[int32]int{}, epochs: map[int32][]uint32{}, ends: map[attempt]int{}, running: map[attempt]bool{},
			started: map[int32][]uint32{}, memos: map[memo]string{}, status: map[int32]stepwell.StepStatus{}}
		b.pages[run] = p
	}
	return p
}

// trace takes in what has happened.
func (b *book) trace(t *sim.Trace) {
	p := b.page(t.Run)
	at := attempt{t.Idx, t.Epoch}
	switch t.What {
	case sim.Booted:
		b.boots++
	case sim.Committed:
		for i := range t.Commits {
			b.commit(&t.Commits[i])
		}
	case sim.Pushed:
		b.once[t.Key] = b.once[t.Key] || t.Once
		if slices.Contains(p.epochs[t.Idx], t.Epoch) {
			b.breaks(ruleDispatched, "attempt %d of %s was dispatched again", t.Epoch, t.Key)
		} else if p.epochs[t.Idx] = append(p.epochs[t.Idx], t.Epoch); len(p.epochs[t.Idx]) > p.credit[t.Idx] {
			b.breaks(ruleDispatch, "attempt %d of %s was dispatched, and no commit says so", t.Epoch, t.Key)
		}
	case sim.Begun:
		b.begins(t, p, at)
	case sim.Claimed:
		if !p.running[at] {
			b.breaks(ruleAnswer, "a worker was told that attempt %d of %s runs, and no commit says so", t.Epoch, t.Key)
		}
	case sim.Started:
		if !b.ids[t.ID] {
			b.breaks(ruleAnswer, "the start of %s was answered, and no commit has created it", t.ID)
		}
	case sim.Published:
		if p := b.page(t.Update.Execution.No); !p.times[t.Update.At] {
			b.breaks(rulePublish, "a change was published, and no commit has made it")
		}
	case sim.Signalled:
		b.signals[t.Key]++
	case sim.Remembered:
		m := memo{t.Idx, t.Key}
		if before, known := p.memos[m]; known && before != string(t.Value) { // the same again is harmless: the store had refused it
			b.breaks(ruleMemos, "the memo %q of step %d was made again", t.Key, t.Idx)
		}
		p.memos[m] = string(t.Value)
	}
}

func (b *book) begins(t *sim.Trace, p *page, at attempt) {
	b.begun = append(b.begun, begun{t.Key, t.Epoch})
	if !t.Once {
		return
	}
	if !p.running[at] {
		b.breaks(ruleClaim, "attempt %d of %s began, and no commit says so", t.Epoch, t.Key)
	}
	for _, epoch := range p.started[t.Idx] {
		if end := p.ends[attempt{t.Idx, epoch}]; epoch == t.Epoch || end != kindFailed && end != kindWaiting {
			b.breaks(ruleOnce, "%s began again as attempt %d, and attempt %d may have had its effect", t.Key, t.Epoch, epoch)
		}
	}
	p.started[t.Idx] = append(p.started[t.Idx], t.Epoch)
}

// event is one in the log.
type event struct {
	Kind  int    `json:"k"`
	Idx   int32  `json:"i"`
	Epoch uint32 `json:"p"`
}

// read reads both forms: a list is an attempt that has completed.
func (e *event) read(raw []byte) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, e)
	}
	n := [3]int64{}
	rest := raw[1:]
	for i := range n {
		end := bytes.IndexAny(rest, ",]")
		if end < 0 {
			return fmt.Errorf("an event of %d parts", i)
		}
		var err error
		if n[i], err = strconv.ParseInt(string(rest[:end]), 10, 64); err != nil {
			return err
		}
		rest = rest[end+1:]
	}
	*e = event{Kind: int(n[0]), Idx: int32(n[1]), Epoch: uint32(n[2])}
	return nil
}

// batch is the record of a commit.
type batch struct {
	T int64             `json:"t"`
	E []json.RawMessage `json:"e"`
	Q [][2]int32        `json:"q"`
}

// record is a batch that was read.
type record struct {
	at     int64
	events []event
	queued [][2]int32
	err    error
}

// readRecord reads a batch.
func readRecord(raw []byte) *record {
	var log batch
	if err := json.Unmarshal(raw, &log); err != nil {
		return &record{err: err}
	}
	r := &record{at: log.T, queued: log.Q, events: make([]event, len(log.E))}
	for i, raw := range log.E {
		if err := r.events[i].read(raw); err != nil {
			r.err = err
		}
	}
	return r
}

// records remembers what batches say: those of runs of one test are mostly the same ones.
type records struct {
	mu    sync.RWMutex
	known map[string]*record
	books sync.Pool // memory of books
}

// maxRecords bounds what is remembered.
const maxRecords = 20_000

func (rs *records) read(raw []byte) *record {
	rs.mu.RLock()
	r := rs.known[string(raw)]
	rs.mu.RUnlock()
	if r != nil {
		return r
	}
	r = readRecord(raw)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.known == nil {
		rs.known = map[string]*record{}
	}
	if len(rs.known) < maxRecords {
		rs.known[string(raw)] = r
	}
	return r
}

func (b *book) commit(c *store.Commit) {
	p := b.page(c.Execution)
	if c.Version != p.version+1 {
		b.breaks(ruleVersions, "version %d came after version %d", c.Version, p.version)
	}
	p.version = c.Version
	if c.Create != nil {
		if b.ids[c.Create.ID] = true; len(b.ids) > 1 { // of tests, which ask for one
			b.breaks(ruleStarts, "%d executions were created", len(b.ids))
		}
		p.boot = b.boots
	}
	log := b.records.read(c.Log)
	if log.err != nil {
		b.breaks(ruleFold, "version %d cannot be read: %v", c.Version, log.err)
	}
	p.times[log.at] = true
	b.events(p, log.events)
	for _, run := range log.queued {
		for i := range run[1] {
			p.credit[run[0]+i]++
		}
	}
	for i := range c.Steps {
		p.status[c.Steps[i].Idx] = c.Steps[i].Status
	}
	for _, f := range c.Forget {
		for m := range p.memos {
			if m.idx == f.Idx {
				delete(p.memos, m)
			}
		}
		delete(p.started, f.Idx)
	}
	for _, key := range c.Taken {
		if b.signals[key] == 0 {
			b.breaks(ruleSignals, "version %d used up a signal %q that had been used up", c.Version, key)
		}
		b.signals[key] = 0
	}
	switch {
	case c.Create != nil:
		p.terminal = c.Create.Status.Terminal()
	case c.Update != nil:
		p.terminal = c.Update.Status.Terminal()
	}
}

func (b *book) events(p *page, list []event) {
	restarted := slices.ContainsFunc(list, func(e event) bool { return e.Kind == kindRestart })
	if p.terminal && !restarted {
		b.breaks(ruleEnded, "version %d came after the end, and is no restart", p.version)
	}
	if restarted {
		clear(p.started)
	}
	for _, e := range list {
		at := attempt{e.Idx, e.Epoch}
		switch e.Kind {
		case kindDone, kindFailed, kindSkipped, kindWaiting, kindLost, kindDoneAll:
			if p.ends[at] != 0 {
				b.breaks(ruleOneEnd, "attempt %d of step %d ended in version %d, and before", e.Epoch, e.Idx, p.version)
			}
			p.ends[at] = e.Kind
			if epochs := p.epochs[e.Idx]; len(epochs) > 0 && slices.Max(epochs) > e.Epoch {
				b.breaks(ruleForgotten, "attempt %d of step %d ended in version %d, and attempt %d was on its way", e.Epoch, e.Idx, p.version, slices.Max(epochs))
			}
		case kindRunning:
			p.running[at] = true
		case kindRecovered:
			if p.boot == b.boots {
				b.breaks(ruleRecovered, "version %d takes the execution up again", p.version)
			}
			p.boot = b.boots
		}
	}
}

// close compares what the store has at the end with what it was given, and with what the log leads to.
func (b *book) close(ctx context.Context, x *scenario.Played) error {
	no := x.Execution.No
	p := b.page(no)
	n := int64(0)
	for e, err := range x.World.Store.StepLog(ctx, no, 0) {
		if err != nil {
			return err
		}
		if n++; e.Version != n {
			b.breaks(ruleKept, "the store has version %d after version %d", e.Version, n-1)
		}
	}
	if n != p.version {
		b.breaks(ruleKept, "the store has %d versions of %d", n, p.version)
	}
	if x.Execution.Status.Terminal() != p.terminal {
		b.breaks(ruleKept, "the store has the execution as %s", x.Execution.Status)
	}
	for key, s := range x.Steps {
		if want := p.status[s.Idx]; s.Status != want {
			b.breaks(ruleKept, "the store has %s as %s, and accepted %s", key, s.Status, want)
		}
	}
	return b.folds(ctx, x)
}

// folds compares what the log leads to with what is recorded. The error is that of ctx.
func (b *book) folds(ctx context.Context, x *scenario.Played) error {
	x.World.Over()
	run, err := x.World.At(ctx, x.Execution.ID, 0)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		b.breaks(ruleFold, "%v", err)
	case run.Status() != x.Execution.Status:
		b.breaks(ruleFold, "the log leads to %s, recorded is %s", run.Status(), x.Execution.Status)
	case !bytes.Equal(run.Outputs(), x.Execution.Outputs):
		b.breaks(ruleFold, "the log leads to the outputs %s, recorded are %s", run.Outputs(), x.Execution.Outputs)
	}
	return nil
}
