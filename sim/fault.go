package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// Point is a place that what happens passes.
type Point string

// The points, in the order in which an attempt passes them.
const (
	BeforeCommit Point = "before-commit"
	AfterCommit  Point = "after-commit"
	BeforePush   Point = "before-push"
	AfterPush    Point = "after-push"
	AfterPull    Point = "after-pull" // before the action runs
	BeforeMemo   Point = "before-memo"
	AfterMemo    Point = "after-memo"
	BeforeBlob   Point = "before-blob" // a large value is stored
	AfterBlob    Point = "after-blob"
	BeforeLoad   Point = "before-load" // one is read
	BeforeReport Point = "before-report"
	AfterReport  Point = "after-report"
	BeforeSignal Point = "before-signal"
	AfterSignal  Point = "after-signal"
)

// Fate is what becomes of what passes a point.
type Fate string

// The fates.
const (
	Passes  Fate = ""
	Dies    Fate = "dies"    // the process ends
	Stops   Fate = "stops"   // the process is asked to end: it begins nothing more, and waits for what runs (stopAfter)
	Refused Fate = "refused" // the store, the blobs or the queue answer with an error, at an After… point although they have done what was asked
	Away    Fate = "away"    // the store, or the blobs, refuse this and the next requests (awayFor)
	Down    Fate = "down"    // they refuse for so long that a process that waits for them gives up
	Twice   Fate = "twice"   // it comes twice: a message, a report, a signal
	Late    Fate = "late"    // messages or a report come once more, a minute later
	Lost    Fate = "lost"    // the worker is lost, and reports all the same when another one has the step
	Gone    Fate = "gone"    // a push comes to nothing: only another process sends its attempts again
	Emptied Fate = "emptied" // so does this one, and the process ends soon after
	Forward Fate = "forward" // the clock is set forward by an hour: what takes time takes as long as before
	Back    Fate = "back"    // it is set back by an hour
)

// FatesOf are those that a point knows.
type FatesOf struct {
	Point
	Fates []Fate
}

// Fates are those that each point knows, in order.
var Fates = []FatesOf{
	{BeforeCommit, []Fate{Dies, Refused, Away, Down}}, {AfterCommit, []Fate{Dies, Refused, Stops, Forward, Back}},
	{BeforePush, []Fate{Dies, Refused, Emptied}}, {AfterPush, []Fate{Dies, Twice, Late, Stops}}, {AfterPull, []Fate{Dies, Lost, Stops, Forward, Back}},
	{BeforeMemo, []Fate{Dies, Away}}, {AfterMemo, []Fate{Dies, Refused}}, {BeforeBlob, []Fate{Dies, Away, Down}}, {AfterBlob, []Fate{Dies, Refused}},
	{BeforeLoad, []Fate{Dies, Away, Down}}, {BeforeReport, []Fate{Dies, Lost, Stops}}, {AfterReport, []Fate{Dies, Twice, Late, Stops}},
	{BeforeSignal, []Fate{Dies, Away}}, {AfterSignal, []Fate{Dies, Twice, Refused, Stops}},
}

const (
	lateBy    = time.Minute // when comes what is Late
	setBy     = time.Hour   // how far the clock is set
	stopAfter = 30 * time.Second
	// awayFor is how many requests are refused after the first one that is Away: fewer than the conductor tries.
	awayFor = 3
	// downFor is how many are refused that is Down, if the process does not give up before: it does after patience pauses. The conductor
	// has as much patience with its commits.
	downFor  = 12
	patience = 8
)

// Passage is that something passes a point.
type Passage struct {
	Point Point
	Key   string // of the step; "" where it is none's: a commit, a push, a signal
	N     int    // counts the passages of the point with the key, from 1, over all lives of the process
}

// String is like after-report:deploy#1.
func (p Passage) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s#%d", p.Point, p.N)
	}
	return fmt.Sprintf("%s:%s#%d", p.Point, p.Key, p.N)
}

var (
	errDead = stepwell.Errorf(stepwell.CodeInternal, "", "the process has ended")
	errAway = stepwell.Errorf(stepwell.CodeUnavailable, "", "refused by the test")
)

// pass asks for the fate at a point. The error says that what was asked for is not done, or that the process has ended.
func (w *World) pass(point Point, key string) (Fate, error) {
	w.passing.Lock() // a recovery reads blobs beside the loop
	defer w.passing.Unlock()
	if w.dead {
		return Dies, errDead
	}
	if w.o.Fault == nil {
		return Passes, nil
	}
	n := Passage{point, key, w.count(point, key)}
	left := w.refusing(point)
	if left != nil && *left > 0 {
		if *left--; *left == 0 {
			w.down = false
		}
		return Refused, errAway
	}
	switch fate := w.o.Fault(n); fate {
	case Dies:
		w.dead = true
		return fate, errDead
	case Refused:
		return fate, errAway
	case Away, Down:
		if left != nil {
			*left = awayFor
			if fate == Down {
				*left, w.down = downFor, true
			}
		}
		return fate, errAway
	case Stops:
		w.stopping = true
		return Passes, nil
	case Forward:
		w.Clock.off += setBy
		return Passes, nil
	case Back:
		w.Clock.off -= setBy
		return Passes, nil
	default:
		return fate, nil
	}
}

// passages count what has passed with a key, by the place of the point in Fates.
type passages [14]int32

// count counts a passage.
func (w *World) count(point Point, key string) int {
	p := w.passed[key]
	if p == nil {
		p = &passages{}
		w.passed[key] = p
	}
	i := slices.IndexFunc(Fates, func(at FatesOf) bool { return at.Point == point })
	p[i]++
	return int(p[i])
}

// Over ends the faults: whoever looks at what the executions have left passes no point.
func (w *World) Over() {
	w.passing.Lock()
	defer w.passing.Unlock()
	w.o.Fault, w.dead, w.down, w.refuse = nil, false, false, [2]int{}
}

// refusing is how many more requests are refused that pass a point; nil: it is none of the store's or the blobs'.
func (w *World) refusing(point Point) *int {
	switch point {
	case BeforeCommit, BeforeMemo, BeforeSignal:
		return &w.refuse[0]
	case BeforeBlob, BeforeLoad:
		return &w.refuse[1]
	}
	return nil
}

// pause is that of a process that waits for its store, in no time. false: it gives up.
func (w *World) pause(context.Context, time.Duration) bool {
	w.passing.Lock()
	defer w.passing.Unlock()
	if w.pauses++; w.down && w.pauses > patience {
		w.dead = true
	}
	return !w.dead
}

// mortalStore, mortalBlobs, mortalQueue and mortalReporter do nothing once the process has ended.
type mortalStore struct {
	store.Store
	w *World
}

func (s mortalStore) Commit(ctx context.Context, commits []store.Commit) error {
	if _, err := s.w.pass(BeforeCommit, ""); err != nil {
		return err
	}
	if err := s.Store.Commit(ctx, commits); err != nil {
		return err
	}
	s.w.trace(Trace{What: Committed, Commits: commits})
	_, err := s.w.pass(AfterCommit, "")
	return err
}

// Blobs implements store.Store.
func (s mortalStore) Blobs() store.Blobs { return mortalBlobs{s.Store.Blobs(), s.w} }

type mortalBlobs struct {
	store.Blobs
	w *World
}

func (b mortalBlobs) Put(ctx context.Context, value []byte) (string, error) {
	if _, err := b.w.pass(BeforeBlob, ""); err != nil {
		return "", err
	}
	ref, err := b.Blobs.Put(ctx, value)
	if err == nil {
		_, err = b.w.pass(AfterBlob, "")
	}
	return ref, err
}

func (b mortalBlobs) Load(ctx context.Context, ref string) ([]byte, error) {
	if _, err := b.w.pass(BeforeLoad, ""); err != nil {
		return nil, err
	}
	return b.Blobs.Load(ctx, ref)
}

func (s mortalStore) PutSignal(ctx context.Context, x store.Signal) (bool, error) {
	if _, err := s.w.pass(BeforeSignal, ""); err != nil {
		return false, err
	}
	fresh, err := s.Store.PutSignal(ctx, x)
	if err != nil {
		return fresh, err
	}
	if fresh {
		s.w.trace(Trace{What: Signalled, Key: x.Key})
	}
	fate, err := s.w.pass(AfterSignal, "")
	s.w.resend = fate == Twice
	return fresh, err
}

// Signal stores a signal and hands it to the steps that await it.
func (w *World) Signal(ctx context.Context, x store.Signal) (fresh, delivered bool, err error) {
	fresh, delivered, err = w.Conductor.Signal(ctx, x)
	if w.resend && err == nil {
		w.resend = false
		if _, _, err := w.Conductor.Signal(ctx, x); w.dead {
			return fresh, delivered, err
		} // else it is its sender's to know that a repetition is refused
	}
	return fresh, delivered, err
}

func (s mortalStore) PutMemo(ctx context.Context, m store.Memo) error {
	if _, err := s.w.pass(BeforeMemo, s.w.key(m.Execution, m.Step)); err != nil {
		return err
	}
	if err := s.Store.PutMemo(ctx, m); err != nil {
		return err
	}
	s.w.trace(Trace{What: Remembered, Run: m.Execution, Idx: m.Step, Epoch: m.Epoch, Key: m.Key, Value: m.Value})
	_, err := s.w.pass(AfterMemo, s.w.key(m.Execution, m.Step))
	return err
}

func (s mortalStore) AppendLogs(ctx context.Context, lines []store.LogLine) error {
	if s.w.dead {
		return errDead
	}
	return s.Store.AppendLogs(ctx, lines)
}

type mortalQueue struct {
	*queue.Memory
	w *World
}

func (q mortalQueue) Push(ctx context.Context, messages []queue.Message) error {
	switch fate, err := q.w.pass(BeforePush, ""); {
	case err != nil:
		return err
	case fate == Emptied:
		q.w.Plan(q.w.Clock.at, func(context.Context) error { q.w.dead = true; return nil })
		return nil
	case fate == Gone:
		return nil
	}
	for i := range messages {
		t := messages[i].Body.(*engine.Task)
		q.w.trace(Trace{What: Pushed, Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Key: t.Key, Once: t.Step.Policy.NotIdempotent})
	}
	if err := q.Memory.Push(ctx, messages); err != nil {
		return err
	}
	fate, err := q.w.pass(AfterPush, "")
	switch fate {
	case Twice:
		return q.Memory.Push(ctx, messages)
	case Late:
		list := slices.Clone(messages)
		q.w.Plan(q.w.Clock.at.Add(lateBy), func(ctx context.Context) error { return q.w.queue.Push(ctx, list) })
	}
	return err
}

type mortalReporter struct{ w *World }

// Report implements worker.Reporter.
func (r mortalReporter) Report(ctx context.Context, run int64, ev engine.Event) error {
	w, key := r.w, r.w.key(run, ev.Idx)
	switch fate, err := w.pass(BeforeReport, key); {
	case err != nil:
		return err
	case fate == Lost && ev.Kind != engine.Running && ev.Kind != engine.Spawned:
		w.planReport(w.Clock.at, run, ev) // when another worker has the step
		ev = w.lost(ev.Idx, ev.Epoch)
	}
	if err := w.Conductor.Report(ctx, run, ev); err != nil {
		return err
	}
	if ev.Kind == engine.Running {
		w.trace(Trace{What: Claimed, Run: run, Idx: ev.Idx, Epoch: ev.Epoch, Key: key})
	}
	fate, err := w.pass(AfterReport, key)
	switch fate {
	case Twice:
		return w.reportAgain(ctx, run, ev)
	case Late:
		w.planAgain(w.Clock.at.Add(lateBy), run, ev)
	}
	return err
}

// planReport and planAgain plan reports. They are functions of their own so that no other report moves to the heap.
func (w *World) planReport(at time.Time, run int64, ev engine.Event) {
	w.Plan(at, func(ctx context.Context) error { return w.Conductor.Report(ctx, run, ev) })
}

func (w *World) planAgain(at time.Time, run int64, ev engine.Event) {
	w.Plan(at, func(ctx context.Context) error { return w.reportAgain(ctx, run, ev) })
}

// reportAgain reports what may have been reported.
func (w *World) reportAgain(ctx context.Context, run int64, ev engine.Event) error {
	if err := w.Conductor.Report(ctx, run, ev); stepwell.CodeOf(err) != stepwell.CodeConflict {
		return err
	}
	return nil
}

// LostByFault is the name of a worker that a Fault has lost.
const LostByFault = "lost by the test"

// lost says that the worker of an attempt is lost.
func (w *World) lost(idx int32, epoch uint32) engine.Event {
	return engine.Event{Kind: engine.Lost, At: w.Clock.Now().UnixMicro(), Idx: idx, Epoch: epoch, Worker: LostByFault}
}
