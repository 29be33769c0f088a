package api

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/compare"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// CompareExecutions names two executions, and selects rows.
type CompareExecutions struct {
	ExecutionPath
	Other   string `path:"other_id" maxLength:"36" doc:"UUID of execution b, or a beginning of it that no other has."`
	Sort    string `query:"sort" enum:"change,moved,key" default:"change" doc:"change: first steps of one only, then those with another status, then with other attempts. moved: first what changed the sum of durations the most."`
	All     bool   `query:"all" doc:"Also steps whose status and attempts are the same."`
	Effects bool   `query:"effects" doc:"Also steps in the same state whose outputs differ, or that changed the sum of durations by a hundredth or more of all such changes. A request looks at the outputs of 2,000 steps at most: its page may have fewer rows than limit, also none, and a next one."`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor  string `query:"cursor" maxLength:"600"`
}

// mostSame is how many steps in the same state a request looks at, and sameAtOnce how many it reads at once.
const (
	mostSame   = 2000
	sameAtOnce = 200
)

// Comparison is a page of the steps of two executions, a and b.
type Comparison struct {
	A           Execution      `json:"a"`
	B           Execution      `json:"b"`
	Totals      compare.Totals `json:"totals" doc:"Of all steps."`
	Definitions bool           `json:"definition_differs" doc:"They do not run the same definition."`
	Params      bool           `json:"params_differ"`
	Outputs     bool           `json:"outputs_differ"`
	Steps       []ComparedStep `json:"steps" nullable:"false"`
	Next        string         `json:"next_cursor,omitempty"`
}

// ComparedStep is a step of one execution or of both.
type ComparedStep struct {
	ID         string   `json:"step_id"`
	A          *StepOf  `json:"a,omitempty" doc:"Missing when a has no such step."`
	B          *StepOf  `json:"b,omitempty"`
	MovedMS    int64    `json:"moved_ms" doc:"By how much longer it took in b; a step of b only counts whole."`
	Times      *float64 `json:"times,omitempty" doc:"Its duration in b divided by that in a; missing when one of them is 0."`
	Definition bool     `json:"definition_differs" doc:"The step, or the step of the top level that it is inside of, is defined otherwise."`
	Params     bool     `json:"params_differ" doc:"What was rendered for it, where that is kept."`
	Outputs    bool     `json:"outputs_differ"`
}

// StepOf is a compared step in one execution.
type StepOf struct {
	Index      int32  `json:"index"`
	Status     string `json:"status"`
	Attempt    int    `json:"attempt"`
	DurationMS int64  `json:"duration_ms"`
}

func (f *fields) compare(ctx context.Context, in *CompareExecutions) (*answer[Comparison], error) {
	a, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	b, err := f.find(ctx, in.Other)
	if err != nil {
		return nil, err
	}
	kind := "compare " + in.Sort + strconv.FormatBool(in.All)
	if in.Effects && !in.All {
		kind += "effects"
	}
	from, err := numberCursor(kind, in.Cursor)
	if err != nil {
		return nil, err
	}
	var steps [2][]compare.Step
	for i, x := range []*store.Execution{a, b} {
		if steps[i], err = f.comparable(ctx, x); err != nil {
			return nil, err
		}
	}
	rows, totals := compare.Join(steps[0], steps[1], compare.Order(in.Sort))
	out := Comparison{A: f.executionOf(a), B: f.executionOf(b), Totals: totals, Params: !sameJSON(a.Params, b.Params), Outputs: !sameJSON(a.Outputs, b.Outputs)}
	if out.Definitions, err = f.differ(ctx, a, b); err != nil {
		return nil, err
	}
	list, at, err := f.comparedPage(ctx, a, b, rows, int(from), in)
	if err != nil {
		return nil, err
	}
	if out.Steps = list; at < len(rows) {
		out.Next = cursorTo(kind, strconv.Itoa(at))
	}
	return reply(out, nil)
}

// comparedPage are the steps that are asked for, of the rows from one on; next is where the next page begins.
func (f *fields) comparedPage(ctx context.Context, a, b *store.Execution, rows []compare.Row, from int, in *CompareExecutions) (out []ComparedStep, next int, err error) {
	var moved int64
	for i := range rows {
		moved += rows[i].Shift()
	}
	chosen := func(at int) bool { return in.All || in.Effects || rows[at].Differs() }
	batch := sameAtOnce
	if in.All || !in.Effects {
		batch = min(batch, in.Limit)
	}
	out = []ComparedStep{}
	read := 0
	for at := from; at < len(rows); {
		var some []compare.Row
		var places []int
		for ; at < len(rows) && len(some) < batch; at++ {
			if chosen(at) {
				some, places = append(some, rows[at]), append(places, at)
			}
		}
		steps, err := f.comparedSteps(ctx, a, b, some)
		if err != nil {
			return nil, 0, err
		}
		for i := range steps {
			r := &some[i]
			if !in.All && !r.Differs() && !steps[i].Outputs && (r.Shift() == 0 || 100*r.Shift() < moved) {
				continue
			}
			if out = append(out, steps[i]); len(out) == in.Limit {
				for next = places[i] + 1; next < len(rows) && !chosen(next); next++ {
				}
				return out, next, nil
			}
		}
		if read += len(some); read >= mostSame {
			return out, at, nil
		}
	}
	return out, len(rows), nil
}

// differ reports whether two executions run definitions that say something else: comments do not count.
func (f *fields) differ(ctx context.Context, a, b *store.Execution) (bool, error) {
	if bytes.Equal(a.Definition, b.Definition) {
		return false, nil
	}
	var bodies [2][]byte
	for i, x := range []*store.Execution{a, b} {
		body, err := f.o.Store.Definition(ctx, x.Definition)
		if err == nil {
			bodies[i], _, err = definition.Untold(body)
		}
		if err != nil {
			return false, err
		}
	}
	return !bytes.Equal(bodies[0], bodies[1]), nil
}

// comparable are the steps of an execution, from the kept table of their states.
func (f *fields) comparable(ctx context.Context, x *store.Execution) ([]compare.Step, error) {
	found, err := f.hub.Select(ctx, x, field.Filter{Limit: engine.MaxSteps})
	out := make([]compare.Step, len(found))
	for i, s := range found {
		out[i] = compare.Step{Key: s.Key, Index: s.Index, Status: s.Status, Attempt: s.Attempt, Duration: s.Duration}
	}
	return out, err
}

// comparedSteps adds what the rows of the store and the definitions say of a page of steps.
func (f *fields) comparedSteps(ctx context.Context, a, b *store.Execution, page []compare.Row) ([]ComparedStep, error) {
	var of [2][]int32
	for i := range page {
		for k, s := range []*compare.Step{page[i].A, page[i].B} {
			if s != nil {
				of[k] = append(of[k], s.Index)
			}
		}
	}
	var rows [2]map[int32]*store.Step
	var defined [2]map[string]json.RawMessage
	for k, x := range []*store.Execution{a, b} {
		list, err := f.o.Store.StepsAt(ctx, x.No, of[k])
		if err != nil {
			return nil, err
		}
		rows[k] = make(map[int32]*store.Step, len(list))
		for i := range list {
			rows[k][list[i].Idx] = &list[i]
		}
		if defined[k], err = f.definedSteps(ctx, x); err != nil {
			return nil, err
		}
	}
	out := make([]ComparedStep, len(page))
	for i := range page {
		r := &page[i]
		v := ComparedStep{ID: f.text("", r.Key), A: stepOf(r.A), B: stepOf(r.B), MovedMS: r.Moved()}
		if r.A != nil && r.B != nil {
			x, y := rows[0][r.A.Index], rows[1][r.B.Index]
			v.Params, v.Outputs = !sameJSON(inputOf(x), inputOf(y)), !sameJSON(outputOf(x), outputOf(y))
			top := topLevel(r.Key)
			v.Definition = !sameJSON(defined[0][top], defined[1][top])
			if r.A.Duration > 0 && r.B.Duration > 0 {
				times := float64(r.B.Duration) / float64(r.A.Duration)
				v.Times = &times
			}
		}
		out[i] = v
	}
	return out, nil
}

func stepOf(s *compare.Step) *StepOf {
	if s == nil {
		return nil
	}
	return &StepOf{s.Index, s.Status.String(), s.Attempt, s.Duration}
}

func inputOf(s *store.Step) []byte {
	if s == nil {
		return nil
	}
	return s.Input
}

func outputOf(s *store.Step) []byte {
	if s == nil {
		return nil
	}
	return s.Output
}

// topLevel is the id of the step of the definition's top level that a key is inside of.
func topLevel(key string) string {
	for i := range len(key) {
		if key[i] == '.' || key[i] == '[' || key[i] == ':' {
			return key[:i]
		}
	}
	return key
}

// definedSteps are the steps of the top level of an execution's definition, and its handlers, by id.
func (f *fields) definedSteps(ctx context.Context, x *store.Execution) (map[string]json.RawMessage, error) {
	body, err := f.o.Store.Definition(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	var d struct {
		Steps     []json.RawMessage `json:"steps"`
		OnFailure json.RawMessage   `json:"on_failure"`
		Finally   json.RawMessage   `json:"finally"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, stepwell.Errorf(stepwell.CodeInternal, "restore the database from a copy", "the definition of execution %s cannot be read: %v", x.ID, err)
	}
	out := map[string]json.RawMessage{"on_failure": d.OnFailure, "finally": d.Finally}
	for _, raw := range d.Steps {
		var step struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &step); err != nil {
			return nil, stepwell.Errorf(stepwell.CodeInternal, "restore the database from a copy", "a step of execution %s cannot be read: %v", x.ID, err)
		}
		out[step.ID] = raw
	}
	return out, nil
}

// sameJSON compares stored values. Large ones are named by their content.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if engine.IsRef(a) || engine.IsRef(b) || len(a) == 0 || len(b) == 0 {
		return false
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
