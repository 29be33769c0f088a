package field

import (
	"cmp"
	"math"
	"slices"

	"github.com/stepwell/stepwell/api/columns"
)

// MaxAttemptRows is how many attempts one table of columns has at most.
const MaxAttemptRows = 100_000

// outcomeNames are the values of the column outcome: the first is that of an attempt that has not ended.
var outcomeNames = []string{"", "completed", "failed", "skipped", "cancelled", "timed_out", "waiting", "lost"}

// names gives each of some names its place in a list, in the order in which they come, up to a bound; further ones have place 0, which is
// the empty name.
type names struct {
	list []string
	at   map[string]uint32
}

func newNames() *names { return &names{[]string{""}, map[string]uint32{"": 0}} }

func (n *names) place(name string) uint32 {
	at, known := n.at[name]
	if !known && len(n.list) < maxWorkers {
		at = uint32(len(n.list))
		n.at[name], n.list = at, append(n.list, name)
	}
	return at
}

// Encode writes attempts, from one on, as a table of columns: at most MaxAttemptRows. Places of workers and queues are those of this table.
func (a *Attempts) Encode(from, limit int) ([]byte, error) {
	from = min(max(from, 0), len(a.List))
	to := from + min(max(limit, 0), MaxAttemptRows, len(a.List)-from)
	n := to - from
	step, queued, started, ended, backoff := make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n)
	number, worker, queue, outcome := make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint8, n)
	workers, queues := newNames(), newNames()
	next := map[int32]int64{} // by step: when the attempt that comes next was queued or began, µs
	for k := len(a.List) - 1; k >= from; k-- {
		t := &a.List[k]
		until := next[t.Step]
		if until == 0 {
			until = cmp.Or(t.over, t.Until)
		}
		if next[t.Step] = t.Queued; t.Queued == 0 {
			next[t.Step] = t.Started
		}
		if k >= to {
			continue
		}
		i := k - from
		step[i], number[i] = uint32(t.Step), uint32(min(t.Number, math.MaxUint32))
		queued[i], started[i], ended[i] = a.since(t.Queued), a.since(t.Started), a.since(t.Ended)
		if t.Ended > 0 && until > t.Ended {
			backoff[i] = millis(until/1000 - t.Ended/1000) // as the columns of times have them
		}
		outcome[i] = uint8(max(0, slices.Index(outcomeNames, t.Outcome)))
	}
	for i := range step {
		worker[i], queue[i] = workers.place(a.List[from+i].Worker), queues.place(a.List[from+i].Queue)
	}
	head := columns.Header{Version: a.Version, Rows: n, From: from, Total: len(a.List), Began: a.began, Outcomes: outcomeNames, Workers: workers.list, Queues: queues.list}
	return columns.Encode(head, []columns.Data{{Name: "index", U32: step}, columns.Narrow("attempt", number), {Name: "queued", U32: queued}, {Name: "started", U32: started},
		{Name: "ended", U32: ended}, {Name: "backoff", U32: backoff}, {Name: "outcome", U8: outcome}, columns.Narrow("worker", worker), columns.Narrow("queue", queue)})
}

// since is a time in µs as the columns have it: ms from when the execution began, plus 1; 0: there is none.
func (a *Attempts) since(us int64) uint32 {
	if us == 0 {
		return 0
	}
	return millis(us/1000-a.began) + 1
}

// Packed is what Encode writes, compressed with gzip at its fastest level.
func (a *Attempts) Packed(from, limit int) ([]byte, error) {
	raw, err := a.Encode(from, limit)
	if err != nil {
		return nil, err
	}
	return Pack(raw), nil
}
