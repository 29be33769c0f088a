package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// HistoryEvent is one entry of an execution's history as people read it (pipeline-steps, "Step Logging").
type HistoryEvent struct {
	Version int64     `json:"version"`
	Step    int32     `json:"-"` // index of the step; −1 for events of the execution
	StepKey string    `json:"step_id,omitempty"`
	Type    string    `json:"event_type"` // queued, started, the statuses of ended steps, and the types of kinds (Kind.HistoryType)
	At      time.Time `json:"timestamp"`
	Worker  string    `json:"worker_id,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Hint    string    `json:"-"` // with the failure in Detail
	// Again says that the attempt's end is not the step's: it will have another one. Wake is when, or when a waiting step
	// goes on; zero once it has.
	Again bool                `json:"-"`
	Wake  time.Time           `json:"-"`
	Used  *stepwell.Resources `json:"-"` // by the attempt that has ended
}

// History is a stretch of the step log: whole versions in order, with the step rows: the log names steps by index,
// and the end of a step is in its row.
type History struct {
	Batches []*Batch // with Version
	IDs     []string // ids of the definition's top level, by index
	// Rows are the rows of the steps of Steps that have one, as they are now. A row that a later version has
	// written gives the key only.
	Rows map[int32]HistoryRow
	// Started are the attempts of these steps that an earlier version has seen running.
	Started map[Attempt]bool
}

// HistoryRow is a step's row and the version that wrote it.
type HistoryRow struct {
	Version int64
	StepRow
}

// Attempt names one attempt of a step.
type Attempt struct {
	Idx   int32
	Epoch uint32
}

// Steps are the sorted indexes of the steps whose rows and earlier starts Events needs. written are steps whose rows
// the batches wrote although no event names them.
func (h *History) Steps(written []int32) []int32 {
	list := append([]int32{}, written...)
	for _, b := range h.Batches {
		list = append(list, b.Queued...)
		for i := range b.Events {
			list = append(list, b.Events[i].Idx)
			for j := range b.Events[i].Parts {
				list = append(list, b.Events[i].Parts[j].Idx)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Events lists the stretch in order: by version, then by time. Within a moment outside events go first, then starts,
// ends, and the steps that they queued. The cost is that of the stretch.
func (h *History) Events() []HistoryEvent {
	var out []HistoryEvent
	started := map[Attempt]bool{}
	written, used := map[int64]bool{}, map[int32]*stepwell.Resources{} // by the attempts that end their steps
	for _, b := range h.Batches {
		written[b.Version] = true
		for i := range b.Events {
			ev := &b.Events[i]
			if a := (Attempt{ev.Idx, ev.Epoch}); ev.Kind.OfAttempt() && ev.Started > 0 && !started[a] && !h.Started[a] {
				started[a] = true
				out = append(out, h.event(b.Version, ev.Idx, "started", ev.Started, cmp.Or(ev.Worker, h.row(b.Version, ev.Idx).Worker), ""))
			}
			if ev.Kind.EndsStep() && h.row(b.Version, ev.Idx).Status.Terminal() {
				used[ev.Idx] = ev.Resources
			} else if what := ev.Kind.HistoryType(); what != "" {
				idx := ev.Idx
				if ev.Kind.OfExecution() {
					idx = -1
				}
				e := h.event(b.Version, idx, what, ev.At, ev.Worker, ev.detail())
				e.Again, e.Used = ev.Kind == Failed, ev.Resources
				if row := h.row(b.Version, ev.Idx); row.Wake > 0 && (row.Status == stepwell.StepRetrying || row.Status == stepwell.StepWaiting) {
					e.Wake = time.UnixMicro(row.Wake).UTC()
				}
				out = append(out, e)
			}
		}
		for _, idx := range b.Queued {
			out = append(out, h.event(b.Version, idx, "queued", b.At, "", ""))
		}
	}
	for idx, r := range h.Rows {
		if written[r.Version] && r.Status.Terminal() {
			e := h.event(r.Version, idx, r.Status.String(), r.Ended, r.Worker, "")
			if e.Used = used[idx]; r.Error != nil {
				e.Detail, e.Hint = r.Error.Message, r.Error.Hint
			}
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b HistoryEvent) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), a.At.Compare(b.At), cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Step, b.Step))
	})
	return out
}

// row is the row that a version wrote of a step, empty if that is not its row now.
func (h *History) row(version int64, idx int32) StepRow {
	if r := h.Rows[idx]; r.Version == version {
		return r.StepRow
	}
	return StepRow{}
}

func (h *History) event(version int64, idx int32, what string, at int64, worker, detail string) HistoryEvent {
	return HistoryEvent{Version: version, Step: idx, StepKey: h.key(idx), Type: what, At: time.UnixMicro(at).UTC(), Worker: worker, Detail: detail}
}

// key is that of a step, or "#" and the index if it has neither an id nor a row yet.
func (h *History) key(idx int32) string {
	switch {
	case idx < 0:
		return ""
	case int(idx) < len(h.IDs):
		return h.IDs[idx]
	}
	return cmp.Or(h.Rows[idx].Key, fmt.Sprintf("#%d", idx))
}

// historyTypes are the types of the kinds in the history; "": shown in another way.
var historyTypes = [Kinds]string{Start: "start", Done: "completed", Failed: "failed", Skipped: "skipped", Waiting: "waiting", Running: "",
	Spawned: "spawned", TimerDue: "timer", Recovered: "recovered", Lost: "lost", Cancel: "cancel", Pause: "pause", Resume: "resume",
	Restart: "restart", DoneAll: "", Admit: "admitted", Settled: "settled", Advanced: ""}

// HistoryType is the type of a kind's events in the history; "": they are shown by the steps' rows and starts.
func (k Kind) HistoryType() string {
	if k >= Kinds {
		return ""
	}
	return historyTypes[k]
}

// OfExecution reports whether events of the kind are about the execution and no step of it.
func (k Kind) OfExecution() bool {
	switch k {
	case Start, Recovered, Cancel, Pause, Resume, Restart, Admit:
		return true
	}
	return false
}

// OfAttempt reports whether an event of the kind says when its attempt has started.
func (k Kind) OfAttempt() bool { return Done <= k && k <= Running }

// EndsStep reports whether an event of the kind may end its step; the outcome is in the step's row.
func (k Kind) EndsStep() bool { return k == Done || k == Failed || k == Skipped || k == Settled }

func (ev *Event) detail() string {
	switch {
	case ev.Failure != nil:
		return ev.Failure.Message
	case ev.Kind == Restart:
		return ev.Step
	case ev.Kind == Start && ev.Begin != nil && ev.Begin.Reused != "":
		return "with results of " + ev.Begin.Reused
	case ev.Kind == Spawned:
		keys := make([]string, len(ev.Spawns))
		for i := range ev.Spawns {
			keys[i] = ev.Spawns[i].Key
		}
		return strings.Join(keys, ", ")
	}
	return ev.Reason
}

// rank orders events of the same moment.
func rank(event string) int {
	switch event {
	case "started":
		return 1
	case "queued":
		return 3
	case "start", "recovered", "cancel", "pause", "resume", "restart", "timer", "lost", "admitted", "settled":
		return 0
	}
	return 2
}
