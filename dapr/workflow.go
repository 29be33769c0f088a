package dapr

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
)

// WorkflowOptions say where the sidecar is whose app has the workflows.
type WorkflowOptions struct {
	// Port is that of the sidecar's HTTP API on this machine. Defaults to 0: steps fail and say so.
	Port int
	// Token is sent to the sidecar as dapr-api-token. Defaults to none.
	Token string
	// Limits are those of the calls.
	Limits outbound.Options
	// Now is the time. Defaults to time.Now.
	Now func() time.Time
}

// callWorkflow is the workflow that starts one of another app, and ends as it does; cancelEvent ends it without that one. The
// program in plugins/dapr-workflow hosts it.
const (
	callWorkflow = "stepwell.call"
	cancelEvent  = "stepwell.cancel"
)

// RegisterWorkflows adds the actions dapr.workflow and dapr.workflow_event.
func RegisterWorkflows(r *action.Registry, o WorkflowOptions) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &workflows{o: o}
	if o.Port > 0 {
		o.Limits.AllowHosts = append([]string{s.host()}, o.Limits.AllowHosts...)
	}
	var err error
	if s.client, err = outbound.New(o.Limits); err != nil {
		return err
	}
	const name = `^[A-Za-z0-9._~:@+,;=-]+$` // goes through a sidecar unchanged
	longest := 200.0
	if err := r.Add(action.Action{Handler: &workflowStep{s}, Spec: spec.Spec{Name: "dapr.workflow", Summary: "Runs a Dapr workflow and waits for its end.",
		Doc: "Starts a workflow through the Dapr sidecar, once for each attempt, and gives the worker back until it has ended. The instance's id is recorded before the start and looked up first, so that a crash starts nothing twice. " +
			"A cancelled or timed out step terminates the workflow, unless it is one of another app: Dapr cannot do that, and the step's log says so.",
		Params: []spec.Field{
			{Name: "name", Type: spec.String, Required: true, Pattern: name, Max: &longest, Doc: "Name of the workflow."},
			{Name: "input", Type: spec.Any, Doc: "Its input, sent as JSON."},
			{Name: "instance_id", Type: spec.String, Pattern: `^[A-Za-z0-9_-]{1,64}$`, Doc: "Id of the instance; one that exists already is waited for. Defaults to a random one."},
			{Name: "app_id", Type: spec.String, Pattern: `^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`, Doc: "App whose workflow it is, when it is not an app beside this sidecar; needs the program dapr-workflow beside the sidecar."},
		},
		Outputs: []spec.Field{
			{Name: "instance_id", Type: spec.String, Doc: "Id of the instance."},
			{Name: "output", Type: spec.Any, Doc: "What the workflow returned."},
		},
		Timeout:  time.Hour,
		Examples: []spec.Example{{Title: "A workflow of an app beside the same sidecar", YAML: "id: order\naction: dapr.workflow\nparams:\n  name: process_order\n  input: {order: 17}\n"}}}}); err != nil {
		return err
	}
	return r.Add(action.Action{Handler: &workflowEvent{s}, Spec: spec.Spec{Name: "dapr.workflow_event", Summary: "Raises an event for a Dapr workflow.",
		Doc: "The event is raised at least once: a workflow that takes several of a name must recognise a repetition.",
		Params: []spec.Field{
			{Name: "instance_id", Type: spec.String, Required: true, Pattern: name, Max: &longest, Doc: "Id of the instance."},
			{Name: "name", Type: spec.String, Required: true, Pattern: name, Max: &longest, Doc: "Name of the event."},
			{Name: "data", Type: spec.Any, Doc: "Sent as JSON."},
		},
		Timeout:  time.Minute,
		Examples: []spec.Example{{Title: "Lets a workflow continue", YAML: "id: approve\naction: dapr.workflow_event\nparams:\n  instance_id: order-17\n  name: approved\n  data: {by: anna}\n"}}}})
}

// workflows calls the workflow API of a sidecar.
type workflows struct {
	o      WorkflowOptions
	client *outbound.Client
}

func (s *workflows) host() string { return "127.0.0.1:" + strconv.Itoa(s.o.Port) }

// call sends one request. A nil body sends none; the failure is an *outbound.Failure.
func (s *workflows) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	if s.o.Port == 0 {
		return nil, action.Invalid("start the server beside one, and give services.dapr_http_port or DAPR_HTTP_PORT", "there is no Dapr sidecar")
	}
	req := &outbound.Request{Method: method, URL: "http://" + s.host() + "/v1.0/workflows/dapr/" + path, Gate: "dapr:workflows", Header: http.Header{"Accept": {"application/json"}},
		Timeouts: outbound.Timeouts{Connect: 10 * time.Second, Total: time.Minute}}
	if s.o.Token != "" {
		req.Header.Set("Dapr-Api-Token", s.o.Token)
	}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, action.Fail(err)
		}
		req.Body = outbound.Text(string(raw), "application/json")
	}
	resp, err := s.client.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && (resp.Status < 200 || resp.Status > 299) {
		return raw, resp.StatusFailure(raw)
	}
	return raw, err
}

// steer makes what the step does next of a failed call. What the sidecar answers with 500 passes: placement is not known yet, its
// store is away.
func steer(ctx context.Context, call *action.Call, err error) error {
	if f, ok := errors.AsType[*outbound.Failure](err); ok {
		if f.Status == http.StatusUnauthorized {
			return action.Fail(stepwell.Errorf(stepwell.CodeDenied, tokenHint, "the Dapr sidecar does not accept the token of DAPR_API_TOKEN"))
		}
		return outbound.Steer(ctx, call, f, outbound.Policy{RetryOn: []string{"5xx"}})
	}
	return err
}

// instance is how a workflow is.
type instance struct {
	ID         string            `json:"instanceID"`
	Name       string            `json:"workflowName"`
	Status     string            `json:"runtimeStatus"`
	Properties map[string]string `json:"properties"`
}

// find returns an instance; nil: there is none.
func (s *workflows) find(ctx context.Context, id string) (*instance, error) {
	raw, err := s.call(ctx, http.MethodGet, id, nil)
	if missing(raw, err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var i instance
	if err := json.Unmarshal(raw, &i); err != nil || i.Status == "" {
		return nil, &outbound.Failure{Kind: outbound.KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed, Message: "the sidecar did not answer with the state of a workflow", Err: err}}
	}
	return &i, nil
}

// missing reports whether a sidecar has said that an instance does not exist. Versions differ in the status.
func missing(raw []byte, err error) bool {
	f, ok := errors.AsType[*outbound.Failure](err)
	return ok && f.Status != 0 && (f.Status == http.StatusNotFound || strings.Contains(string(raw), "no such instance"))
}

// ended reports whether the instance has, and how: its output, or the failure.
func (i *instance) ended() (done bool, output any, err error) {
	switch i.Status {
	case "COMPLETED":
		text := i.Properties["dapr.workflow.output"]
		if text == "" {
			return true, nil, nil
		}
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&output) != nil || dec.More() {
			output = text
		}
		return true, output, nil
	case "FAILED", "TERMINATED", "CANCELED":
		message := fmt.Sprintf("the workflow %s (%s) %s", i.Name, i.ID, strings.ToLower(i.Status))
		if why := i.Properties["dapr.workflow.failure.error_message"]; why != "" {
			message += ": " + stepwell.Clip(why, 2000)
		}
		return true, nil, &stepwell.Error{Code: stepwell.CodeFailed, Message: message}
	}
	return false, nil, nil
}

// workflowStep is the action dapr.workflow.
type workflowStep struct{ *workflows }

// awaited is the state of a step that waits for a workflow.
type awaited struct {
	ID    string `json:"instance_id"`
	Call  bool   `json:"call,omitempty"` // it is callWorkflow
	Polls int    `json:"polls"`          // so far
}

// The time between two polls grows from a second.
const longestPoll = 30 * time.Second

func (a *awaited) wait(now time.Time) error {
	pause := min(time.Second<<min(a.Polls/4, 8), longestPoll)
	a.Polls++
	return action.Poll(now.Add(pause), a.ID, a)
}

// Run starts the workflow, or finds the one that an earlier call of this step has started.
func (h *workflowStep) Run(ctx context.Context, call *action.Call) (any, error) {
	given, _ := call.Params["instance_id"].(string)
	id, err := h.instanceOf(ctx, call, given)
	if err != nil {
		return nil, steer(ctx, call, err)
	}
	app, _ := call.Params["app_id"].(string)
	at := &awaited{ID: id, Call: app != ""}
	state, err := json.Marshal(at)
	if err != nil {
		return nil, action.Fail(err)
	}
	if err := call.Host.Own(ctx, state); err != nil { // from here on a cancelled step terminates it
		return nil, err
	}
	there, err := h.find(ctx, id)
	if err != nil {
		return nil, steer(ctx, call, err)
	}
	if there == nil {
		if err := h.start(ctx, call, id); err != nil {
			return nil, steer(ctx, call, err)
		}
		call.Log("started", slog.String("instance_id", id))
		return nil, at.wait(h.o.Now())
	}
	return h.look(there, at, given != "")
}

// instanceOf is the id of this attempt's instance. One of an earlier attempt is taken over unless it has failed: a worker that
// was lost leaves it running. A random id is recorded before it is used.
func (h *workflowStep) instanceOf(ctx context.Context, call *action.Call, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	key := func(attempt int) string { return "dapr.workflow." + strconv.Itoa(attempt) }
	if raw, ok, err := call.Host.Recall(ctx, key(call.Attempt-1)); err != nil {
		return "", err
	} else if ok {
		var before string
		if err := json.Unmarshal(raw, &before); err != nil {
			return "", action.Fail(err)
		}
		there, err := h.find(ctx, before)
		if err != nil {
			return "", err
		}
		goesOn := there == nil
		if there != nil {
			_, _, failed := there.ended()
			goesOn = failed == nil
		}
		if goesOn {
			return action.Once(ctx, call, key(call.Attempt), func(context.Context) (string, error) { return before, nil })
		}
	}
	return action.Once(ctx, call, key(call.Attempt), func(context.Context) (string, error) {
		var b [16]byte
		_, err := rand.Read(b[:])
		return "stepwell-" + hex.EncodeToString(b[:]), err
	})
}

// start starts an instance, of an app elsewhere by the workflow that calls it.
func (h *workflowStep) start(ctx context.Context, call *action.Call, id string) error {
	name, input := call.Params["name"].(string), call.Params["input"]
	if app, _ := call.Params["app_id"].(string); app != "" {
		name, input = callWorkflow, map[string]any{"app_id": app, "name": name, "input": input}
	}
	_, err := h.call(ctx, http.MethodPost, name+"/start?instanceID="+url.QueryEscape(id), input)
	return err
}

// look ends the step as the workflow has ended, or waits on. An instance whose id was given is not started again.
func (h *workflowStep) look(there *instance, at *awaited, given bool) (any, error) {
	done, output, err := there.ended()
	switch {
	case !done:
		return nil, at.wait(h.o.Now())
	case err != nil && given:
		return nil, action.Fail(err)
	case err != nil:
		return nil, err
	}
	return map[string]any{"instance_id": at.ID, "output": output}, nil
}

// Poll asks how the workflow is. A failed question is asked again, for as long as the step may take.
func (h *workflowStep) Poll(ctx context.Context, call *action.Call) (any, error) {
	var at awaited
	if err := json.Unmarshal(call.State, &at); err != nil {
		return nil, action.Fail(fmt.Errorf("state of the wait: %w", err))
	}
	there, err := h.find(ctx, at.ID)
	switch {
	case err != nil && (ctx.Err() != nil || action.IsFail(err)):
		return nil, err
	case err != nil:
		call.Host.Log(slog.LevelWarn, "the state of the workflow could not be read, asking again: "+err.Error())
		return nil, at.wait(h.o.Now())
	case there == nil:
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeNotFound, Message: "the workflow " + at.ID + " does not exist any more", Hint: "it was purged before its end was seen"})
	}
	_, given := call.Params["instance_id"]
	return h.look(there, &at, given)
}

// Cancel terminates the workflow; one that has ended or is gone is terminated.
func (h *workflowStep) Cancel(ctx context.Context, call *action.Call) error {
	var at awaited
	if err := json.Unmarshal(call.State, &at); err != nil {
		return action.Fail(err)
	}
	there, err := h.find(ctx, at.ID)
	if err != nil || there == nil {
		return err
	}
	if done, _, _ := there.ended(); done {
		return nil
	}
	if !at.Call {
		raw, err := h.call(ctx, http.MethodPost, at.ID+"/terminate", nil)
		if missing(raw, err) {
			return nil
		}
		return err
	}
	if _, err := h.call(ctx, http.MethodPost, at.ID+"/raiseEvent/"+cancelEvent, nil); err != nil {
		return err
	}
	return action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: "Dapr cannot terminate the workflow of another app: " + at.ID + "-call continues there", Hint: "terminate it through the sidecar of its app"})
}

// workflowEvent is the action dapr.workflow_event.
type workflowEvent struct{ *workflows }

// Run raises the event.
func (h *workflowEvent) Run(ctx context.Context, call *action.Call) (any, error) {
	id, name := call.Params["instance_id"].(string), call.Params["name"].(string)
	there, err := h.find(ctx, id)
	if err != nil {
		return nil, steer(ctx, call, err)
	}
	if there == nil {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no workflow " + id})
	}
	if done, _, _ := there.ended(); done {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeConflict, Message: "the workflow " + id + " has ended: " + strings.ToLower(there.Status)})
	}
	_, err = h.call(ctx, http.MethodPost, id+"/raiseEvent/"+name, call.Params["data"])
	return nil, steer(ctx, call, err)
}
