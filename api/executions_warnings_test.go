package api_test

import (
	"slices"
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

// TestListOfWarned: those with warnings alone are listed, across the executions of one look and of one request.
func TestListOfWarned(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("viewer"), t.Context()
	level := func(level string) string {
		return r.finished("name: loud\nsteps: [{id: a, action: util.log, params: {message: m, level: " + level + "}}]").ID
	}
	var want []string
	for range 3 {
		want = append([]string{level("warning")}, want...)
		level("info")
		level("error")
	}
	all := func(f api.ListExecutions) (ids []string, pages int) {
		for f.Warned = true; pages < 20; {
			l, err := c.Executions(ctx, f)
			good(t, err)
			pages++
			for _, x := range l.Executions {
				if ids = append(ids, x.ID); x.Warnings != 1 {
					t.Errorf("%s has %d warnings", x.ID, x.Warnings)
				}
			}
			if f.Cursor = l.Next; l.Next == "" {
				break
			}
		}
		return ids, pages
	}
	r.until("the warnings are there", func() bool {
		ids, _ := all(api.ListExecutions{})
		return slices.Equal(ids, want)
	})
	for limit, pages := range map[int]int{1: 3, 2: 2, 3: 1, 500: 1} {
		if ids, n := all(api.ListExecutions{Limit: limit}); !slices.Equal(ids, want) || n != pages {
			t.Errorf("limit %d: %v on %d pages, want %v on %d", limit, ids, n, want, pages)
		}
	}
	if ids, _ := all(api.ListExecutions{Status: []string{"failed"}}); len(ids) != 0 {
		t.Errorf("failed ones: %v", ids)
	}
}
