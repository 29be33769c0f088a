package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// segment is one run of stream steps that items connect.
type segment struct {
	call       *action.Call
	catalog    *catalog
	handover   *handover // nil: the files stay on this machine
	secrets    Secrets
	params     *params
	settings   Settings
	limit      limit
	interval   time.Duration
	graph      *graph
	steps      []*node // in the order of the parameters
	name       string  // of its files
	collection string  // id, "" for none
	base       string  // path of its files, without a suffix
	hash       string  // of modules and configs
	runs       string  // folder of the results of this execution

	keyed      bool // items have keys: there is a checkpoint
	checkpoint *checkpoint
	spool      *spool
	prints     *prints
	data       string // directory for the modules

	resumes     bool                    // some items may be done already
	replaces    bool                    // a sink leaves exactly the items of one run
	adds        bool                    // a sink appends to existing output
	former      map[int]json.RawMessage // states of the last run's sinks, by end, that this one does not go on from
	collections sync.Mutex              // one Collection travels at a time
	keysMu      sync.Mutex
	bags        []*keyBag // by end
	had         [][]entry // by end: the keys of markDone that are not yet in the checkpoint
	sought      *sought   // of a retry; nil: nothing is looked for

	batches batches
	read    atomic.Int64 // items by all sources

	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	once   sync.Once
	cause  error
	losing sync.Mutex
	lost   []*node // whose modules could not work, in the order of their failures
	began  time.Time
}

// member is an error of one of the steps.
type member struct {
	node *node
	err  error
}

func (m *member) Error() string { return m.node.step.ID + ": " + m.err.Error() }
func (m *member) Unwrap() error { return m.err }

// about names the collection that a failed segment was for, behind a discovery.
func (s *segment) about(err error) error {
	if m, ok := errors.AsType[*action.MemberError](err); ok {
		return &action.MemberError{Member: m.Member, Err: s.named(m.Err)}
	}
	return err
}

// named is a step's error with the collection that the segment is for.
func (s *segment) named(err error) error {
	if s.collection == "" {
		return err
	}
	named := fmt.Errorf("collection %s: %w", s.collection, err)
	if action.IsFail(err) {
		named = action.Fail(named)
	}
	return named
}

// segment makes the segment of a call, and says where its files are: the name is that of the first step and
// of the collection or the iteration.
func (c *catalog) segment(call *action.Call, p *params) *segment {
	s := &segment{call: call, catalog: c, secrets: c.secrets, params: p, settings: p.Settings, began: time.Now(), name: fileName(p.Steps[0].ID)}
	if p.Collection != nil {
		s.collection = fmt.Sprint(p.Collection["id"])
		s.name += "." + fileName(s.collection)
	} else if strings.Contains(call.StepKey, "[") { // an iteration of a for_each
		s.name = fileName(call.StepKey)
	}
	workflow := filepath.Join(c.dir, fileName(p.Workflow))
	s.base = filepath.Join(workflow, entryName(p.Entry), s.name)
	s.runs = filepath.Join(workflow, runsDir, fileName(call.Execution))
	return s
}

// prepare checks the parameters of a segment and finds out how its steps are connected.
func (s *segment) prepare(c *catalog) error {
	if err := s.applyDefaults(); err != nil {
		return err
	}
	var problems []error
	for i := range s.params.Steps {
		n, err := c.node(s.call, &s.params.Steps[i])
		problems = append(problems, err)
		s.steps = append(s.steps, n)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	g, err := connect(s.steps)
	if err != nil {
		return err
	}
	s.graph = g
	for _, n := range s.steps {
		replaces := n.module.Replaces != nil && n.module.Replaces(n.config)
		s.replaces = s.replaces || replaces
		s.adds = s.adds || !replaces && n.role() == spec.Sink
	}
	for _, n := range g.ends {
		n.leaf = &leaf{seg: s, node: n, last: s.began}
	}
	return s.hashConfig()
}

// applyDefaults fills in and bounds the settings.
func (s *segment) applyDefaults() (err error) {
	if s.limit, err = parseLimit(s.settings.MaxFailures, s.settings.Strict); err != nil {
		return err
	}
	if s.settings.Workers <= 0 {
		s.settings.Workers = runtime.GOMAXPROCS(0)
	}
	s.settings.Workers = min(s.settings.Workers, 1024)
	if s.settings.Batch <= 0 {
		s.settings.Batch = 256
	}
	s.settings.Batch = min(s.settings.Batch, 1<<16)
	s.interval = time.Second
	if s.settings.Interval > 0 {
		s.interval = max(time.Duration(min(s.settings.Interval, 3600)*float64(time.Second)), time.Millisecond)
	}
	s.keyed = s.settings.Checkpoint
	return nil
}

// node checks one step and completes its config.
func (c *catalog) node(call *action.Call, step *Step) (*node, error) {
	m := c.modules[step.Module]
	if m == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("step %s: unknown module %q", step.ID, step.Module),
			Hint: "stepwell actions lists the known ones"}
	}
	checker, _ := c.checks.Params(m.Spec.Name)
	if step.Config == nil {
		step.Config = map[string]any{}
	}
	var problems []error
	for _, p := range checker.Check(step.Config) {
		problems = append(problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "step " + step.ID + ": config: " + p.Message, Hint: p.Hint})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	n := &node{step: *step, module: m, config: checker.Apply(step.Config), host: call.Host.Member(step.ID), level: slog.LevelDebug}
	if n.config == nil {
		n.config = map[string]any{}
	}
	n.shown = (&action.Action{Spec: m.Spec}).Redact(n.config)
	if m.Check != nil {
		for _, err := range m.Check(n.config) {
			problems = append(problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "step " + step.ID + ": config", Hint: stepwell.HintOf(err), Err: err})
		}
	}
	if step.LogLevel != "" {
		if err := n.level.UnmarshalText([]byte(strings.Replace(strings.ToUpper(step.LogLevel), "WARNING", "WARN", 1))); err != nil {
			n.level = slog.LevelInfo
		}
	}
	return n, errors.Join(problems...)
}

// hashConfig hashes everything that must be unchanged for a checkpoint to apply. Secrets are not included.
func (s *segment) hashConfig() error {
	p := s.params
	type part struct {
		ID, Module string
		Config     map[string]any
		Inputs     []string
		Merge      string `json:",omitempty"`
	}
	whole := struct {
		Workflow, Entry, Collection string
		Steps                       []part
	}{p.Workflow, p.Entry, s.collection, nil}
	for _, n := range s.steps {
		whole.Steps = append(whole.Steps, part{n.step.ID, n.module.Spec.Name, n.shown, n.step.Inputs, n.step.Merge})
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "config", Err: err}
	}
	sum := sha256.Sum256(s.secrets.JSON(s.call.Execution, raw))
	s.hash = hex.EncodeToString(sum[:])
	s.base += "-" + s.hash[:12]
	return nil
}

// fail ends the whole segment because of a step; the first error counts. It returns it.
func (s *segment) fail(n *node, err error) error {
	s.losing.Lock()
	defer s.losing.Unlock()
	s.once.Do(func() {
		n.failed, n.err = true, permanent(err)
		s.cause = &action.MemberError{Member: n.step.ID, Err: n.err}
		s.cancel(s.cause)
	})
	return err
}

// stop ends a step and its dependents for an error of a goroutine, which may be another step's.
func (s *segment) stop(n *node, err error) {
	if m, ok := errors.AsType[*member](err); ok {
		n, err = m.node, m.err
	}
	if !errors.Is(err, errLost) {
		s.lose(n, err)
	}
}

// spawn runs f in a goroutine of the segment's. Its error, or panic, ends the step and its dependents.
func (s *segment) spawn(n *node, f func() error) {
	s.work.Go(func() {
		err := func() (err error) {
			defer s.rescue(n, &err)
			return f()
		}()
		if err != nil {
			s.stop(n, err)
		}
	})
}

// rescue makes an error of a panic in a module.
func (s *segment) rescue(n *node, err *error) {
	if r := recover(); r != nil {
		*err = &member{n, &stepwell.Error{Code: stepwell.CodePanic, Message: fmt.Sprintf("%s panicked: %v", n.module.Spec.Name, r),
			Hint: "this is a fault of the module; the step's log has the stack"}}
		n.host.Log(slog.LevelError, "panic", slog.String("stack", string(debug.Stack())))
	}
}

// recordDuration notes how long steps worked.
func (s *segment) recordDuration(nodes ...*node) {
	for _, n := range nodes {
		n.took = time.Since(n.began)
	}
}

// markDone marks an item as done at some ends: they have it in an earlier form, and so under another key. keysMu is held.
func (s *segment) markDone(it *Item, ends uint64) {
	o := &it.origin
	if s.had == nil {
		s.had = make([][]entry, len(s.graph.ends))
	}
	for end := range s.had {
		if bit := uint64(1) << end; ends&bit != 0 && o.known&bit == 0 {
			s.had[end] = append(s.had[end], entry{key: o.key, seq: o.seq, root: int32(o.root.index)})
		}
	}
	o.known |= ends
}

// writeDoneKeys writes the present keys of the items of markDone into the checkpoint, for later runs. Their numbers are
// negative, so that they count as durable at once. The checkpoint's lock is held.
func (s *segment) writeDoneKeys() error {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	for end, keys := range s.had {
		if len(keys) == 0 {
			continue
		}
		s.had[end] = nil
		if err := s.checkpoint.append(block{End: end, From: -int64(len(keys)), Spool: s.checkpoint.latest.Spool}, keys, false); err != nil {
			return err
		}
	}
	return nil
}

// dropKnown marks the items of a batch that some end has already, removes those that all ends have, and returns the number
// removed. The others are matched with the failed items that a retry looks for.
func (s *segment) dropKnown(b *batch) (skipped int, err error) {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	ends := b.ticket.root.ends
	kept := b.items[:0]
	for _, it := range b.items {
		for i, bag := range s.bags {
			if bag != nil && ends&(1<<i) != 0 && bag.removeOne(it.origin.key) {
				it.origin.known |= 1 << i
			}
		}
		r := b.ticket.root
		if it.origin.known == ends && !r.handOff && !r.whole {
			skipped++
			continue
		}
		if it.origin.known != ends || ends == 0 {
			missed, found, err := s.sought.matchItem(it.origin.root, it.origin.marks, it.ID())
			if err != nil {
				return 0, err
			}
			if found && !r.handOff { // it is at the other ends, as it was then
				s.markDone(it, ends&^missed)
			}
		}
		kept = append(kept, it)
	}
	clear(b.items[len(kept):])
	b.items = kept
	return skipped, nil
}
