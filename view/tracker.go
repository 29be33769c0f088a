// Package view shows one execution while it runs: as a tree that is redrawn on a terminal, as a line for each event, or
// as JSON. A Tracker takes Events, whether the conductor of this process tells them (Observe, Log, Advance) or the
// stream of the API (Apply), and never asks the store.
//
// The Write functions show what a command has been answered: for people, or as JSON where output is "json". They write to
// an io.Writer, read no flags and ask nobody.
package view

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Event is one thing that happened, as views and `-o json` show it.
type Event struct {
	At        time.Time       `json:"timestamp"`
	Type      string          `json:"type"` // execution, step, log, note; progress is not shown by itself
	Execution string          `json:"execution_id,omitempty"`
	Step      string          `json:"step_id,omitempty"`
	Status    string          `json:"status,omitempty"` // of a step, "started" for running
	Attempt   int             `json:"attempt,omitempty"`
	Level     string          `json:"level,omitempty"`
	Message   string          `json:"message,omitempty"`
	Hint      string          `json:"hint,omitempty"`
	Attrs     json.RawMessage `json:"metadata,omitempty"` // of a log line
	Duration  *int64          `json:"duration_ms,omitempty"`
	Wake      *time.Time      `json:"until,omitempty"`
	// State is a step's status.
	State stepwell.StepStatus `json:"-"`
	// Fraction and Counts are a running step's own progress, with Message.
	Fraction float64        `json:"-"`
	Counts   *action.Counts `json:"-"`
	child    bool           // an iteration or a spawned step
}

// view shows an execution. Its methods are called one at a time.
type view interface {
	show(e *Event)
	say(text string) // a message of Stepwell's own
	close()
}

// Options say where and how an execution is shown.
type Options struct {
	Out io.Writer
	// JSON writes one object for each event. It overrules Terminal.
	JSON bool
	// Terminal is the terminal to draw a tree on. Defaults to none: one line for each event.
	Terminal *os.File
	Colour   bool // of the tree
	// Workers is how many steps run at once in this process: of dispatched steps, so many are taken to have started.
	Workers int
	// Asked is told of each step that waits for an approval. It is called under a lock and returns at once. Defaults to nobody.
	Asked func(step string)
	// Of reports whether an execution is the one to show. It is asked by Observe until it agrees.
	Of func(*store.Execution) bool
}

// Tracker follows one execution and shows it. Its methods may be called concurrently; after Close, only Counts.
type Tracker struct {
	mu   sync.Mutex
	view view
	id   string
	conducted

	board    *board
	status   stepwell.ExecutionStatus
	begun    time.Time
	progress engine.Progress
	// totalKnown: progress is that of the event before, so that its growth means something.
	totalKnown bool
	counted    int     // total of the event before
	grew       bool    // the event before has begun steps with others inside
	opened     []*line // those that have begun since
	added      int     // spawned steps since

	flights  map[string]*flight // by the step's key
	streams  bool               // a stream has been dispatched
	unnamed  int                // steps that are dispatched and known by their number alone
	began    Event              // of the start that is being shown
	active   int
	draining bool
	spawns   map[string]stepwell.StepStatus
	asked    func(step string)
}

// flight is a step whose attempt has been dispatched and has not ended, or that will have another one.
type flight struct {
	attempt int
	line    *line
	kin     kin
	queued  time.Time
	started time.Time
	running bool
	failed  bool // there will be another attempt
	// A stream's segment is dispatched as one: with are the other steps of a lead, and led tells them.
	with []string
	led  bool
}

// New returns a tracker of an execution of d. Its caller closes it.
func New(d *definition.Definition, o Options) *Tracker {
	t := &Tracker{view: &plainView{o.Out}, conducted: conducted{mine: o.Of, slots: o.Workers, keys: map[int32]string{}}, board: newBoard(d), begun: time.Now(),
		flights: map[string]*flight{}, spawns: map[string]stepwell.StepStatus{}, asked: o.Asked}
	t.progress.Total, t.counted, t.totalKnown = len(t.board.ids), len(t.board.ids), true
	if o.JSON {
		t.view = &jsonView{NewEncoder(o.Out)}
	} else if o.Terminal != nil {
		t.view = newLiveView(o.Terminal, o.Colour, t)
	}
	return t
}

// Apply takes what the API's stream tells. The id of the execution is that of the first event; after are the counts of
// the execution, nil where the event has none.
func (t *Tracker) Apply(e *Event, after *engine.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id = e.Execution
	switch e.Type {
	case "execution":
		if status := stepwell.ExecutionStatus(0); status.UnmarshalText([]byte(e.Status)) == nil {
			t.execution(status, e.At)
		}
	case "log":
		t.log(e)
	case "progress":
		t.advance(e)
	default:
		if !Unnamed(e.Step) {
			t.step(e)
		} else if e.State == stepwell.StepQueued {
			t.unnamed++
		}
	}
	if after != nil {
		seen := t.counted
		if t.count(after); e.State == stepwell.StepQueued && !t.grew {
			t.counted = seen // the stream tells counts as they are now, and of a loop after those of its commit
		}
	}
}

// execution applies the execution's own status.
func (t *Tracker) execution(status stepwell.ExecutionStatus, at time.Time) {
	if status != t.status {
		if t.status = status; !status.Terminal() {
			t.view.show(&Event{At: at, Type: "execution", Execution: t.id, Status: status.String()})
		}
	}
}

// count takes the counts of the execution, and from their growth how many iterations a for_each has. Only the total of all
// steps is told, so this works when nothing else that has steps inside has begun since the counts before.
func (t *Tracker) count(p *engine.Progress) {
	grown := p.Total - t.counted - t.added
	if t.totalKnown && len(t.opened) == 1 && t.opened[0].single && grown > 0 {
		t.opened[0].total = grown
	}
	t.grew = len(t.opened) > 0
	t.progress, t.totalKnown, t.counted, t.opened, t.added = *p, true, p.Total, t.opened[:0], 0
}

// log shows a line of a step's log: the step has started.
func (t *Tracker) log(e *Event) {
	is := itself
	if f := t.flights[e.Step]; f != nil {
		t.start(e.Step, f, e.At)
		if is = f.kin; is == itself {
			f.line.note = e.Message
		}
	}
	e.child = is != itself
	t.view.show(e)
}

// advance shows a step's own progress: the step has started.
func (t *Tracker) advance(e *Event) {
	f := t.flights[e.Step]
	if f == nil {
		return
	}
	t.start(e.Step, f, e.At)
	switch {
	case f.kin != itself && f.kin != child:
	case e.Counts != nil:
		if f.line.items == nil {
			f.line.items = &items{}
		}
		f.line.items.measure(e.Counts, e.At)
		if f.kin == itself && e.Counts.Total > 0 {
			f.line.fraction = min(1, float64(e.Counts.In+e.Counts.Skipped)/float64(e.Counts.Total))
		}
		f.line.note = f.line.items.text()
	case f.kin == itself:
		f.line.fraction, f.line.note = max(0, e.Fraction), e.Message
	default:
		f.line.note = e.Message
	}
}

// Drain makes the tracker assume that no further steps start.
func (t *Tracker) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
}

// Say shows a message of Stepwell's own.
func (t *Tracker) Say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view.say(text)
}

// Asks shows what a step that waits for an approval asks, and the command that decides it.
func (t *Tracker) Asks(step, question, command string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, is := t.board.find(step); is == itself && l.state() == stepwell.StepWaiting {
		l.message = question
	}
	t.view.say(fmt.Sprintf("%s waits for an approval: %s  Decide: %s", step, OneLine(question, 500), command))
}

// Close ends the view: a tree is drawn a last time and left.
func (t *Tracker) Close() { t.view.close() }

// Execution returns the id of the execution that is shown, "" before its first event.
func (t *Tracker) Execution() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

// Live reports whether a tree is drawn, so that other writes to the terminal would tear it.
func (t *Tracker) Live() bool {
	_, live := t.view.(*liveView)
	return live
}

// Counts returns the counts of the last commit, if the execution with this id is the one that is shown.
func (t *Tracker) Counts(id string) (*engine.Progress, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	return &p, t.id == id
}
