package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// mostHeld is how many executions that wait are looked at.
const mostHeld = 1000

// Queue is what waits, and why.
type Queue struct {
	Queues     []StepQueue     `json:"queues" nullable:"false" doc:"The queues with limits, and default, which stands for all others: of steps that this server gives to workers."`
	Executions []HeldExecution `json:"executions" nullable:"false" doc:"Executions that have not been admitted, higher priority first, then the oldest."`
	Waiting    int             `json:"waiting" doc:"How many there are; 1,000 stands for that many or more."`
}

// StepQueue is a queue of steps.
type StepQueue struct {
	Name        string   `json:"name"`
	Waiting     int      `json:"waiting" doc:"Steps that wait for a worker."`
	Running     int      `json:"running" doc:"Steps that workers have; 0 for default where no queue has limits."`
	Concurrency int      `json:"concurrency,omitempty" doc:"How many may run at once, by this server's part of the limit; below 0: none. Missing: any number."`
	Rate        float64  `json:"rate,omitempty" doc:"How many are given per second."`
	Reasons     []Reason `json:"reasons" nullable:"false" doc:"Why its steps wait; empty when none does."`
}

// HeldExecution is an execution that has not been admitted.
type HeldExecution struct {
	ID       string   `json:"execution_id"`
	Pipeline string   `json:"pipeline"`
	Created  Time     `json:"created_at"`
	Priority int      `json:"priority"`
	Reasons  []Reason `json:"reasons" nullable:"false" doc:"As /why has them."`
}

// ShowQueue says how much of the queue is shown.
type ShowQueue struct {
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of executions."`
}

func (s *server) queue(ctx context.Context, in *ShowQueue) (*answer[Queue], error) {
	out := Queue{Queues: s.queues(), Executions: []HeldExecution{}}
	held, err := s.o.Store.Executions(ctx, store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionPending}, Limit: mostHeld})
	if err != nil {
		return nil, err
	}
	out.Waiting = len(held)
	slices.SortStableFunc(held, func(a, b store.Execution) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.No, b.No)) })
	for i := range held[:min(len(held), in.Limit)] {
		x := &held[i]
		reasons, err := s.o.Forecast.Why(ctx, x.ID, "")
		switch stepwell.CodeOf(err) {
		case stepwell.CodeNotFound, stepwell.CodeConflict: // it was deleted, or is on its way to another process
			reasons = []engine.Reason{}
		default:
			if err != nil {
				return nil, err
			}
		}
		out.Executions = append(out.Executions, HeldExecution{x.ID, x.Pipeline, resource.At(x.Created), x.Priority, s.reasons(x.ID, reasons)})
	}
	return reply(out, nil)
}

func (s *server) queues() []StepQueue {
	out := []StepQueue{}
	for _, q := range s.o.Queues() {
		out = append(out, StepQueue{q.Name, q.Waiting, q.Out, q.Concurrency, q.Rate, reasonsOf(&q)})
	}
	return out
}

// reasonsOf says why the steps of a queue wait.
func reasonsOf(q *queue.Standing) []Reason {
	code, message := engine.WhyQueued, "waits for a worker that has room"
	switch {
	case q.Waiting == 0:
		return []Reason{}
	case q.Concurrency < 0:
		code, message = "queue_limit", "this server's part of the queue's limit is 0 at the moment"
	case q.Full():
		code, message = "queue_limit", fmt.Sprintf("%d of at most %d steps run", q.Out, q.Concurrency)
	case q.Pause > 0:
		code, message = "queue_rate", fmt.Sprintf("at most %g steps a second are given; the next in %d ms", q.Rate, int(math.Ceil(q.Pause.Seconds()*1000)))
	}
	return []Reason{{Code: code, Message: message, Steps: []string{}}}
}
