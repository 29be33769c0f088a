package api_test

import (
	"testing"

	"github.com/stepwell/stepwell/api"
)

// TestWarningsInLists: a list that asks for it has the number of warnings in each execution's log.
func TestWarningsInLists(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("viewer"), t.Context()
	id := r.finished("name: loud\nsteps: [{id: a, action: util.log, params: {message: m, level: warning}}, {id: b, action: util.log, params: {message: m, level: warning}}, {id: c, action: util.log, params: {message: m}}]").ID
	r.until("the warnings are there", func() bool {
		l, err := c.Executions(ctx, api.ListExecutions{Warnings: true})
		good(t, err)
		return len(l.Executions) == 1 && l.Executions[0].ID == id && l.Executions[0].Warnings == 2
	})
	l, err := c.Executions(ctx, api.ListExecutions{})
	good(t, err)
	if l.Executions[0].Warnings != 0 {
		t.Errorf("not asked for: %+v", l.Executions[0])
	}
}
