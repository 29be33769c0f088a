package main

import (
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
	At        time.Time  `json:"timestamp"`
	Type      string     `json:"type"` // execution, step or log
	Execution string     `json:"execution_id,omitempty"`
	Step      string     `json:"step_id,omitempty"`
	Status    string     `json:"status,omitempty"`
	Attempt   int        `json:"attempt,omitempty"`
	Level     string     `json:"level,omitempty"`
	Message   string     `json:"message,omitempty"`
	Hint      string     `json:"hint,omitempty"`
	Duration  *int64     `json:"duration_ms,omitempty"`
	Wake      *time.Time `json:"until,omitempty"`
	state     stepwell.StepStatus
	child     bool // an iteration or a spawned step
}

// view shows an execution. Its methods are called one at a time.
type view interface {
	event(e *event)
	note(text string) // something that Stepwell itself says
	close()
}

// tracker follows one execution through what the conductor and the workers tell.
type tracker struct {
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
	tasks    map[int32]*task
	queued   []int32 // dispatched and waiting for a worker, in order
	active   int
	draining bool
	spawns   map[int32]stepwell.StepStatus
}

// task is a dispatched attempt that has not ended.
type task struct {
	key     string
	attempt int
	line    *line
	kin     kin
	running bool
}

func newTracker(d *definition.Definition, v view, slots int, mine func(*store.Execution) bool) *tracker {
	return &tracker{view: v, mine: mine, slots: slots, board: newBoard(d), begun: time.Now(),
		tasks: map[int32]*task{}, spawns: map[int32]stepwell.StepStatus{}}
}

// observe takes in what one commit changed (app.Options.Observe).
func (t *tracker) observe(u *conductor.Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := u.Execution
	if t.no == 0 && t.mine(x) {
		t.no, t.id = x.No, x.ID
	}
	if x.No != t.no {
		return
	}
	now := time.Now()
	if x.Status != t.status {
		t.status = x.Status
		if !x.Status.Terminal() {
			t.view.event(&event{At: now, Type: "execution", Execution: t.id, Status: x.Status.String()})
		}
	}
	t.countIterations(u)
	t.progress = u.Progress
	for i := range u.Rows {
		t.row(&u.Rows[i], now)
	}
	for _, task := range u.Tasks {
		t.dispatched(task.Idx, task.Key, task.Attempt)
	}
	t.promote(now)
}

// countIterations finds out how many iterations a for_each has. The engine tells the total of all
// steps only, so this works when nothing else that has steps inside starts in the same commit.
func (t *tracker) countIterations(u *conductor.Update) {
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

func (t *tracker) isNew(idx int32) bool { _, known := t.spawns[idx]; return !known }

func (t *tracker) key(row *engine.StepRow) string {
	if row.Key == "" && int(row.Idx) < len(t.board.ids) {
		return t.board.ids[row.Idx]
	}
	return row.Key
}

// row takes in the new state of a step.
func (t *tracker) row(row *engine.StepRow, now time.Time) {
	key := t.key(row)
	l, is := t.board.find(key)
	if is == child && !l.body {
		t.spawnedRow(l, row)
	}
	e := event{At: now, Type: "step", Execution: t.id, Step: key, Status: row.Status.String(), state: row.Status, Attempt: row.Attempt, child: is == child || is == inner}
	if row.Error != nil {
		e.Message, e.Hint = row.Error.Message, row.Error.Hint
	}
	switch {
	case row.Status == stepwell.StepPending:
		if is == itself { // a restart
			*l = line{key: l.key, depth: l.depth, many: l.many, single: l.single, body: l.body}
		}
		delete(t.tasks, row.Idx)
		return
	case row.Status == stepwell.StepRunning:
		t.running(row, l, is, &e)
		return
	case row.Status == stepwell.StepRetrying || row.Status == stepwell.StepWaiting:
		wake := time.UnixMicro(row.Wake)
		e.Wake = &wake
		t.free(row.Idx)
		if is == itself {
			l.status, l.wake, l.message, l.attempt, l.fraction, l.note = row.Status, wake, e.Message, row.Attempt, 0, ""
		}
	case row.Status.Terminal():
		if row.Started > 0 && row.Ended > 0 {
			ms := (row.Ended - row.Started) / 1000
			e.Duration = &ms
		}
		t.free(row.Idx)
		t.ended(l, is, row, &e)
	}
	t.view.event(&e)
}

// running: a step with others inside has begun, or a worker's step is seen running.
func (t *tracker) running(row *engine.StepRow, l *line, is kin, e *event) {
	if task := t.tasks[row.Idx]; task != nil {
		t.start(row.Idx, task, e.At)
		return
	}
	if is == itself && l.body {
		l.status, l.started, l.hidden = stepwell.StepRunning, e.At, false
		l.message = ""
		e.Status = "started"
		t.view.event(e)
	}
}

// spawnedRow keeps count of spawned steps. A restart may bring them back.
func (t *tracker) spawnedRow(l *line, row *engine.StepRow) {
	before, known := t.spawns[row.Idx]
	if !known {
		l.total++
	}
	if known && before.Terminal() && !row.Status.Terminal() {
		l.ended--
		if before == stepwell.StepFailed || before == stepwell.StepTimedOut {
			l.failed--
		}
	}
	t.spawns[row.Idx] = row.Status
}

func (t *tracker) ended(l *line, is kin, row *engine.StepRow, e *event) {
	switch is {
	case itself:
		l.status, l.message, l.attempt, l.wake = row.Status, e.Message, row.Attempt, time.Time{}
		l.hidden = l.hidden && row.Status == stepwell.StepSkipped
		if e.Duration != nil {
			l.took = time.Duration(*e.Duration) * time.Millisecond
		}
		if l.body && l.many && l.total < l.ended {
			l.total = l.ended
		}
	case child:
		l.ended++
		l.note = ""
		if row.Status == stepwell.StepFailed || row.Status == stepwell.StepTimedOut {
			l.failed++
			l.message = e.Message
		}
	}
}

func (t *tracker) dispatched(idx int32, key string, attempt int) {
	if t.tasks[idx] != nil {
		return
	}
	l, is := t.board.find(key)
	t.tasks[idx] = &task{key: key, attempt: attempt, line: l, kin: is}
	t.queued = append(t.queued, idx)
	if is == itself {
		l.status, l.hidden = stepwell.StepQueued, false
	}
}

// promote says which of the dispatched steps run: workers take them in order, and only a step that
// has been running for a while is reported.
func (t *tracker) promote(now time.Time) {
	for len(t.queued) > 0 && t.active < t.slots && !t.draining {
		idx := t.queued[0]
		t.queued = t.queued[1:]
		if task := t.tasks[idx]; task != nil {
			t.start(idx, task, now)
		}
	}
}

func (t *tracker) start(idx int32, task *task, now time.Time) {
	if task.running {
		return
	}
	task.running = true
	t.active++
	switch task.kin {
	case itself:
		l := task.line
		l.status, l.started, l.attempt, l.fraction, l.note = stepwell.StepRunning, now, task.attempt, 0, ""
	case child:
		if task.line.running++; task.line.started.IsZero() {
			task.line.started = now
		}
	}
	t.view.event(&event{At: now, Type: "step", Execution: t.id, Step: task.key, Status: "started", state: stepwell.StepRunning,
		Attempt: task.attempt, child: task.kin != itself})
}

// free takes a step off its worker.
func (t *tracker) free(idx int32) {
	task := t.tasks[idx]
	if task == nil {
		return
	}
	delete(t.tasks, idx)
	if !task.running {
		return
	}
	t.active--
	if task.kin == child {
		task.line.running--
	}
}
