package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// CostGroup is attempts that are charged together.
type CostGroup struct {
	Day      time.Time // on which their executions ended, UTC
	Workflow string    // id of the stored pipeline, "" for none
	Pipeline string    // its name
	Project  string    // "" for none
	Step     string    // engine.Charge.Step
}

// PromiseGroup is executions with the same SLA that are counted together.
type PromiseGroup struct {
	Day                time.Time // on which they ended, UTC
	Workflow, Pipeline string
	Expected, Maximum  int64 // µs, 0: not promised
}

// Breach is an execution that took longer than its SLA says.
type Breach struct {
	Ended              time.Time
	Execution          string
	Workflow, Pipeline string
	Status             stepwell.ExecutionStatus
	Expected, Maximum  int64 // µs, 0: not promised
	Took               int64 // µs
}

// endDay and endMoment are how days and times are written in ids; they sort as the times do, and as endHour.
const (
	endDay    = "2006-01-02"
	endMoment = "2006-01-02T15:04:05.000000Z"
)

// Charged adds what the steps of an execution that ends have cost.
func (x *Execution) Charged(to []Used, charges []engine.Charge, owner int64) []Used {
	for i := range charges {
		c := &charges[i]
		id := endID(x.Ended.UTC().Format(endDay), x.Workflow, x.Pipeline, x.Project, c.Step, uint64(owner)%lanes)
		to = append(to, Used{UsageOfCosts, id, stepwell.Spending{Cost: c.Cost, Usage: stepwell.Usage{InputTokens: c.Attempts, OutputTokens: c.RepeatedCost, AudioMillis: c.Repeated}}})
	}
	return to
}

// Promised counts an execution with an SLA that ends, and the breach if it is one. Times are in µs.
func (x *Execution) Promised(to []Used, expected, maximum, took, owner int64) []Used {
	sum := stepwell.Spending{Cost: took, Usage: stepwell.Usage{InputTokens: 1}}
	if x.Progress.Breached != "" {
		sum.OutputTokens = 1
		id := endID(x.Ended.UTC().Format(endMoment), x.ID, x.Workflow, x.Pipeline, x.Status, expected, maximum)
		to = append(to, Used{UsageOfBreaches, id, stepwell.Spending{Cost: took, Usage: stepwell.Usage{InputTokens: 1}}})
	}
	if x.Progress.Breached == engine.BreachedMaximum {
		sum.AudioMillis = 1
	}
	return append(to, Used{UsageOfPromises, endID(x.Ended.UTC().Format(endDay), x.Workflow, x.Pipeline, expected, maximum, uint64(owner)%lanes), sum})
}

// endID is a time, which sorts, and what else a sum is about as a JSON list.
func endID(at string, of ...any) string {
	list, err := json.Marshal(of)
	if err != nil { // of numbers and texts
		panic(err)
	}
	return at + string(list)
}

// DaysFrom is the first id of CostGroups and PromiseGroups of a day, or of later ones.
func DaysFrom(day time.Time) string { return day.UTC().Format(endDay) }

// MomentsFrom is the first id of Breaches at a time, or later.
func MomentsFrom(at time.Time) string { return at.UTC().Format(endMoment) }

// ReadCosts reads the id of a sum of UsageOfCosts.
func ReadCosts(id string) (g CostGroup, err error) {
	var lane uint64
	g.Day, err = readEndID(id, endDay, &g.Workflow, &g.Pipeline, &g.Project, &g.Step, &lane)
	return g, err
}

// ReadPromises reads the id of a sum of UsageOfPromises.
func ReadPromises(id string) (g PromiseGroup, err error) {
	var lane uint64
	g.Day, err = readEndID(id, endDay, &g.Workflow, &g.Pipeline, &g.Expected, &g.Maximum, &lane)
	return g, err
}

// ReadBreach reads a sum of UsageOfBreaches.
func ReadBreach(u *Used) (b Breach, err error) {
	var status string
	b.Ended, err = readEndID(u.ID, endMoment, &b.Execution, &b.Workflow, &b.Pipeline, &status, &b.Expected, &b.Maximum)
	if err == nil {
		err = b.Status.UnmarshalText([]byte(status))
	}
	b.Took = u.Cost
	return b, err
}

func readEndID(id, form string, into ...any) (time.Time, error) {
	at, list, _ := strings.Cut(id, "[")
	when, err := time.Parse(form, at)
	if err == nil {
		err = json.Unmarshal([]byte("["+list), &into)
	}
	if err != nil {
		return when, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the sum %q is of no group", stepwell.Clip(id, 200)), Err: err}
	}
	return when, nil
}
