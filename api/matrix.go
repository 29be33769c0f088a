package api

import (
	"context"

	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// maxMatrixSteps bounds the steps of the executions of a matrix, all together: their states are read.
const maxMatrixSteps = 300_000

// GetMatrix selects the cells of a matrix.
type GetMatrix struct {
	PipelinePath
	Executions int    `query:"executions" minimum:"1" maximum:"100" default:"25" doc:"At most so many executions."`
	Steps      int    `query:"steps" minimum:"1" maximum:"500" default:"200" doc:"At most so many steps."`
	Before     string `query:"before" maxLength:"36" doc:"Only executions older than the one with this id."`
}

// Matrix is the steps of a pipeline in its last executions.
type Matrix struct {
	Executions []Execution `json:"executions" nullable:"false" doc:"Oldest first: the columns."`
	Steps      []MatrixRow `json:"steps" nullable:"false" doc:"The rows: steps of the top level in order of the newest execution, then those that only older ones have."`
	Truncated  bool        `json:"truncated" doc:"There are more steps; or older executions are left out, because those that are shown have too many steps together."`
}

// MatrixRow is a step in the executions.
type MatrixRow struct {
	ID     string    `json:"step_id" doc:"The id of a node of /graph."`
	Kind   string    `json:"kind" enum:"step,group,for_each,pipeline,stream,spawned"`
	Status []string  `json:"status" nullable:"false" doc:"By execution: of the step and what is inside of it the worst; empty: the execution has no such step."`
	Failed []float64 `json:"failed" nullable:"false" doc:"By execution: which share of the steps inside of it has failed or timed out; of a step without others inside 0 or 1."`
}

func (f *fields) matrix(ctx context.Context, in *GetMatrix) (*answer[Matrix], error) {
	p, err := f.o.Pipelines.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	rows, err := f.o.Store.Executions(ctx, store.Filter{Workflow: p.ID, Before: in.Before, Limit: in.Executions})
	if err != nil {
		return nil, err
	}
	m := &matrix{most: in.Steps, at: map[string]int{}}
	left := maxMatrixSteps
	for i := 0; i < len(rows); i++ {
		if left -= rows[i].Progress.Total; left < 0 && i > 0 {
			rows, m.out.Truncated = rows[:i], true
		}
	}
	if err := f.learn(ctx, rows); err != nil {
		return nil, err
	}
	m.n = len(rows)
	m.out.Executions, m.out.Steps = make([]Execution, m.n), []MatrixRow{}
	for i := range rows {
		g, err := f.hub.Graph(ctx, &rows[i], nil)
		if err != nil {
			return nil, err
		}
		column := m.n - 1 - i
		m.out.Executions[column] = f.executionOf(&rows[i])
		m.add(g, column)
	}
	return reply(m.out, nil)
}

// matrix collects the cells of executions, the newest first.
type matrix struct {
	out  Matrix
	n    int // columns
	most int // rows
	at   map[string]int
}

func (m *matrix) add(g *field.Graph, column int) {
	m.out.Truncated = m.out.Truncated || g.Truncated
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Kind == "cluster" { // of too many steps: its id means nothing in another execution
			continue
		}
		at, known := m.at[n.ID]
		if !known && len(m.out.Steps) == m.most {
			m.out.Truncated = true
			continue
		}
		if !known {
			at = len(m.out.Steps)
			m.at[n.ID] = at
			m.out.Steps = append(m.out.Steps, MatrixRow{ID: n.ID, Kind: n.Kind, Status: make([]string, m.n), Failed: make([]float64, m.n)})
		}
		m.out.Steps[at].Status[column], m.out.Steps[at].Failed[column] = worstOf(n)
	}
}

// bad are the statuses of steps from the worst on, and then those that say the most of what is still to come.
var bad = []string{"failed", "timed_out", "retrying", "waiting", "running", "queued", "cancelled"}

// worstOf is the worst status of a node with the steps inside of it, and the share of these that has failed.
func worstOf(n *field.Node) (status string, failed float64) {
	all := 0
	for _, count := range n.States {
		all += count
	}
	if all > 0 {
		failed = float64(n.States["failed"]+n.States["timed_out"]) / float64(all)
	}
	for _, s := range bad {
		if n.States[s] > 0 || n.Status == s {
			return s, failed
		}
	}
	if n.Status != "" {
		return n.Status, failed
	}
	most := 0
	for _, s := range []string{"completed", "pending", "skipped"} {
		if n.States[s] > most {
			status, most = s, n.States[s]
		}
	}
	return status, failed
}
