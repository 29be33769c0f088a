package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// StepList is a page of steps.
type StepList struct {
	Steps []Step `json:"steps" nullable:"false"`
	Next  string `json:"next_cursor,omitempty"`
	As    *Then  `json:"as_of,omitempty" doc:"The commit that this is the state after, when a version or time was asked for."`
}

// ListSteps selects steps.
type ListSteps struct {
	ExecutionPath
	Status  []string `query:"status" maxItems:"20" enum:"pending,queued,running,retrying,waiting,completed,failed,skipped,cancelled,timed_out" doc:"Any of these, with commas between them."`
	Step    string   `query:"step_id" maxLength:"300" doc:"Only the step with this key."`
	Index   []int    `query:"index" maxItems:"500" doc:"Only the steps with these indexes, with commas between them."`
	Parent  string   `query:"parent" maxLength:"300" doc:"Only steps directly inside the one with this key."`
	Prefix  string   `query:"prefix" maxLength:"300" doc:"Only steps whose key begins so."`
	Query   string   `query:"q" maxLength:"200" doc:"Only steps with this text in their key or action, in upper or lower case."`
	Sort    string   `query:"sort" enum:"index,started,duration" default:"index" doc:"duration: that of a step that has not ended counts until now."`
	Order   string   `query:"order" enum:"asc,desc" default:"asc"`
	Outputs bool     `query:"outputs" doc:"With params and outputs."`
	Limit   int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor  string   `query:"cursor" maxLength:"600"`
	Moment
}

// chosen reports whether anything but an index of the store selects the steps: then the kept table of all states does.
func (in *ListSteps) chosen() bool {
	odd := func(name string) bool {
		return slices.Contains([]string{"failed", "skipped", "cancelled", "timed_out"}, name)
	}
	byStatus := in.Step == "" && slices.ContainsFunc(in.Status, func(name string) bool { return !odd(name) })
	return byStatus || in.Index != nil || in.Parent != "" || in.Prefix != "" || in.Query != "" || in.Sort != "index" || in.Order != "asc"
}

func (f *fields) listSteps(ctx context.Context, in *ListSteps) (*answer[StepList], error) {
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	about, err := f.hub.About(ctx, x)
	if err != nil {
		return nil, err
	}
	list, cursor := listing(f.stepsInOrder), func(row *store.Step) string { return cursorTo("steps", afterStep(row.Idx)) }
	var then *field.Past
	switch {
	case in.past() && in.Outputs:
		return nil, stepwell.Invalid("leave out outputs, version or at", "query.outputs: params and outputs are those of now, the log refers to them alone")
	case in.past():
		if then, err = f.hub.At(ctx, x, in.Version, in.At); err == nil {
			list, cursor, err = f.chosenSteps(ctx, x, in, then)
		}
	case in.chosen():
		list, cursor, err = f.chosenSteps(ctx, x, in, nil)
	case in.Step != "":
		list = f.oneStep
	}
	if err != nil {
		return nil, err
	}
	rows, err := list(ctx, x, in)
	if err != nil {
		return nil, err
	}
	out := StepList{Steps: []Step{}, As: asOf(then)}
	size := 0
	for i := range rows {
		if i == in.Limit || size > maxOutputs {
			out.Next = cursor(&rows[i-1])
			break
		}
		v := f.stepOf(x.ID, &rows[i])
		if then != nil && rows[i].Started > 0 && rows[i].Ended == 0 {
			v.DurationMS = durationOf(v.Started.Time, then.At)
		}
		v.describe(about(v.ID))
		if in.Outputs {
			v.Params = f.json(x.ID, rows[i].Input)
			if v.Outputs, err = f.value(ctx, x.ID, rows[i].Output); err != nil {
				return nil, err
			}
			size += len(v.Outputs) + len(v.Params)
		}
		out.Steps = append(out.Steps, v)
	}
	return reply(out, nil)
}

// describe adds what the plan says of the step.
func (v *Step) describe(a field.About) {
	if v.Name == "" {
		v.Name = a.Name
	}
	if v.Action == "" {
		v.Action = a.Action
	}
	v.Kind, v.Parent, v.DependsOn, v.Attempts = a.Kind, a.Parent, a.DependsOn, a.Attempts
}

// statusesOf reads names of statuses.
func statusesOf(names []string) (out []stepwell.StepStatus, err error) {
	for _, name := range names {
		var status stepwell.StepStatus
		if err := status.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		out = append(out, status)
	}
	return out, nil
}

// stepsInOrder lists steps by index, one more than a page has.
func (f *fields) stepsInOrder(ctx context.Context, x *store.Execution, in *ListSteps) ([]store.Step, error) {
	statuses, err := statusesOf(in.Status)
	if err != nil {
		return nil, err
	}
	from, err := numberCursor("steps", in.Cursor)
	if err != nil || from > engine.MaxSteps {
		return nil, stepwell.Invalid("", "the cursor is not one of this list")
	}
	return f.o.Store.Steps(ctx, x.No, store.StepFilter{Key: in.Step, Statuses: statuses, From: int32(from), Limit: in.Limit + 1})
}

// oneStep is the listing of the step with a key. The table knows where it is: a store would look at the keys of all of them.
func (f *fields) oneStep(ctx context.Context, x *store.Execution, in *ListSteps) ([]store.Step, error) {
	statuses, err := statusesOf(in.Status)
	if err != nil {
		return nil, err
	}
	from, err := numberCursor("steps", in.Cursor)
	if err != nil || from > engine.MaxSteps {
		return nil, stepwell.Invalid("", "the cursor is not one of this list")
	}
	found, err := f.hub.Select(ctx, x, field.Filter{Key: in.Step, Statuses: statuses, Limit: 1})
	if err != nil || len(found) > 0 && int64(found[0].Index) < from {
		return nil, err
	}
	return f.rowsOf(ctx, x.No, found)
}

// listing reads the rows of a page of steps, one more than it has.
type listing func(ctx context.Context, x *store.Execution, in *ListSteps) ([]store.Step, error)

// chosenSteps is the listing of steps that the table of all states selects, now or as they were then, and the cursor behind one of
// them.
func (f *fields) chosenSteps(ctx context.Context, x *store.Execution, in *ListSteps, then *field.Past) (listing, func(*store.Step) string, error) {
	if in.Step != "" && then == nil {
		return nil, nil, stepwell.Invalid("leave out step_id, or the others", "query.step_id: it selects one step, and goes only with status")
	}
	statuses, err := statusesOf(in.Status)
	if err != nil {
		return nil, nil, err
	}
	of := "steps " + in.Sort + " " + in.Order
	sel := field.Filter{Statuses: statuses, Key: in.Step, Parent: in.Parent, Prefix: in.Prefix, Text: in.Query, Down: in.Order == "desc", Limit: in.Limit + 1,
		Sort: map[string]field.Order{"started": field.ByStarted, "duration": field.ByDuration}[in.Sort]}
	for _, i := range slices.Compact(slices.Sorted(slices.Values(in.Index))) {
		if i >= 0 && i < engine.MaxSteps {
			sel.Indexes = append(sel.Indexes, int32(i))
		}
	}
	last, err := cursorOf(of, in.Cursor)
	if err != nil {
		return nil, nil, err
	}
	if last != "" {
		sel.After = &field.Mark{}
		if _, err := fmt.Sscanf(last, "%d %d", &sel.After.Value, &sel.After.Index); err != nil {
			return nil, nil, stepwell.Invalid("take next_cursor of the page before as it is", "the cursor is not one of this list")
		}
	}
	var found []field.Found
	switch {
	case in.Index != nil && sel.Indexes == nil: // no step can have any of them
	case then != nil:
		found = then.Table.Select(sel)
	default:
		found, err = f.hub.Select(ctx, x, sel)
	}
	marks := map[int32]string{}
	for _, s := range found {
		marks[s.Index] = cursorTo(of, strconv.FormatInt(s.Value, 10)+" "+strconv.Itoa(int(s.Index)))
	}
	rows := func(ctx context.Context, x *store.Execution, _ *ListSteps) ([]store.Step, error) {
		if then != nil {
			return then.Rows(found), nil
		}
		return f.rowsOf(ctx, x.No, found)
	}
	return rows, func(s *store.Step) string { return marks[s.Idx] }, err
}

// rowsOf reads the rows of steps that were found, in the order in which they were found. A step without a row, and one whose
// row is older than its queueing, is as the table says.
func (f *fields) rowsOf(ctx context.Context, no int64, found []field.Found) ([]store.Step, error) {
	of := make([]int32, len(found))
	for i := range found {
		of[i] = found[i].Index
	}
	read, err := f.o.Store.StepsAt(ctx, no, of)
	if err != nil {
		return nil, err
	}
	rows := make(map[int32]*store.Step, len(read))
	for i := range read {
		rows[read[i].Idx] = &read[i]
	}
	out := make([]store.Step, len(found))
	for i, s := range found {
		out[i].Idx, out[i].Key, out[i].Status = s.Index, s.Key, s.Status
		row := rows[s.Index]
		if row == nil {
			continue
		}
		out[i] = *row
		if row.Key == "" {
			out[i].Key = s.Key
		}
		if s.Status == stepwell.StepQueued && !row.Status.Terminal() {
			out[i].Status = s.Status
		}
	}
	return out, nil
}

// afterStep is the number in the cursor of the steps behind one.
func afterStep(idx int32) string { return strconv.FormatInt(int64(idx)+1, 10) }
