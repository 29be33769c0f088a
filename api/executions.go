package api

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Limits of one answer.
const (
	detailSteps  = 1000
	mostWarnings = 500   // lines that are not info, looked at of each execution of a list
	warnedOf     = 5_000 // executions in which one request looks for warnings
	warnedAtOnce = 500
	maxOutputs   = 8 << 20 // bytes of outputs in one page of steps
)

// executions are the operations that show executions.
func (s *server) executions() {
	s.partitions()
	handle(s, "execution.start", s.execute)
	handle(s, "execution.list", s.listExecutions)
	handle(s, "execution.stats", s.stats)
	handle(s, "execution.costs", s.costs)
	handle(s, "execution.promises", s.promises)
	handle(s, "execution.get", s.getExecution)
	handle(s, "execution.logs", s.listLogs, describeLogs)
	handle(s, "execution.logs.histogram", s.logHistogram)
	handle(s, "execution.history", s.listHistory)
	handle(s, "execution.definition", s.getDefinition)
	handle(s, "execution.source", s.getSource)
	handle(s, "search", s.search)
}

// ExecutionPath is the parameter that most operations have.
type ExecutionPath struct {
	ID string `path:"execution_id" maxLength:"36" doc:"UUID of the execution, or a beginning of it that no other has (8 characters or more)."`
}

// executionBody is the input of an operation on an execution that has a body.
type executionBody[B any] struct {
	ExecutionPath
	Body B
}

// find is the execution, by its id or the beginning of it.
func (s *server) find(ctx context.Context, id string) (*store.Execution, error) {
	if s.local == nil && (len(id) < 8 || strings.ContainsFunc(id, func(c rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF-", c) })) {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "stepwell executions list shows them", "no execution %q", stepwell.Clip(id, 60))
	}
	x, err := s.o.Store.Execution(ctx, strings.ToLower(id))
	if err == nil {
		callOf(ctx).object = x.ID
	}
	return x, err
}

// ExecutionList is a page of executions.
type ExecutionList struct {
	Executions []Execution `json:"executions" nullable:"false"`
	Next       string      `json:"next_cursor,omitempty" doc:"The cursor of the next page; missing on the last."`
}

// ListExecutions selects executions. Zero fields select all.
type ListExecutions struct {
	Status []string `query:"status" maxItems:"20" enum:"pending,running,paused,cancelling,completed,completed_with_failures,failed,cancelled,timed_out" doc:"Any of these, with commas between them."`
	store.Filter
	Warnings bool   `query:"warnings" doc:"Counts the warnings in the log of each."`
	Warned   bool   `query:"warned" doc:"Only those with warnings in the log, counted as with warnings. One request looks at 5,000 executions: a page may have fewer than limit, or none, and a next_cursor."`
	Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor   string `query:"cursor" maxLength:"600"`
}

func (s *server) listExecutions(ctx context.Context, in *ListExecutions) (*answer[ExecutionList], error) {
	f := in.Filter
	for _, name := range in.Status {
		var status stepwell.ExecutionStatus
		if err := status.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		f.Statuses = append(f.Statuses, status)
	}
	last, err := cursorOf("executions", in.Cursor)
	if err != nil {
		return nil, err
	}
	find := s.executionsAfter
	if in.Warned {
		find = s.warned
	}
	found, next, err := find(ctx, f, last, in.Limit)
	if err != nil {
		return nil, err
	}
	if err := s.learn(ctx, found.rows); err != nil {
		return nil, err
	}
	out := ExecutionList{Executions: make([]Execution, 0, len(found.rows)), Next: cursorTo("executions", next)}
	if in.Warnings && !in.Warned {
		if err := s.countWarnings(ctx, &found); err != nil {
			return nil, err
		}
	}
	for i := range found.rows {
		x := s.executionOf(&found.rows[i])
		x.Warnings = found.warnings[found.rows[i].No]
		out.Executions = append(out.Executions, x)
	}
	return reply(out, nil)
}

// listedExecutions are executions of a list, and the warnings of those whose were counted.
type listedExecutions struct {
	rows     []store.Execution
	warnings map[int64]int
}

func (s *server) countWarnings(ctx context.Context, of *listedExecutions) (err error) {
	numbers := make([]int64, len(of.rows))
	for i := range of.rows {
		numbers[i] = of.rows[i].No
	}
	of.warnings, err = s.o.Store.LogWarnings(ctx, numbers, mostWarnings)
	return err
}

// executionsAfter gives a page of executions behind the last one, and the id of its own last if there is another page.
func (s *server) executionsAfter(ctx context.Context, f store.Filter, last string, limit int) (out listedExecutions, next string, err error) {
	f.Limit = limit + 1
	if out.rows, err = s.before(ctx, f, last); err == nil {
		out.rows, next = page(out.rows, limit, func(x *store.Execution) string { return x.ID })
	}
	return out, next, err
}

// warned is executionsAfter for executions with warnings. It looks at warnedOf executions at most: a page may have fewer than there is
// room for, and others behind it.
func (s *server) warned(ctx context.Context, f store.Filter, last string, limit int) (out listedExecutions, next string, err error) {
	out.warnings = map[int64]int{}
	for looked := 0; ; {
		some, more, err := s.executionsAfter(ctx, f, last, warnedAtOnce)
		if err == nil {
			err = s.countWarnings(ctx, &some)
		}
		if err != nil {
			return listedExecutions{}, "", err
		}
		for i := range some.rows {
			x := &some.rows[i]
			n := some.warnings[x.No]
			if n == 0 {
				continue
			}
			if len(out.rows) == limit {
				return out, out.rows[limit-1].ID, nil
			}
			out.rows, out.warnings[x.No] = append(out.rows, *x), n
		}
		looked += len(some.rows)
		if last = more; last == "" || looked >= warnedOf {
			return out, last, nil
		}
	}
}

// learn has the estimates know the pipelines of those that run.
func (s *server) learn(ctx context.Context, rows []store.Execution) error {
	var running []string
	for i := range rows {
		if rows[i].Status == stepwell.ExecutionRunning && !slices.Contains(running, rows[i].Pipeline) {
			running = append(running, rows[i].Pipeline)
		}
	}
	return s.o.Estimates.Learn(ctx, running...)
}

// before lists executions older than the last of the page before. That one may be deleted by now: its id still has its
// creation time.
func (s *server) before(ctx context.Context, f store.Filter, last string) ([]store.Execution, error) {
	if last == "" {
		return s.o.Store.Executions(ctx, f)
	}
	id, err := uuid.Parse(last)
	if err != nil || id.Version() != 7 {
		return nil, stepwell.Invalid("use next_cursor of the previous page unchanged", "the cursor is not one of this list")
	}
	f.Before = last
	rows, err := s.o.Store.Executions(ctx, f)
	if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return rows, err
	}
	at := time.Unix(id.Time().UnixTime())
	if f.To.IsZero() || at.Before(f.To) {
		f.To = at
	}
	f.Before = ""
	return s.o.Store.Executions(ctx, f)
}

// page cuts a page off rows, of which one more was asked for: if it is there, there is a next page, after the last
// of this.
func page[T any](rows []T, limit int, key func(*T) string) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], key(&rows[limit-1])
}

// maxWait is how long a request may wait for the end of an execution.
const maxWait = 60 * time.Second

type getExecutionInput struct {
	ExecutionPath
	Wait  int `query:"wait_seconds" minimum:"0" maximum:"60" doc:"Answers when the execution has ended, or after so many seconds with what there is then; earlier when the server stops. Defaults to 0: at once."`
	Steps int `query:"steps" minimum:"1" maximum:"1000" default:"1000" doc:"How many steps come with it at most; current_step is one of them. /steps and /graph have all."`
}

func (s *server) getExecution(ctx context.Context, in *getExecutionInput) (*answer[ExecutionDetail], error) {
	x, err := s.find(ctx, in.ID)
	if err == nil && in.Wait > 0 {
		x, err = s.awaited(ctx, x, time.Duration(in.Wait)*time.Second)
	}
	if err != nil {
		return nil, err
	}
	if err := s.learn(ctx, []store.Execution{*x}); err != nil {
		return nil, err
	}
	rows, err := s.o.Store.Steps(ctx, x.No, store.StepFilter{Limit: in.Steps + 1})
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, in.Steps, func(row *store.Step) string { return afterStep(row.Idx) })
	out := ExecutionDetail{Execution: s.executionOf(x), Steps: make([]Step, 0, len(rows)), MoreSteps: cursorTo("steps", next), Error: s.failure(x.ID, x.Failure)}
	for i := range rows {
		out.Steps = append(out.Steps, s.stepOf(x.ID, &rows[i]))
	}
	out.CurrentStep = currentStep(x, out.Steps)
	if out.Params, err = s.shownParams(ctx, x); err != nil {
		return nil, err
	}
	outside, err := s.o.Store.OutsideWork(ctx, x.No, store.OutsideWork{}, 1000)
	if err != nil {
		return nil, err
	}
	for i := range outside {
		if !outside[i].Held {
			out.Abandoned++
		}
	}
	out.Result, err = s.value(ctx, x.ID, x.Outputs)
	return reply(out, err)
}

// awaited is the execution when it has ended, or after a time, or when the server stops. Nothing of the store is held
// meanwhile.
func (s *server) awaited(ctx context.Context, x *store.Execution, most time.Duration) (*store.Execution, error) {
	if x.Status.Terminal() {
		return x, nil
	}
	wait, enough := context.WithTimeout(ctx, most)
	defer enough()
	go func() { // ends with wait
		select {
		case <-s.o.Stopping:
			enough()
		case <-wait.Done():
		}
	}()
	if ended, err := s.o.Forecast.Wait(wait, x.ID); err == nil {
		return ended, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.o.Store.Execution(ctx, x.ID) // the wait ended early: return the current state
}

// shownParams are an execution's parameters as they may be shown.
func (s *server) shownParams(ctx context.Context, x *store.Execution) (json.RawMessage, error) {
	params, err := ShownParams(ctx, s.o.Store, x)
	return s.json(x.ID, params), err
}

// ShownParams are an execution's parameters without the values that its pipeline declares secret.
func ShownParams(ctx context.Context, definitions interface {
	Definition(ctx context.Context, hash []byte) ([]byte, error)
}, x *store.Execution) (json.RawMessage, error) {
	var params map[string]json.RawMessage
	if len(x.Params) == 0 {
		return json.RawMessage("{}"), nil
	}
	if err := json.Unmarshal(x.Params, &params); err != nil || len(params) == 0 { // the definition may be large
		return json.RawMessage("{}"), err
	}
	body, err := definitions.Definition(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	d, err := definition.Decode(body)
	if err != nil {
		return nil, err
	}
	for i := range d.Parameters {
		if _, given := params[d.Parameters[i].Name]; given && d.Parameters[i].Secret {
			params[d.Parameters[i].Name] = json.RawMessage(`"***"`)
		}
	}
	return json.Marshal(params)
}

// value resolves a stored value: large ones are fetched.
func (s *server) value(ctx context.Context, execution string, raw []byte) (json.RawMessage, error) {
	if !engine.IsRef(raw) {
		return s.json(execution, raw), nil
	}
	if size, ok := store.RefSize(string(raw)); ok && size > maxOutputs && s.local == nil {
		return json.Marshal(map[string]any{"_truncated": true, "_bytes": size, "_ref": string(raw)})
	}
	raw, err := s.o.Blobs.Load(ctx, string(raw))
	return s.json(execution, raw), err
}

// HistoryEvent is one entry of the step log (pipeline-steps, "Step Logging").
type HistoryEvent struct {
	Version int64  `json:"version" doc:"Number of the commit that it is part of."`
	Step    string `json:"step_id,omitempty"`
	Type    string `json:"event_type"`
	At      Time   `json:"timestamp"`
	Worker  string `json:"worker_id,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Resources of the attempt that has ended.
	Resources *Resources `json:"resources,omitempty"`
}

// HistoryList is a page of the step log, in order.
type HistoryList struct {
	Events []HistoryEvent `json:"events" nullable:"false"`
	Next   string         `json:"next_cursor,omitempty"`
}

// ListHistory selects entries of the step log.
type ListHistory struct {
	ExecutionPath
	After  int64  `query:"after" minimum:"0" doc:"What came after this version."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listHistory(ctx context.Context, in *ListHistory) (*answer[HistoryList], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	after, err := numberCursor("history", in.Cursor)
	if err != nil {
		return nil, err
	}
	events, err := s.o.Store.Events(ctx, x.No, max(after, in.After), in.Limit)
	if err != nil {
		return nil, err
	}
	out := HistoryList{Events: make([]HistoryEvent, 0, len(events))}
	for _, e := range events {
		out.Events = append(out.Events, HistoryEvent{Version: e.Version, Step: e.StepKey, Type: e.Type, At: resource.At(e.At), Worker: e.Worker, Detail: s.text(x.ID, e.Detail), Resources: e.Used})
	}
	if n := len(events); n >= in.Limit { // a version is never split
		out.Next = cursorTo("history", strconv.FormatInt(events[n-1].Version, 10))
	}
	return reply(out, nil)
}

func (s *server) getDefinition(ctx context.Context, in *ExecutionPath) (*answer[json.RawMessage], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	body, err := s.o.Store.Definition(ctx, x.Definition)
	if err == nil {
		body, _, err = definition.Untold(body)
	}
	return reply(s.json(x.ID, body), err)
}
