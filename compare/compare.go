// Package compare joins the steps of two executions by their keys, and says what differs. Pure.
package compare

import (
	"cmp"
	"slices"

	"github.com/stepwell/stepwell"
)

// Step is one step of an execution.
type Step struct {
	Key      string
	Index    int32
	Status   stepwell.StepStatus
	Attempt  int
	Duration int64 // ms; 0: it has not ended, or took less than one
}

// Row is a step of one execution or of both.
type Row struct {
	Key  string
	A, B *Step // nil: not there
}

// Differs reports whether the step is in one execution only, or has another status or number of attempts.
func (r *Row) Differs() bool {
	return r.A == nil || r.B == nil || r.A.Status != r.B.Status || r.A.Attempt != r.B.Attempt
}

// Moved is by how many ms more the step took in the second execution; where it is not, it took none.
func (r *Row) Moved() (ms int64) {
	if r.B != nil {
		ms = r.B.Duration
	}
	if r.A != nil {
		ms -= r.A.Duration
	}
	return ms
}

// Shift is how much the step moved the sum of durations, in either direction.
func (r *Row) Shift() int64 { return abs(r.Moved()) }

// Totals are the sums of a comparison.
type Totals struct {
	Steps    int   `json:"steps" doc:"Keys, of both executions together."`
	OnlyA    int   `json:"only_a"`
	OnlyB    int   `json:"only_b"`
	Status   int   `json:"status" doc:"Steps of both with another status."`
	Attempts int   `json:"attempts" doc:"Steps of both with another number of attempts."`
	Slower   int   `json:"slower" doc:"Steps of both that took longer in b."`
	Faster   int   `json:"faster"`
	MoreMS   int64 `json:"more_ms" doc:"By how much more all steps of b took together, those of other steps included only once for each step."`
}

// Order is what rows are sorted by.
type Order string

const (
	ByKey    Order = "key"
	ByMoved  Order = "moved"  // what changed the sum of durations the most, in either direction
	ByChange Order = "change" // first what is in one only, then another status, then other attempts
)

// Join compares the steps of two executions, each key at most once in either. The cost is that of sorting them.
func Join(a, b []Step, order Order) ([]Row, Totals) {
	at := make(map[string]int, len(a))
	rows := make([]Row, 0, max(len(a), len(b)))
	for i := range a {
		at[a[i].Key] = len(rows)
		rows = append(rows, Row{Key: a[i].Key, A: &a[i]})
	}
	for i := range b {
		if k, both := at[b[i].Key]; both {
			rows[k].B = &b[i]
		} else {
			rows = append(rows, Row{Key: b[i].Key, B: &b[i]})
		}
	}
	var t Totals
	for i := range rows {
		t.add(&rows[i])
	}
	slices.SortFunc(rows, func(x, y Row) int {
		switch order {
		case ByMoved:
			if c := cmp.Compare(y.Shift(), x.Shift()); c != 0 {
				return c
			}
		case ByChange:
			if c := cmp.Compare(rank(&x), rank(&y)); c != 0 {
				return c
			}
		}
		return cmp.Compare(x.Key, y.Key)
	})
	return rows, t
}

func (t *Totals) add(r *Row) {
	t.Steps++
	t.MoreMS += r.Moved()
	switch {
	case r.A == nil:
		t.OnlyB++
		return
	case r.B == nil:
		t.OnlyA++
		return
	case r.Moved() > 0:
		t.Slower++
	case r.Moved() < 0:
		t.Faster++
	}
	if r.A.Status != r.B.Status {
		t.Status++
	}
	if r.A.Attempt != r.B.Attempt {
		t.Attempts++
	}
}

func rank(r *Row) int {
	switch {
	case r.A == nil || r.B == nil:
		return 0
	case r.A.Status != r.B.Status:
		return 1
	case r.A.Attempt != r.B.Attempt:
		return 2
	}
	return 3
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}
