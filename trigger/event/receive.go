package event

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Received is the outcome of an event.
type Received struct {
	ID string `json:"event_id"`
	// Signal is "" without a key.
	Signal  string    `json:"signal" enum:",delivered,kept,repeated" doc:"What became of the key: delivered to a step that waited, kept for one that will, or repeated."`
	Started []Started `json:"started" nullable:"false"`
}

// Started is an execution that a trigger or a job started for an event.
type Started struct {
	Trigger   string        `json:"trigger_id"`
	Execution resource.Ref  `json:"execution_id"`
	Repeated  bool          `json:"repeated,omitempty" doc:"The execution was there already."`
	Code      stepwell.Code `json:"code,omitempty" doc:"Why there is none."`
	Message   string        `json:"message,omitempty"`
}

// Receive takes an event from outside. It returns when everything that it causes is durable; after an error the same
// event may be sent again. CodeInvalid, CodeConflict when its id names another event, CodeLimit when it is too large or too much is waiting. A trigger whose
// execution cannot be started, now or later, is told in the result and is no error.
func (r *Router) Receive(ctx context.Context, e Event) (*Received, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	raw, err := expr.Marshal(map[string]any(e.Data))
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the data of the event is no JSON", Err: err}
	}
	if len(raw) > r.o.MaxBody {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the event is larger than %d bytes", r.o.MaxBody)}
	}
	if e.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		e.ID = id.String()
	}
	if e.Time.IsZero() {
		e.Time = r.o.Now()
	}
	targets, err := r.name(ctx, &e, raw)
	if err != nil {
		return nil, err
	}
	out := &Received{ID: e.ID}
	if e.Key != "" {
		if out.Signal, err = r.signal(ctx, &e, raw); err != nil {
			return nil, err
		}
	}
	out.Started, err = r.route(ctx, &e, targets, 0)
	return out, err
}

// name stores the event of an id with its matches: a repeated event starts no trigger created since. The event's time
// is not compared: many senders write the time of the call.
func (r *Router) name(ctx context.Context, e *Event, data []byte) ([]target, error) {
	targets := r.targets(e, "")
	fitting := make([]string, len(targets))
	for i := range targets {
		fitting[i] = targets[i].id
	}
	note, err := json.Marshal(fitting)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal([]any{e.Type, e.Source, e.Key, json.RawMessage(data)})
	if err != nil {
		return nil, err
	}
	if note, err = r.o.Signals.Name(ctx, "event", e.ID, content, note); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(note, &fitting); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "what the event started cannot be read", Err: err}
	}
	return slices.DeleteFunc(targets, func(t target) bool { return !slices.Contains(fitting, t.id) }), nil
}

// signal passes the event on to the steps that wait for its key.
func (r *Router) signal(ctx context.Context, e *Event, data []byte) (string, error) {
	body := fmt.Appendf(nil, `{"status":"completed","by":"event","outputs":%s}`, data)
	if e.Data == nil {
		body = []byte(`{"status":"completed","by":"event","outputs":{}}`)
	}
	fresh, delivered, err := r.o.Signals.Signal(ctx, store.Signal{Key: "event:" + e.Key, ID: e.ID, Body: body, At: e.Time})
	switch {
	case err != nil:
		return "", err
	case !fresh:
		return "repeated", nil
	case delivered:
		return "delivered", nil
	}
	return "kept", nil
}

// target is a trigger or job that an event starts.
type target struct {
	id, name string // of the trigger, or of the job that listens
	head     trigger.Head
	counted  bool
	by       string // the creator of the trigger
	wrong    error  // why its condition cannot be decided: it starts nothing, and says so
}

// targets are the triggers and jobs that an event fits, in order, except the one behind the execution that it is about.
func (r *Router) targets(e *Event, behind string) []target {
	var list []target
	value := sync.OnceValue(e.value)
	add := func(condition string, t target) {
		var holds bool
		if holds, t.wrong = r.holds(condition, value); holds || t.wrong != nil {
			list = append(list, t)
		}
	}
	for _, it := range r.set.All(func(it *item) bool {
		return it.Value.On() && it.ID != behind && (behind == "" || string(it.Value.Job) != behind) && fits(it.Value.EventType, it.Value.Filters, e)
	}) {
		add(it.Value.Condition, target{id: it.ID, name: it.Value.Name, head: it.Value.Head, counted: true, by: it.Value.By})
	}
	for _, j := range r.o.Jobs.Listening() {
		if j.ID != behind && fits(j.Schedule.Expression, j.Schedule.Filters, e) {
			add(j.Schedule.Condition, target{id: j.ID, name: j.Name, head: trigger.Head{Job: resource.Ref(j.ID)}})
		}
	}
	return list
}

// maxConditions bounds the compiled conditions: those of jobs that have changed are among them.
const maxConditions = 20_000

// holds decides a condition, which is compiled once. CodeInvalid.
func (r *Router) holds(condition string, event func() map[string]any) (bool, error) {
	if condition == "" {
		return true, nil
	}
	known, ok := r.conditions.Load(condition)
	if !ok {
		parsed, err := trigger.ParseCondition(condition)
		if err != nil { // it was stored by another release
			return false, err
		}
		if r.compiled.Add(1)%maxConditions == 0 {
			r.conditions.Clear()
		}
		known, _ = r.conditions.LoadOrStore(condition, parsed)
	}
	return known.(trigger.Condition).Holds(event())
}

// route starts the matches of an event. Errors are transient: the event has to come again.
func (r *Router) route(ctx context.Context, e *Event, targets []target, depth int) ([]Started, error) {
	started := make([]Started, len(targets))
	var group errgroup.Group
	group.SetLimit(r.o.Starts)
	for i, t := range targets {
		group.Go(func() error {
			launched, err := (*pipeline.Launched)(nil), t.wrong
			if err == nil {
				launched, err = r.launch(ctx, &t, e, depth)
			}
			execution := ""
			if err == nil {
				execution = launched.Execution
			}
			if t.counted && (err != nil || launched.Fresh) {
				r.counts.Ran(t.id, execution, err)
			}
			started[i] = Started{Trigger: t.id, Execution: resource.Ref(execution)}
			if err == nil {
				started[i].Repeated = !launched.Fresh
				return nil
			}
			if !trigger.Permanent(err) {
				return fmt.Errorf("event trigger %s: %w", t.id, err)
			}
			started[i].Code, started[i].Message = stepwell.CodeOf(err), err.Error()
			r.o.Log.WarnContext(ctx, "an event started nothing", "trigger", t.id, "event", e.ID, "type", e.Type, "error", err)
			return nil
		})
	}
	return started, group.Wait()
}

// launch starts one execution, once for each event.
func (r *Router) launch(ctx context.Context, t *target, e *Event, depth int) (*pipeline.Launched, error) {
	about := map[string]any{"type": "event", "event_id": e.ID, "event_type": e.Type, "trigger_id": t.id, "trigger_name": t.name,
		"depth": int64(depth), "triggered_at": stamp(r.o.Now())}
	added := map[string]any{"event": e.value()}
	var values map[string]any
	from := ""
	if !strings.HasPrefix(e.Type, internal) { // Stepwell's own events carry no outside data
		values = e.Data
	} else {
		from, _ = e.Data["execution_id"].(string)
	}
	key := "event:" + t.id + ":" + e.ID
	in := pipeline.Launch{From: from, Outside: &pipeline.Outside{Values: values, Added: added, Event: added["event"], About: about}}
	in.Trigger, in.Job, in.Actor, in.Key = "event", t.id, "event:"+t.id, key
	if t.head.Job != "" {
		in = in.WrittenBy(t.by)
	}
	return t.head.Start(ctx, in, r.o.Jobs, r.o.Launcher)
}

// value is the event as a parameter.
func (e *Event) value() map[string]any {
	data := map[string]any(e.Data)
	if data == nil {
		data = map[string]any{}
	}
	return map[string]any{"id": e.ID, "type": e.Type, "source": e.Source, "key": e.Key, "time": stamp(e.Time), "data": data}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Take implements trigger.Sink: changes of executions are events too.
func (r *Router) Take(ctx context.Context, list []trigger.Happened) error {
	var later trigger.LaterError
	for i := range list {
		if err := r.take(ctx, &list[i]); err != nil {
			if ctx.Err() != nil || store.IsAway(err) {
				return err // as it would be with the next one
			}
			later.Put(list[i].No, err)
		}
	}
	return later.OrNil()
}

// take routes one of them. Errors are transient.
func (r *Router) take(ctx context.Context, h *trigger.Happened) error {
	if h.Kind == store.JobCompleted {
		return r.completed(ctx, h)
	}
	if !strings.HasPrefix(h.Kind, internal) {
		return nil
	}
	e := &Event{ID: fmt.Sprintf("%s/%s@%d", h.Execution, strings.TrimPrefix(h.Kind, internal), h.At.UnixMicro()), Type: h.Kind, Source: "stepwell", Time: h.At,
		Data: map[string]any{"execution_id": h.Execution, "status": h.Status.String(), "pipeline": h.Pipeline, "job_id": h.Job, "workflow_id": h.Workflow, "breached": h.Breached}}
	targets := r.targets(e, h.Job)
	if len(targets) == 0 {
		return nil
	}
	depth, err := r.depth(ctx, h)
	if err != nil {
		return err
	}
	if depth > r.o.Depth {
		r.o.Log.ErrorContext(ctx, "executions that end start each other in a circle; the chain is cut", "execution", h.Execution, "job", h.Job)
		return nil
	}
	_, err = r.route(ctx, e, targets, depth)
	return err
}

// completed passes the event of a finished project on under its own id: to the triggers of its type, and to the steps that wait
// for its key, job.completed:PROJECT. A repetition changes nothing. Errors are transient.
func (r *Router) completed(ctx context.Context, h *trigger.Happened) error {
	var e store.ProjectEvent
	err := json.Unmarshal(h.Body, &e)
	if err == nil {
		p := &e.Payload
		_, err = r.Receive(ctx, Event{ID: e.ID, Type: store.JobCompleted, Source: "stepwell", Key: store.JobCompleted + ":" + p.Project, Time: h.At,
			Data: map[string]any{"project_id": p.Project, "total": p.Total, "done": p.Done, "errors": p.Errors}})
		if err != nil && !trigger.Permanent(err) {
			return err
		}
	}
	if err != nil {
		r.o.Log.ErrorContext(ctx, "the event of a finished project cannot be passed on", "event", e.ID, "project", e.Payload.Project, "error", err)
	}
	return nil
}

// depth is how many executions before this one have started each other by ending, and this one.
func (r *Router) depth(ctx context.Context, h *trigger.Happened) (int, error) {
	if h.Job == "" {
		return 1, nil
	}
	x, err := r.o.Executions.Execution(ctx, h.Execution)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return 1, nil // retention was faster
	}
	if err != nil {
		return 0, err
	}
	params, err := expr.Decode(x.Params)
	if err != nil {
		return 1, nil // it has none
	}
	depth, _ := dig(params, "_trigger.depth")
	n, _ := depth.(int64)
	return int(n) + 1, nil
}

// Wants reports whether the end of executions, or a broken promise of them, interests a trigger: then it has to go
// into the outbox. It is quick.
func (r *Router) Wants() bool {
	return r.interested.Load() || r.o.Jobs.ListensToExecutions()
}
