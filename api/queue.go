package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

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
	// Oldest and Holders are of /queue alone: /stream has no messages for them.
	Oldest  *QueueStep  `json:"oldest,omitempty" doc:"The step that has waited the longest on this server; missing when none waits, and in /stream. In each execution it is the next one that counts."`
	Holders []QueueStep `json:"holders,omitempty" doc:"The steps that take the places of a queue with concurrency, on this server: who has one the longest first, up to the parameter holders. running says how many there are. Missing in /stream."`
}

// QueueStep is a step that waits in a queue, or takes one of its places.
type QueueStep struct {
	ID     string `json:"execution_id"`
	Step   string `json:"step_id"`
	Since  *Time  `json:"since,omitempty" doc:"Since when it waits, to the second; or has its place, which begins anew when another server takes its execution over."`
	Worker string `json:"worker_id,omitempty" doc:"The worker that has it."`
	List   string `json:"list,omitempty" doc:"The list in Redis that it is in: it takes its place there too."`
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
	Limit   int `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of executions."`
	Holders int `query:"holders" minimum:"0" maximum:"100" default:"20" doc:"Of the steps that take the places of a queue, for each."`
}

func (s *server) queue(ctx context.Context, in *ShowQueue) (*answer[Queue], error) {
	out := Queue{Queues: s.queues(queue.Look{Oldest: true, Holders: in.Holders}), Executions: []HeldExecution{}}
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

func (s *server) queues(look queue.Look) []StepQueue {
	out := []StepQueue{}
	for _, q := range s.o.Queues(look) {
		one := StepQueue{Name: q.Name, Waiting: q.Waiting, Running: q.Out, Concurrency: q.Concurrency, Rate: q.Rate, Reasons: reasonsOf(&q)}
		if m := q.Oldest; m != nil {
			one.Oldest = queueStep(m.Body, time.Unix(int64(m.Since), 0))
		}
		for _, h := range q.Holders {
			if step := queueStep(h.Body, h.Since); step != nil {
				step.Worker, step.List = h.Worker, h.List
				one.Holders = append(one.Holders, *step)
			}
		}
		out = append(out, one)
	}
	return out
}

// queueStep is the step of a message; nil: it is of none.
func queueStep(body any, since time.Time) *QueueStep {
	t, ok := body.(*engine.Task)
	if !ok {
		return nil
	}
	out := &QueueStep{ID: t.Execution, Step: t.Key}
	if !since.IsZero() {
		at := resource.At(since)
		out.Since = &at
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
