package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
)

const single = `
name: single
settings: {concurrency: {key: one, limit: 1}}
steps:
  - {id: ask, action: util.approval, params: {message: "Go on?"}}
`

// TestQueue has executions wait for the slot of their key, and a queue at its limit.
func TestQueue(t *testing.T) {
	steps := &queue.Memory{}
	steps.Limit("gpu", queue.Limits{Concurrency: 1})
	steps.Limit("slow", queue.Limits{Rate: 0.001, Burst: 1})
	steps.Limit("idle", queue.Limits{Concurrency: 3})
	r := newRig(t, func(o *api.Options) { o.Queues = steps.Standings })
	for i := range 2 {
		good(t, steps.Push(t.Context(), []queue.Message{{Queue: "gpu", Run: int64(i), Since: uint32(1000 + i), Body: &engine.Task{Execution: "some", Key: fmt.Sprint("s", i)}}, {Queue: "slow", Run: int64(i)}}))
	}
	for range 2 { // one of each
		_, err := steps.Pull(t.Context(), 1)
		good(t, err)
	}
	first := r.begin(single, nil)
	var waiting []string
	for range 3 {
		waiting = append(waiting, r.begin(single, nil))
	}
	var q api.Queue
	r.do("viewer", "GET", "/api/v1/queue?limit=2", nil).is(200).into(&q)
	if q.Waiting != 3 || len(q.Executions) != 2 || q.Executions[0].ID != waiting[0] || q.Executions[1].ID != waiting[1] {
		t.Fatalf("waiting: %+v", q)
	}
	why := q.Executions[0].Reasons[len(q.Executions[0].Reasons)-1]
	if why.Code != "held_by_concurrency" || !strings.Contains(why.Message, first) {
		t.Errorf("why: %+v", why)
	}
	var got []string
	for _, one := range q.Queues {
		reason := ""
		if len(one.Reasons) > 0 {
			reason = " " + one.Reasons[0].Code
		}
		for _, h := range one.Holders {
			reason += fmt.Sprintf(" held by %s/%s", h.ID, h.Step)
		}
		if o := one.Oldest; o != nil {
			reason += fmt.Sprintf(" %s/%s since %v", o.ID, o.Step, o.Since.Unix())
		}
		got = append(got, fmt.Sprint(one.Name, " ", one.Waiting, " ", one.Running, reason))
	}
	if want := "default 0 0, gpu 1 1 queue_limit held by some/s0 some/s1 since 1001, idle 0 0, slow 1 1 queue_rate"; strings.Join(got, ", ") != want {
		t.Errorf("queues: %q, want %q", got, want)
	}
	q = api.Queue{}
	if r.do("viewer", "GET", "/api/v1/queue?holders=0", nil).is(200).into(&q); q.Queues[1].Holders != nil || q.Queues[1].Oldest == nil {
		t.Errorf("holders that nobody asked for: %+v", q.Queues[1])
	}
	r.do("viewer", "GET", "/api/v1/queue?holders=101", nil).problem(400, stepwell.CodeInvalid)
	r.do("", "GET", "/api/v1/queue", nil).problem(401, stepwell.CodeUnauthenticated)
	r.do("viewer", "GET", "/api/v1/queue?limit=0", nil).problem(400, stepwell.CodeInvalid)
}
