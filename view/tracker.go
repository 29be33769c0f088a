// Package view shows one execution while it runs in this process: as a tree that is redrawn on a terminal, as a line
// for each event, or as JSON. A Tracker follows what the conductor commits and what the workers report, and never
// asks the store.
package view

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// event is one thing that happened, as views and `-o json` show it.
type event struct {
	At        time.Time       `json:"timestamp"`
	Type      string          `json:"type"` // execution, step or log
	Execution string          `json:"execution_id,omitempty"`
	Step      string          `json:"step_id,omitempty"`
	Status    string          `json:"status,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Level     string          `json:"level,omitempty"`
	Message   string          `json:"message,omitempty"`
	Hint      string          `json:"hint,omitempty"`
	Attrs     json.RawMessage `json:"metadata,omitempty"` // of a log line
	Duration  *int64          `json:"duration_ms,omitempty"`
	Wake      *time.Time      `json:"until,omitempty"`
	state     stepwell.StepStatus
	child     bool // an iteration or a spawned step
}

// view shows an execution. Its methods are called one at a time.
type view interface {
	show(e *event)
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
	Workers  int  // how many steps run at once
	// Of reports whether an execution is the one to show. It is asked until it agrees.
	Of func(*store.Execution) bool
}

// Tracker follows one execution and shows it. Its methods may be called concurrently; after Close, only Counts.
type Tracker struct {
	mu    sync.Mutex
	view  view
	mine  func(*store.Execution) bool // the execution to follow, before its number is known
	no    int64
	id    string
	slots int // workers

	board    *board
	status   stepwell.ExecutionStatus
	begun    time.Time
	progress engine.Progress
	// totalKnown: progress is that of the commit before, so that its growth means something.
	totalKnown bool
	tasks      map[int32]*task
	queued     []int32 // dispatched and waiting for a worker, in order
	active     int
	draining   bool
	spawns     map[int32]stepwell.StepStatus
}

// task is a dispatched attempt that has not ended.
type task struct {
	key     string
	attempt int
	line    *line
	kin     kin
	running bool
	// A stream's segment is dispatched as one: with are the other steps of a lead, and led tells them.
	with []int32
	led  bool
}

// New returns a tracker of an execution of d. Its caller closes it.
func New(d *definition.Definition, o Options) *Tracker {
	t := &Tracker{view: &plainView{o.Out}, mine: o.Of, slots: o.Workers, board: newBoard(d), begun: time.Now(),
		tasks: map[int32]*task{}, spawns: map[int32]stepwell.StepStatus{}}
	if o.JSON {
		t.view = &jsonView{NewEncoder(o.Out)}
	} else if o.Terminal != nil {
		t.view = newLiveView(o.Terminal, o.Colour, t)
	}
	return t
}

// Observe applies what one commit changed (app.Options.Observe).
func (t *Tracker) Observe(u *conductor.Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := u.Execution
	if t.no == 0 && t.mine(x) {
		t.no, t.id = x.No, x.ID
		t.progress.Total, t.totalKnown = len(t.board.ids), true
	}
	if x.No != t.no {
		return
	}
	now := time.Now()
	if x.Status != t.status {
		t.status = x.Status
		if !x.Status.Terminal() {
			t.view.show(&event{At: now, Type: "execution", Execution: t.id, Status: x.Status.String()})
		}
	}
	if t.totalKnown {
		t.countIterations(u)
	}
	t.progress, t.totalKnown = u.Progress, true
	for i := range u.Rows {
		t.applyRow(&u.Rows[i], now)
	}
	for _, task := range u.Tasks {
		t.dispatched(task)
	}
	t.promote(now)
}

// countIterations finds out how many iterations a for_each has. The engine tells the total of all
// steps only, so this works when nothing else that has steps inside starts in the same commit.
func (t *Tracker) countIterations(u *conductor.Update) {
	grown := u.Progress.Total - t.progress.Total
	var opened *line
	for i := range u.Rows {
		row := &u.Rows[i]
		l, is := t.board.find(t.key(row))
		switch {
		case row.Status == stepwell.StepPending && is == child && !l.body && t.isNew(row.Idx):
			grown--
		case row.Status != stepwell.StepRunning || is != itself || !l.body:
		case opened != nil:
			return
		default:
			opened = l
		}
	}
	if opened != nil && opened.single && grown > 0 {
		opened.total = grown
	}
}

func (t *Tracker) isNew(idx int32) bool { _, known := t.spawns[idx]; return !known }

func (t *Tracker) key(row *engine.StepRow) string {
	if row.Key == "" && int(row.Idx) < len(t.board.ids) {
		return t.board.ids[row.Idx]
	}
	return row.Key
}
