package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// TestMatrix runs a pipeline of which a step fails for some parameters, changes it, and looks at all executions at once.
func TestMatrix(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	document := `name: nightly
parameters: [{name: bad, type: integer, default: 0}]
settings: {fail_fast: false}
steps:
  - {id: first, action: util.log, params: {message: hi}}
  - {id: each, action: util.fail, depends_on: [first], for_each: {items: 4}, condition: "{{ index < params.bad }}", params: {message: no}}
  - {id: last, action: util.log, depends_on: [each], params: {message: bye}}
`
	p, err := c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(document)})
	good(t, err)
	var ids []string
	run := func(bad int) {
		t.Helper()
		s, err := c.Execute(ctx, api.ExecuteRequest{Workflow: p.ID, Params: map[string]any{"bad": bad}}, "")
		good(t, err)
		_, err = c.Wait(ctx, s.ID)
		good(t, err)
		ids = append(ids, s.ID)
	}
	run(0)
	run(1)
	_, tag, err := c.Pipelines().Get(ctx, p.ID)
	good(t, err)
	_, err = c.Pipelines().Update(ctx, p.ID, api.NewPipeline{Document: api.Document(strings.ReplaceAll(document, "last", "final"))}, tag)
	good(t, err)
	run(4)
	m, err := c.Matrix(ctx, api.GetMatrix{PipelinePath: api.PipelinePath{ID: "nightly"}})
	good(t, err)
	var seen, rows []string
	for i := range m.Executions {
		seen = append(seen, m.Executions[i].ID)
	}
	for i := range m.Steps {
		s := &m.Steps[i]
		rows = append(rows, fmt.Sprintf("%s %s: %s %v", s.ID, s.Kind, strings.Join(s.Status, ","), s.Failed))
	}
	expected := "first step: completed,completed,completed [0 0 0]\neach for_each: completed,failed,failed [0 0.25 1]\nfinal step: ,,skipped [0 0 0]\nlast step: completed,skipped, [0 0 0]"
	if got := strings.Join(rows, "\n"); strings.Join(seen, " ") != strings.Join(ids, " ") || got != expected || m.Truncated {
		t.Errorf("got of %v\n%s\nwant of %v\n%s", seen, got, ids, expected)
	}
	m, err = c.Matrix(ctx, api.GetMatrix{PipelinePath: api.PipelinePath{ID: p.ID}, Executions: 1, Steps: 2, Before: ids[2]})
	good(t, err)
	if len(m.Executions) != 1 || m.Executions[0].ID != ids[1] || len(m.Steps) != 2 || !m.Truncated {
		t.Errorf("a part: %+v", m)
	}
	_, err = c.Matrix(ctx, api.GetMatrix{PipelinePath: api.PipelinePath{ID: "nothing"}})
	want(t, err, stepwell.CodeNotFound)
}
