package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// handler is one action.
type handler struct {
	caller   *caller
	endpoint Endpoint
}

// submitted is the record under which a step keeps the work that it has submitted.
const submitted = "service.workflow"

// work is the state of asynchronous work that a step waits for.
type work struct {
	ID       string    `json:"workflow_id"`
	Deadline time.Time `json:"deadline"`
	Callback string    `json:"callback,omitempty"` // key of the signal by which the service ends the step
}

// calledBackPoll is the time between two polls of work with a callback.
const calledBackPoll = 5 * time.Minute

// Run calls the service, or submits work and waits for its end.
func (h *handler) Run(ctx context.Context, call *action.Call) (any, error) {
	if !h.endpoint.Async {
		return h.submit(ctx, call, call.Params)
	}
	w, err := action.Once(ctx, call, fmt.Sprintf("%s.%d", submitted, call.Attempt), func(ctx context.Context) (*work, error) {
		return h.submitWork(ctx, call)
	})
	if err != nil {
		return nil, err
	}
	return nil, h.wait(w, h.caller.o.Now().Add(min(h.every(w), time.Second)))
}

// Poll asks for the work that an earlier call has submitted.
func (h *handler) Poll(ctx context.Context, call *action.Call) (any, error) {
	w, err := workOf(call)
	if err != nil {
		return nil, err
	}
	return h.ask(ctx, call, w)
}

func workOf(call *action.Call) (*work, error) {
	var w work
	if err := json.Unmarshal(call.State, &w); err != nil {
		return nil, action.Fail(fmt.Errorf("state of the wait: %w", err))
	}
	return &w, nil
}

// Cancel cancels the work at the service, where the table says how. Work that is gone is cancelled.
func (h *handler) Cancel(ctx context.Context, call *action.Call) error {
	if h.endpoint.CancelPath == "" {
		return nil
	}
	w, err := workOf(call)
	if err != nil {
		return err
	}
	_, err = h.send(ctx, call, h.endpoint.CancelMethod, h.endpoint.CancelPath, map[string]any{"workflow_id": w.ID}, nil)
	if f, ok := errors.AsType[*outbound.Failure](err); ok && (f.Status == http.StatusNotFound || f.Status == http.StatusGone) {
		return nil
	}
	return err
}

// every is the time between two questions.
func (h *handler) every(w *work) time.Duration {
	if w.Callback != "" {
		return max(calledBackPoll, h.endpoint.Poll)
	}
	return h.endpoint.Poll
}

// wait gives the worker back until the next question, or until the service calls back.
func (h *handler) wait(w *work, again time.Time) error {
	if w.Callback == "" {
		return action.Poll(again, w.ID, w)
	}
	raw, err := json.Marshal(w)
	if err != nil {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "state of the wait", Err: err})
	}
	if again.After(w.Deadline) {
		again = w.Deadline
	}
	return &action.WaitError{Until: again, Resume: true, Await: true, Elsewhere: true, State: raw, ExternalID: w.Callback}
}

func (h *handler) submit(ctx context.Context, call *action.Call, body map[string]any) (map[string]any, error) {
	return h.send(ctx, call, h.endpoint.Method, h.endpoint.Path, call.Params, body)
}

func (h *handler) submitWork(ctx context.Context, call *action.Call) (*work, error) {
	w := &work{}
	body := call.Params
	if h.endpoint.Callback {
		key, url, err := call.Callback(ctx)
		switch {
		case err == nil:
			w.Callback, body = key, maps.Clone(call.Params)
			body["callback_url"] = url
		case stepwell.CodeOf(err) != stepwell.CodeInvalid: // without an address the status is asked for
			return nil, err
		}
	}
	out, err := h.submit(ctx, call, body)
	if err != nil {
		return nil, err
	}
	id, ok := out["workflow_id"].(string)
	if !ok || id == "" || len(id) > 512 {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("%s answered without a workflow_id", h.endpoint.App),
			Hint: "an action whose service answers at once must not be async"})
	}
	call.Log("submitted", slog.String("workflow_id", id))
	w.ID, w.Deadline = id, h.caller.o.Now().Add(h.endpoint.MaxWait)
	return w, nil
}

// ask polls the work's status once, and keeps waiting if it has not ended. A failed poll is repeated at the next turn,
// as long as there is time: the work continues regardless.
func (h *handler) ask(ctx context.Context, call *action.Call, w *work) (any, error) {
	out, err := h.send(ctx, call, http.MethodGet, h.endpoint.StatusPath, map[string]any{"workflow_id": w.ID}, nil)
	now := h.caller.o.Now()
	again, late := now.Add(h.every(w)), now.Add(h.endpoint.Poll).After(w.Deadline)
	if err != nil {
		if ctx.Err() != nil || action.IsFail(err) || late {
			return nil, err
		}
		if r, ok := errors.AsType[*action.RetryError](err); ok {
			again = now.Add(max(r.After, h.endpoint.Poll))
		}
		call.Host.Log(slog.LevelWarn, "the status could not be read, asking again: "+err.Error())
		return nil, h.wait(w, again)
	}
	status, _ := out["status"].(string)
	switch strings.ToUpper(status) {
	case "COMPLETED":
		return object(out["result"]), nil
	case "FAILED", "CANCELLED":
		return nil, &stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("workflow %s %s: %s", w.ID, strings.ToLower(status), text(out["error"]))}
	}
	if late {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeTimeout, Message: fmt.Sprintf("workflow %s is still %q after %s", w.ID, status, h.endpoint.MaxWait)})
	}
	if p, ok := number(out["progress"]); ok {
		call.Host.Progress(p/100, status)
	}
	return nil, h.wait(w, again)
}

// plainSegment matches paths that survive a sidecar, which decodes a path once or twice and cleans it.
var plainSegment = regexp.MustCompile(`^[A-Za-z0-9._~:@+,;=-]+$`)

// fill puts values into a path. A value is escaped, so that it stays one segment; through a sidecar only values that need
// no escape are taken.
func fill(path string, values map[string]any, sidecar bool) (string, error) {
	var wrong error
	filled := placeholder.ReplaceAllStringFunc(path, func(m string) string {
		name := m[1 : len(m)-1]
		value := text(values[name])
		switch {
		case value == "" || value == "." || value == "..":
			wrong = &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("params.%s is %q, which cannot be part of the path %s", name, value, path)}
		case sidecar && !plainSegment.MatchString(value):
			wrong = &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("params.%s is %q, which a Dapr sidecar does not pass on unchanged as part of the path %s", name, value, path),
				Hint: "use letters, digits and - . _ ~ : @ + , ; = only, give the service a base URL under services.apps, or let it take the value in the body"}
		}
		if sidecar {
			return value
		}
		return url.PathEscape(value)
	})
	return filled, wrong
}

// send makes one call and reads its answer; values fill the path.
func (h *handler) send(ctx context.Context, call *action.Call, method, path string, values, params map[string]any) (map[string]any, error) {
	at, err := h.caller.locate(h.endpoint.App)
	if err != nil {
		return nil, err
	}
	filled, err := fill(path, values, at.sidecar())
	if err != nil {
		return nil, action.Fail(err)
	}
	u, err := at.at(filled)
	if err != nil {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the path " + path + " is not valid", Err: err})
	}
	req := &outbound.Request{Method: method, Gate: at.gate, Header: http.Header{
		"X-Execution-Id": {call.Execution}, "X-Step-Id": {call.StepKey}, "Idempotency-Key": {call.IdempotencyKey()}, "Accept": {"application/json"}},
		Timeouts: outbound.Timeouts{Connect: 10 * time.Second, Total: h.endpoint.Timeout}}
	if trace := call.Traceparent(); trace != "" {
		req.Header.Set("Traceparent", trace)
	}
	if at.sidecar() && h.caller.o.DaprToken != "" {
		req.Header.Set("Dapr-Api-Token", h.caller.o.DaprToken)
	}
	if params != nil {
		if err := give(req, u, params); err != nil {
			return nil, action.Fail(err)
		}
	}
	req.URL = u.String()
	out, err := h.exchange(ctx, req)
	if f, ok := errors.AsType[*outbound.Failure](err); ok {
		return nil, outbound.Steer(ctx, call, at.named(f, h.endpoint.App), outbound.Policy{})
	}
	return out, err
}

// give sends parameters: in the query of a GET, as a JSON body otherwise.
func give(req *outbound.Request, u *url.URL, params any) error {
	if values, ok := params.(map[string]any); ok && req.Method == http.MethodGet {
		q := u.Query()
		for name, v := range values {
			q.Set(name, text(v))
		}
		u.RawQuery = q.Encode()
		return nil
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "params", Err: err}
	}
	req.Body = outbound.Text(string(raw), "application/json")
	return nil
}

// exchange sends a request and gives the answer as an object.
func (h *handler) exchange(ctx context.Context, req *outbound.Request) (map[string]any, error) {
	resp, err := h.caller.client.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.Status < 200 || resp.Status > 299 {
		if req.Gate != "" {
			return nil, sidecarFailure(resp, body)
		}
		return nil, resp.StatusFailure(body)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, &outbound.Failure{Kind: outbound.KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed,
			Message: fmt.Sprintf("the service %s did not answer with JSON: %s", h.endpoint.App, resp.Excerpt(body))}}
	}
	return object(v), nil
}

// object makes outputs of an answer: anything but an object becomes the member result.
func object(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case nil:
		return map[string]any{}
	}
	return map[string]any{"result": v}
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}
