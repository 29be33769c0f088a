package engine

import (
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
)

// Forecast lists the effects of a retry or a restart by step key. Consecutive iterations are one entry: "loop[4..9]".
// A step that is repeated in parts is in no list: its parts are.
type Forecast struct {
	Repeated []string // did not complete, or was asked for
	Again    []Again  // runs again because of another one
	Kept     []string // its result is taken over
	// Items maps stream steps that go on from done work to the number of failed items that are retried. The caller
	// fills in the numbers.
	Items map[string]int64
}

// Again is a step that runs again because of another one.
type Again struct {
	Step    string
	Because string // "": it runs at every end of a pipeline (finally)
}

// Retain makes a run keep the inside of groups and iterations that ended without completing wholly, for Seeds,
// RestartSeeds and the previews. Call it before the first event, on a run rebuilt only for that: it costs memory for
// everything that failed.
func (r *Run) Retain() { r.retain = true }

// Seeds lists the results that a retry of this execution takes over: completed steps neither after from (empty: none)
// nor after a step that has to run again. The caller fills in outputs. The run must have been rebuilt with Retain.
// CodeConflict: nothing failed, so there is nothing to retry.
func (r *Run) Seeds(from string) ([]Seed, error) {
	w, err := r.retried(from)
	if err != nil {
		return nil, err
	}
	return w.seeds, nil
}

// Beginning lists the results of the first steps, for an execution with another plan: those that completed with all that is
// inside them, or did not have to run, and that have added no steps. The caller fills in outputs.
func (r *Run) Beginning() (seeds []Seed) {
	for i := range r.plan.Graph.Steps {
		p := place{r.main, int32(i)}
		if p.node().lost() || p.node().skippedAfter() || slices.ContainsFunc(r.main.extra, func(x spawned) bool { return x.by == p.idx() }) {
			break
		}
		seeds = append(seeds, r.result(p, Seed{Key: p.key()}))
	}
	return seeds
}

// Completed lists the results of the steps at the top level that completed with all that is inside them and have added no steps, for an
// execution with another plan. The caller fills in outputs.
func (r *Run) Completed() (seeds []Seed) {
	if r.main == nil {
		return nil
	}
	for i := range r.plan.Graph.Steps {
		p := place{r.main, int32(i)}
		if n := p.node(); n.status != stepwell.StepCompleted || n.lost() || slices.ContainsFunc(r.main.extra, func(x spawned) bool { return x.by == p.idx() }) {
			continue
		}
		seeds = append(seeds, r.result(p, Seed{Key: p.key()}))
	}
	return seeds
}

// PreviewRetry returns the effects of a retry of this execution (see Seeds).
func (r *Run) PreviewRetry(from string) (*Forecast, error) {
	w, err := r.retried(from)
	if err != nil {
		return nil, err
	}
	return w.forecast(), nil
}

func (r *Run) retried(from string) (*survey, error) {
	m := r.main
	if m == nil || r.Held() {
		return nil, notStarted()
	}
	var asked []int32
	if from != "" {
		p, ok := locate(m, from)
		if !ok {
			return nil, noStep(from)
		}
		asked = append(asked, p.i)
	}
	w := &survey{r: r}
	w.scope(m, asked)
	if from == "" && r.status == stepwell.ExecutionCompleted && !w.lost {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "nothing failed in the execution: there is nothing to retry",
			Hint: "name a step to run again (from_step), or start a new execution"}
	}
	w.handlers(m, r.plan.Finally)
	return w, nil
}

func notStarted() error {
	return stepwell.Errorf(stepwell.CodeConflict, "", "the execution has not started")
}

func noStep(key string) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no step %q at the pipeline's top level", key),
		Hint: "a step inside a group or for_each is repeated with the step around it"}
}

// PreviewRestart returns the effects of a restart. With failedOnly the run must have been rebuilt with Retain.
func (r *Run) PreviewRestart(key string, failedOnly bool) (*Forecast, error) {
	restart := r.restartable
	if failedOnly {
		restart = r.redoable
	}
	p, err := restart(key)
	if err != nil {
		return nil, err
	}
	w := &survey{r: r}
	because := r.downstream(p)
	for i := range r.main.nodes {
		q := place{r.main, int32(i)}
		switch by := because[i]; {
		case q == p && failedOnly:
			w.inside(q)
			w.goesOn(q)
		case by >= 0 && !q.node().skippedAfter():
			w.again(q.key(), r.main.key(by))
		case by != untouched:
			w.repeat(q.key())
		case q.node().status.Terminal():
			w.keep(q.key())
		}
	}
	w.handlers(r.main, r.plan.Finally)
	return w.forecast(), nil
}

// RestartSeeds lists the results that a failed-only restart keeps inside a step, and the step's epoch, for which the
// list holds. The caller fills in outputs. The run must have been rebuilt with Retain.
func (r *Run) RestartSeeds(key string) ([]Seed, uint32, error) {
	p, err := r.redoable(key)
	if err != nil {
		return nil, 0, err
	}
	w := &survey{r: r}
	if in := p.node().info; in != nil {
		w.inPlace = in.each
	}
	w.inside(p)
	return w.seeds, p.node().epoch, nil
}

// redoable finds a step that has ended, and something inside of which did not complete.
func (r *Run) redoable(key string) (place, error) {
	p, err := r.restartable(key)
	if err != nil {
		return p, err
	}
	if p.i = p.s.unit(p.i); !p.node().status.Terminal() || !p.node().lost() || !r.divisible(p) && len(p.step().Members()) == 0 {
		return p, notRedoable(key)
	}
	return p, nil
}

func notRedoable(key string) error {
	return stepwell.Invalid("restart the whole step", "step %q has not ended with parts inside it that failed", key)
}

// lost: the step, or something inside it, did not complete. A step skipped because another one failed is not lost by
// itself: it comes after that one.
func (n *node) lost() bool {
	switch n.status {
	case stepwell.StepCompleted:
		return n.flags&(partly|tolerated) != 0
	case stepwell.StepSkipped:
		return n.flags&(stranded|halted|tolerated) != 0
	}
	return true
}

// skippedAfter: the step did not run because of a failure before it.
func (n *node) skippedAfter() bool { return n.status == stepwell.StepSkipped && n.flags&upstream != 0 }

// divisible: the inside of the step can be repeated in parts.
func (r *Run) divisible(p place) bool {
	if p.step().Body == nil {
		return false
	}
	in := p.node().info
	return in != nil && (in.each != nil || in.past != nil) || r.remembers(p.key())
}

const (
	untouched int32 = -2 // neither repeated nor after something that is
	root      int32 = -1 // repeated for its own sake
)

// division is the part of a scope that is repeated.
type division struct {
	because []int32 // untouched, root, or the local index of the step after which it is
	whole   []bool  // a root that is repeated with all that is inside
	asked   []bool  // a root whose repetition was requested
	after   []int32 // a step that is repeated and before this one, untouched for none
}

// divide finds the steps of an ended scope that are repeated: those asked for, those that did not complete, and all
// after them. It visits every step of the scope.
func (r *Run) divide(s *scope, asked []int32) *division {
	n := len(s.nodes)
	d := &division{because: make([]int32, n), whole: make([]bool, n), asked: make([]bool, n), after: make([]int32, n)}
	for i := range d.because {
		d.because[i], d.after[i] = untouched, untouched
	}
	var roots []int32
	add := func(i int32, whole bool) {
		if d.because[i] == untouched {
			d.because[i] = root
			roots = append(roots, i)
		}
		d.whole[i] = d.whole[i] || whole
	}
	for _, i := range asked {
		d.asked[s.unit(i)] = true
		add(i, true)
		add(s.unit(i), true)
	}
	for i := range s.nodes {
		if p := (place{s, int32(i)}); p.node().lost() {
			add(p.i, !r.divisible(p))
			if lead := s.unit(p.i); lead != p.i {
				add(lead, true)
			}
		}
	}
	r.spread(s, roots, func(from, i int32) bool {
		if d.after[i] == untouched && s.unit(from) != s.unit(i) {
			d.after[i] = from
		}
		fresh := d.because[i] == untouched
		if fresh {
			d.because[i] = from
		}
		return fresh
	})
	for i := range d.because {
		if d.because[i] == root && !d.whole[i] && d.after[i] >= 0 {
			d.because[i] = d.after[i]
		}
	}
	return d
}

// unit is the step that a step is dispatched with: the lead of its segment, or itself.
func (s *scope) unit(i int32) int32 {
	if lead, led := s.step(i).Lead(); led {
		return lead
	}
	return i
}

// goesOn: the segment that the step leads repeats only its failed items.
func (d *division) goesOn(i int32) bool {
	return d.because[i] == root && !d.asked[i] && d.after[i] == untouched
}

// survey walks over an ended execution and collects the kept and the repeated steps.
type survey struct {
	r       *Run
	seeds   []Seed
	fc      Forecast
	lost    bool  // something did not complete
	inPlace *each // of a restart: its completed iterations stay as they are
	span    span
}

// span is consecutive iterations listed as one entry.
type span struct {
	loop        string
	first, next int32
	kept        bool
}

// scope surveys an instance of a graph of which some steps are asked for.
func (w *survey) scope(s *scope, asked []int32) {
	d := w.r.divide(s, asked)
	in := s.memory()
	for i := range s.nodes {
		p := place{s, int32(i)}
		seed := Seed{In: in, Key: p.key(), Status: stepwell.StepPending}
		if x := s.spawnedAt(p.i); x != nil {
			by, _ := s.local(x.by)
			if d.because[by] != untouched { // it is spawned again, or not
				w.again(seed.Key, s.key(by))
				continue
			}
			seed.By, seed.Spawn = s.localKey(by), &x.spec
		}
		w.lost = w.lost || p.node().lost()
		switch by := d.because[i]; {
		case by == untouched:
			w.keep(seed.Key)
			w.seeds = append(w.seeds, w.r.result(p, seed))
			continue
		case by >= 0 && !p.node().skippedAfter():
			w.again(seed.Key, s.key(by))
		case by >= 0 || d.whole[i]:
			w.repeat(seed.Key)
			if seed.GoesOn = len(p.step().Members()) > 0 && d.goesOn(p.i); seed.GoesOn {
				w.goesOn(p)
			}
		default:
			w.inside(p)
		}
		if seed.Spawn != nil || seed.GoesOn {
			w.seeds = append(w.seeds, seed)
		}
	}
}

// result fills in how a step ended that is taken over.
func (r *Run) result(p place, seed Seed) Seed {
	n := p.node()
	seed.Status, seed.Seq, seed.Read = n.status, n.seq, r.keeps(p)
	if in := n.info; in != nil {
		if n.status == stepwell.StepSkipped {
			seed.Why, seed.Bars = in.err, n.flags&upstream != 0
		}
		seed.Inside = in.inside.carried()
	}
	return seed
}

// inside surveys the inside of a step that is repeated in parts.
func (w *survey) inside(p place) {
	in := p.node().info
	switch {
	case in != nil && in.each != nil:
		w.iterations(p, in.each)
	case in != nil && in.past != nil:
		w.scope(in.past, nil)
		w.handlers(in.past, p.step().Body.Finally)
	default: // a segment, or a step that has not yet taken over its seeds
		w.repeat(p.key())
		w.pass(p.key())
	}
}

// goesOn lists the steps of a segment that repeats only its failed items.
func (w *survey) goesOn(lead place) {
	for _, m := range lead.step().Members() {
		if w.fc.Items == nil {
			w.fc.Items = map[string]int64{}
		}
		w.fc.Items[lead.s.key(m.Step)] = 0
	}
}

// pass hands on the seeds of a step that has not begun.
func (w *survey) pass(key string) {
	for _, seed := range w.r.remembered(key) {
		if w.seeds = append(w.seeds, *seed); seed.Status.Terminal() {
			w.keep(seed.Key)
		}
	}
}

func (w *survey) iterations(p place, e *each) {
	key := p.key()
	if e != w.inPlace {
		w.seeds = append(w.seeds, Seed{In: key, Key: key, Items: e.digest()})
	}
	redo := make(map[int32]bool, len(e.redo))
	for _, it := range e.redo {
		redo[it.iter] = true
	}
	again := make(map[int32]bool, len(e.again))
	for _, i := range e.again {
		again[i] = true
	}
	for i := range e.n {
		s := e.past[i]
		switch {
		case i >= e.next && !e.kept[i] || again[i]:
			w.iteration(key, i, false)
			if w.r.memory != nil {
				w.pass(e.key(key, i))
			}
		case redo[i] && s != nil && w.r.divisible(place{s, 0}):
			w.inside(place{s, 0})
		case redo[i]:
			w.iteration(key, i, false)
		default:
			w.iteration(key, i, true)
			if e != w.inPlace {
				w.seeds = append(w.seeds, e.seed(key, i, p.step().Body.Graph.Steps[0].Keep))
			}
		}
	}
	w.lost = w.lost || len(redo)+len(again) > 0 || e.next < e.n
}

// iteration lists one iteration, joined with its neighbours of the same fate.
func (w *survey) iteration(loop string, i int32, kept bool) {
	at := &w.span
	if at.loop != loop || at.next != i || at.kept != kept {
		w.flush()
		*at = span{loop: loop, first: i, kept: kept}
	}
	at.next = i + 1
}

func (w *survey) flush() {
	at := w.span
	w.span = span{}
	if at.loop == "" {
		return
	}
	name := fmt.Sprintf("%s[%d]", at.loop, at.first)
	if at.next > at.first+1 {
		name = fmt.Sprintf("%s[%d..%d]", at.loop, at.first, at.next-1)
	}
	if at.kept {
		w.fc.Kept = append(w.fc.Kept, name)
	} else {
		w.fc.Repeated = append(w.fc.Repeated, name)
	}
}

func (w *survey) keep(key string)   { w.flush(); w.fc.Kept = append(w.fc.Kept, key) }
func (w *survey) repeat(key string) { w.flush(); w.fc.Repeated = append(w.fc.Repeated, key) }
func (w *survey) again(key, because string) {
	w.flush()
	w.fc.Again = append(w.fc.Again, Again{key, because})
}

// handlers lists the steps that run at every end of a pipeline.
func (w *survey) handlers(s *scope, finally *plan.Graph) {
	if finally == nil {
		return
	}
	for i := range finally.Steps {
		w.again(s.inner()+"finally."+finally.Steps[i].ID, "")
	}
}

func (w *survey) forecast() *Forecast {
	w.flush()
	return &w.fc
}
