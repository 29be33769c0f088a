package trigger

import (
	"cmp"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
)

// Limits of the times of all jobs.
const (
	MaxFires      = 10_000
	MaxFiresRange = 366 * 24 * time.Hour
	mostFiresWork = 1_000_000 // times that are calculated
	mostChanges   = 1_000
)

// Fires are the times of all jobs within a range.
type Fires struct {
	Fires   []Fire        `json:"fires" nullable:"false" doc:"In order of time; empty when there are more than 10,000."`
	Hours   []HourOfFires `json:"hours" nullable:"false" doc:"How many there are in each hour that has some, by UTC; only when there are more than 10,000."`
	Changes []ClockChange `json:"clock_changes" nullable:"false" doc:"Changes of clocks within the range in the zones of the jobs."`
	Total   int           `json:"total"`
	LeftOut int           `json:"left_out" doc:"Jobs whose times are not all counted, because they have more than can be calculated at once: ask for a shorter range."`
}

// Fire is one time of a job.
type Fire struct {
	At   resource.Time `json:"at" doc:"Without jitter."`
	Job  string        `json:"job_id"`
	Name string        `json:"name"`
	// Workflow is what it starts.
	Workflow string `json:"workflow_id,omitempty"`
	Action   string `json:"action_type,omitempty"`
}

// HourOfFires counts the times of an hour.
type HourOfFires struct {
	At    resource.Time `json:"at" doc:"Its beginning."`
	Fires int           `json:"fires"`
}

// ClockChange is a change of clocks.
type ClockChange struct {
	At     resource.Time `json:"at"`
	Zone   string        `json:"timezone"`
	Before int           `json:"offset_before" doc:"Seconds east of UTC."`
	After  int           `json:"offset_after"`
}

// timed is what a job's times follow from, copied from under the lock.
type timed struct {
	fire Fire
	plan *schedule.Schedule
	from time.Time // after which it fires
	left int       // times at most; −1: no limit
}

// FiresBetween are the times at which jobs fire by themselves from one moment up to another: those to come. Paused and ended jobs have
// none. CodeInvalid for a range that ends before it begins, or is longer than 366 days.
func (s *Schedules) FiresBetween(from, to time.Time) (*Fires, error) {
	if !to.After(from) {
		return nil, stepwell.Invalid("swap the two ends", "the range ends at %s, before it begins", to.Format(time.RFC3339))
	}
	if to.Sub(from) > MaxFiresRange {
		return nil, stepwell.Invalid("ask for a shorter one", "the range is longer than 366 days")
	}
	jobs := s.timed()
	out := &Fires{Fires: []Fire{}, Hours: []HourOfFires{}, Changes: clockChanges(jobs, from, to)}
	hours, work := map[int64]int{}, 0
	for i := range jobs {
		j := &jobs[i]
		begin, n := from, 0
		if j.from.After(from) {
			begin = j.from.Add(time.Nanosecond)
		}
		for at := range j.plan.Between(begin, to) {
			if n == j.left {
				break
			}
			if work++; work > mostFiresWork {
				out.LeftOut = len(jobs) - i
				break
			}
			n++
			out.Total++
			hours[at.Unix()/3600]++
			if len(out.Fires) < MaxFires {
				fire := j.fire
				fire.At = resource.At(at)
				out.Fires = append(out.Fires, fire)
			}
		}
		if out.LeftOut > 0 {
			break
		}
	}
	if out.Total > MaxFires {
		out.Fires = []Fire{}
		for hour, n := range hours {
			out.Hours = append(out.Hours, HourOfFires{resource.At(time.Unix(hour*3600, 0).UTC()), n})
		}
		slices.SortFunc(out.Hours, func(a, b HourOfFires) int { return a.At.Compare(b.At.Time) })
	}
	slices.SortStableFunc(out.Fires, func(a, b Fire) int { return a.At.Compare(b.At.Time) })
	return out, nil
}

// timed are the jobs that fire by themselves, in order of id.
func (s *Schedules) timed() []timed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []timed
	for _, e := range s.jobs {
		if e.nominal.IsZero() || e.plan == nil {
			continue
		}
		t := timed{fire: Fire{Job: e.ID, Name: e.Name}, plan: e.plan, from: time.Unix(e.state.Last, 0), left: -1}
		if e.Target != nil {
			t.fire.Workflow, t.fire.Action = e.Target.Workflow, e.Target.Action
		}
		if e.MaxRuns > 0 {
			t.left = max(0, e.MaxRuns-e.state.Fired)
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b timed) int { return cmp.Compare(a.fire.Job, b.fire.Job) })
	return list
}

// clockChanges finds the changes of the jobs' zones.
func clockChanges(jobs []timed, from, to time.Time) []ClockChange {
	out, seen := []ClockChange{}, map[string]bool{}
	for i := range jobs {
		zone := jobs[i].plan.Zone()
		if seen[zone.String()] {
			continue
		}
		seen[zone.String()] = true
		for at := from; len(out) < mostChanges; {
			_, end := at.In(zone).ZoneBounds()
			if end.IsZero() || !end.Before(to) {
				break
			}
			_, before := end.Add(-time.Second).In(zone).Zone()
			_, after := end.In(zone).Zone()
			if before != after {
				out = append(out, ClockChange{resource.At(end.UTC()), zone.String(), before, after})
			}
			at = end
		}
	}
	slices.SortStableFunc(out, func(a, b ClockChange) int { return a.At.Compare(b.At.Time) })
	return out
}

// Preview tells what a timing that is being written means.
type Preview struct {
	Valid    bool              `json:"valid"`
	Words    string            `json:"words" doc:"When it fires, in English."`
	Next     []resource.Time   `json:"next_runs" nullable:"false" doc:"Its next ten times."`
	Problems []resource.Detail `json:"problems" nullable:"false" doc:"Why it cannot be stored, or what its author may not have meant."`
}

// PreviewOf reads the timing of a job that is not stored.
func (s *Schedules) PreviewOf(j Job) *Preview {
	out := &Preview{Next: []resource.Time{}, Problems: []resource.Detail{}}
	plan, err := j.Schedule.compile(&j)
	if err != nil {
		out.Problems = append(out.Problems, resource.Detail{Path: "schedule", Message: err.Error(), Hint: stepwell.HintOf(err)})
		return out
	}
	out.Valid = true
	if plan == nil {
		return out // it knows no times
	}
	now := s.o.Now()
	out.Words = plan.Words()
	for _, at := range plan.Preview(now, 0, 10) {
		out.Next = append(out.Next, resource.At(at))
	}
	for _, w := range plan.Warnings(now) {
		out.Problems = append(out.Problems, resource.Detail{Path: "schedule", Message: w.Message, Hint: w.Hint, Warning: true})
	}
	return out
}
