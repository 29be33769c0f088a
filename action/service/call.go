package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
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

// work is asynchronous work under way: what a waiting step knows.
type work struct {
	ID       string    `json:"workflow_id"`
	Deadline time.Time `json:"deadline"`
}

// Run calls the service, or asks for the work that an earlier call has submitted.
func (h *handler) Run(ctx context.Context, call *action.Call) (any, error) {
	if !h.endpoint.Async {
		return h.submit(ctx, call)
	}
	if call.State != nil {
		var w work
		if err := json.Unmarshal(call.State, &w); err != nil {
			return nil, action.Fail(fmt.Errorf("state of the wait: %w", err))
		}
		return h.ask(ctx, call, &w)
	}
	w, err := action.Once(ctx, call, fmt.Sprintf("%s.%d", submitted, call.Attempt), func(ctx context.Context) (*work, error) {
		return h.submitWork(ctx, call)
	})
	if err != nil {
		return nil, err
	}
	return nil, action.Poll(h.caller.o.Now().Add(min(h.endpoint.Poll, time.Second)), w.ID, w)
}

func (h *handler) submit(ctx context.Context, call *action.Call) (map[string]any, error) {
	path, err := fill(h.endpoint.Path, call.Params)
	if err != nil {
		return nil, action.Fail(err)
	}
	return h.send(ctx, call, h.endpoint.Method, path, call.Params)
}

func (h *handler) submitWork(ctx context.Context, call *action.Call) (*work, error) {
	out, err := h.submit(ctx, call)
	if err != nil {
		return nil, err
	}
	id, ok := out["workflow_id"].(string)
	if !ok || id == "" || len(id) > 512 {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("%s answered without a workflow_id", h.endpoint.App),
			Hint: "an action whose service answers at once must not be async"})
	}
	call.Log("submitted", slog.String("workflow_id", id))
	return &work{ID: id, Deadline: h.caller.o.Now().Add(h.endpoint.MaxWait)}, nil
}

// ask looks at the work's status once, and waits on if it has not ended. A question that fails is asked
// again at the next turn, as long as there is time: the work goes on whatever happens to the question.
func (h *handler) ask(ctx context.Context, call *action.Call, w *work) (any, error) {
	path, err := fill(h.endpoint.StatusPath, map[string]any{"workflow_id": w.ID})
	if err != nil {
		return nil, action.Fail(err)
	}
	out, err := h.send(ctx, call, http.MethodGet, path, nil)
	again := h.caller.o.Now().Add(h.endpoint.Poll)
	late := again.After(w.Deadline)
	if err != nil {
		if ctx.Err() != nil || action.IsFail(err) || late {
			return nil, err
		}
		if r, ok := errors.AsType[*action.RetryError](err); ok {
			again = h.caller.o.Now().Add(max(r.After, h.endpoint.Poll))
		}
		call.Host.Log(slog.LevelWarn, "the status could not be read, asking again: "+err.Error())
		return nil, action.Poll(again, w.ID, w)
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
	return nil, action.Poll(again, w.ID, w)
}

// fill puts parameters into a path. A value is escaped, so that it stays one segment.
func fill(path string, params map[string]any) (string, error) {
	var missing error
	filled := placeholder.ReplaceAllStringFunc(path, func(m string) string {
		name := m[1 : len(m)-1]
		value := text(params[name])
		if value == "" || value == "." || value == ".." {
			missing = &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("params.%s is %q, which cannot be part of the path %s", name, value, path)}
		}
		return url.PathEscape(value)
	})
	return filled, missing
}

// send makes one call and reads its answer.
func (h *handler) send(ctx context.Context, call *action.Call, method, path string, params map[string]any) (map[string]any, error) {
	u, err := h.caller.locate(h.endpoint.App, path)
	if err != nil {
		return nil, err
	}
	req := &outbound.Request{Method: method, Header: http.Header{
		"X-Execution-Id": {call.Execution}, "X-Step-Id": {call.StepKey}, "Idempotency-Key": {call.IdempotencyKey()}, "Accept": {"application/json"}},
		Timeouts: outbound.Timeouts{Connect: 10 * time.Second, Total: h.endpoint.Timeout}}
	if h.caller.o.DaprToken != "" && h.caller.bases[h.endpoint.App] == nil {
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
		return nil, outbound.Steer(ctx, call, f, outbound.Policy{})
	}
	return out, err
}

// give sends parameters: in the query of a GET, as a JSON body otherwise.
func give(req *outbound.Request, u *url.URL, params map[string]any) error {
	if req.Method == http.MethodGet {
		q := u.Query()
		for name, v := range params {
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
