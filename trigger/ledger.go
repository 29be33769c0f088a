package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// The ledger of firings records the outcome of each time of a schedule: it is pending, and then ends exactly once.
// Pending firings and the latest ends are in the state of the job; older ends lie in chunks, which are written with the
// state that drops them. So the ledger and the state change in one commit, always.

// The states of a firing.
const (
	FiringWaiting  = "waiting"   // to be started
	FiringRan      = "ran"       // started when it was time
	FiringCaughtUp = "caught_up" // started late, after downtime
	FiringDropped  = "dropped"   // not started, for the reason that is named
	FiringRefused  = "refused"   // could not be started, for the error that is named
)

// Why firings are dropped.
const (
	DropOverlap = "overlap" // an execution of the job was running
	DropMisfire = "misfire" // missed, and not caught up by the job's misfire and catch_up_seconds
	DropPaused  = "paused"  // the job was paused
	DropLimit   = "limit"   // too many firings were waiting
	DropChanged = "changed" // the job was given another schedule
)

// Firing is a time of a schedule and its outcome; or several in a row that were dropped for one reason.
type Firing struct {
	At        resource.Time `json:"scheduled_at" doc:"The time that it stands for; of several, the first."`
	To        resource.Time `json:"to" doc:"The last of several that were dropped in a row for one reason; otherwise the same as scheduled_at."`
	Count     int           `json:"count" doc:"How many times they are."`
	Status    string        `json:"status" enum:"waiting,ran,caught_up,dropped,refused"`
	Reason    resource.Ref  `json:"reason" doc:"Why it was dropped: overlap (an execution was running), misfire (missed, and not caught up), paused, limit (too many were waiting), changed (the job was given another schedule)."`
	Execution resource.Ref  `json:"execution_id"`
	Error     resource.Ref  `json:"error" doc:"Why it was refused."`
	After     resource.Ref  `json:"after" doc:"The execution that it follows."`
	Backfill  bool          `json:"backfill,omitempty" doc:"Somebody asked for it."`
	Decided   resource.Time `json:"decided_at"`
}

// row is an end of firings as it is stored.
type row struct {
	No        int64  `json:"n"` // ascending
	At        int64  `json:"a"`
	To        int64  `json:"t,omitempty"`
	Count     int    `json:"c,omitempty"` // 0: one
	Status    string `json:"s"`
	Reason    string `json:"r,omitempty"`
	Execution string `json:"x,omitempty"`
	Error     string `json:"e,omitempty"`
	From      string `json:"f,omitempty"`
	Fill      bool   `json:"b,omitempty"`
	Decided   int64  `json:"d"` // Unix milliseconds
}

const (
	kindFirings = store.KindFirings // chunks of rows
	maxRows     = 32                // ends that a state holds before they become a chunk
)

// end writes the outcome of a firing into the ledger.
func (s *state) end(f firing, r row, now time.Time) {
	r.At, r.From, r.Fill = f.At, f.From, f.Fill
	s.enter(r, now)
}

// drop writes that firings were not started; a range that has none is none.
func (s *state) drop(reason string, n int, first, last time.Time, now time.Time) {
	if n == 0 {
		return
	}
	r := row{At: first.Unix(), Status: FiringDropped, Reason: reason}
	if n > 1 {
		r.To, r.Count = last.Unix(), n
	}
	s.enter(r, now)
}

// enter appends a row, or adds dropped firings to the row before, if that is of the same kind. It changes no row that
// another copy of the state shares.
func (s *state) enter(r row, now time.Time) {
	r.Decided = now.UnixMilli()
	s.Rows = slices.Clone(s.Rows)
	if n := len(s.Rows) - 1; n >= 0 && r.Status == FiringDropped {
		if last := &s.Rows[n]; last.Status == FiringDropped && last.Reason == r.Reason && !last.Fill && !r.Fill && s.follows(last, &r) {
			last.To, last.Count, last.Decided, last.From = max(r.At, r.To), max(1, last.Count)+max(1, r.Count), r.Decided, ""
			return
		}
	}
	r.No = max(s.Ledger+1, now.UnixMicro()) // a job that takes the place of a deleted one begins behind its rows
	s.Ledger = r.No
	s.Rows = append(s.Rows, r)
}

// follows reports whether nothing lies between the times of two rows: then they can be one.
func (s *state) follows(last, r *row) bool {
	if s.plan == nil {
		return r.At >= last.At
	}
	next, ok := s.plan.Next(time.Unix(max(last.At, last.To), 0))
	return ok && next.Unix() == r.At
}

// sameRows reports whether two states have the same ledger.
func sameRows(a, b *state) bool { return a.Ledger == b.Ledger && slices.Equal(a.Rows, b.Rows) }

// chunk takes rows out of a state that has too many, all but the latest, as an object to be stored with it.
func (s *state) chunk(job string) (*store.Object, error) {
	if len(s.Rows) <= maxRows {
		return nil, nil
	}
	n := len(s.Rows) - 1
	body, err := json.Marshal(s.Rows[:n])
	if err != nil {
		return nil, err
	}
	o := &store.Object{Kind: kindFirings, ID: chunkID(job, s.Rows[n-1].No), Revision: store.AnyRevision, Body: body}
	s.Rows = slices.Clone(s.Rows[n:])
	return o, nil
}

// chunkID orders the chunks of a job from the newest to the oldest. A job's id has no slash.
func chunkID(job string, newest int64) string {
	return fmt.Sprintf("%s/%016x", job, math.MaxInt64-newest)
}

func unix(at int64) resource.Time { return resource.At(time.Unix(at, 0).UTC()) }

func (r *row) firing() Firing {
	return Firing{At: unix(r.At), To: unix(cmp.Or(r.To, r.At)), Count: max(1, r.Count), Status: r.Status, Reason: resource.Ref(r.Reason), Execution: resource.Ref(r.Execution),
		Error: resource.Ref(r.Error), After: resource.Ref(r.From), Backfill: r.Fill, Decided: resource.At(time.UnixMilli(r.Decided).UTC())}
}

// maxFirings is the most firings of a page.
const maxFirings = 1000

// Firings lists the firings of a job: first the pending ones, then the ended ones, latest first. before is the next of
// the page before; "" is the beginning and, as next, the end.
func (s *Schedules) Firings(ctx context.Context, idOrName, before string, limit int) (list []Firing, next string, err error) {
	limit = min(max(limit, 1), maxFirings)
	s.mu.Lock()
	e, err := s.find(idOrName)
	if err != nil {
		s.mu.Unlock()
		return nil, "", err
	}
	id, created, pending, rows := e.ID, e.Created, slices.Clone(e.state.Pending), e.state.Rows // rows are never changed in place
	s.mu.Unlock()
	list = []Firing{}
	at := mark{no: math.MaxInt64}
	waiting, isWaiting := strings.CutPrefix(before, "w")
	if before == "" || isWaiting {
		for _, f := range waitingBefore(pending, waiting) {
			if len(list) == limit {
				return list, next, nil
			}
			list = append(list, Firing{At: unix(f.At), To: unix(f.At), Count: 1, Status: FiringWaiting, After: resource.Ref(f.From), Backfill: f.Fill})
			next = "w" + f.place()
		}
	} else if at, err = readMark(before); err != nil {
		return nil, "", err
	}
	take := func(rows []row, chunk int64) (full bool) {
		for _, r := range slices.Backward(rows) {
			if r.No >= at.no || r.No < created.UnixMicro() {
				continue
			}
			if len(list) == limit {
				return true
			}
			list = append(list, r.firing())
			at = mark{no: r.No, chunk: chunk}
			next = at.String()
		}
		return false
	}
	if take(rows, 0) {
		return list, next, nil
	}
	full, err := s.chunks(ctx, id, at.chunk, take)
	if err != nil || !full {
		next = ""
	}
	return list, next, err
}

// mark is a place in a list of ends: the row behind which the list goes on, and the chunk that it was found in, 0 for the
// state.
type mark struct{ no, chunk int64 }

func (m mark) String() string { return fmt.Sprintf("%d-%d", m.no, m.chunk) }

func readMark(text string) (m mark, err error) {
	no, chunk, ok := strings.Cut(text, "-")
	m.no, err = strconv.ParseInt(no, 10, 64)
	if err == nil {
		m.chunk, err = strconv.ParseInt(chunk, 10, 64)
	}
	if err != nil || !ok || m.chunk < 0 {
		return m, stepwell.Invalid("take next_cursor of the page before", "the cursor is not one of this list")
	}
	return m, nil
}

// place names a waiting firing among those of its job.
func (f firing) place() string { return fmt.Sprintf("%d/%s%s", f.At, f.From, f.Again) }

// waitingBefore are the pending firings after the named one, latest first; when that one is not pending any more, those
// for earlier times.
func waitingBefore(pending []firing, place string) []firing {
	slices.Reverse(pending)
	if place == "" {
		return pending
	}
	if i := slices.IndexFunc(pending, func(f firing) bool { return f.place() == place }); i >= 0 {
		return pending[i+1:]
	}
	text, _, _ := strings.Cut(place, "/")
	at, err := strconv.ParseInt(text, 10, 64)
	return slices.DeleteFunc(pending, func(f firing) bool { return err == nil && f.At >= at })
}

// chunks visits the rows of a job that are no longer in its state, from those of a chunk on, until take has enough.
func (s *Schedules) chunks(ctx context.Context, job string, from int64, take func(rows []row, chunk int64) bool) (full bool, err error) {
	const page = 50
	after := job + "/"
	if from > 0 {
		after = chunkID(job, from+1) // comes before it
	}
	for {
		objects, err := s.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kindFirings, Prefix: job + "/", After: after, Limit: page})
		if err != nil {
			return false, err
		}
		for i := range objects {
			var rows []row
			if err := json.Unmarshal(objects[i].Body, &rows); err != nil || len(rows) == 0 {
				return false, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored firings " + objects[i].ID + " cannot be read", Err: err}
			}
			if take(rows, rows[len(rows)-1].No) {
				return true, nil
			}
			after = objects[i].ID
		}
		if len(objects) < page {
			return false, nil
		}
	}
}
