package httpcall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
)

// httpHandler is util.http.
type httpHandler struct{ client *outbound.Client }

// Validate implements action.Validator. The step's timeout is not known to it: that timeouts.total is
// less is checked when the step runs.
func (h *httpHandler) Validate(values map[string]any) []error {
	_, problems := parse(values)
	return problems
}

// Run implements action.Handler.
func (h *httpHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	p, problems := parse(call.Params)
	if err := join(problems); err != nil {
		return nil, err
	}
	if err := p.fitTotal(call.Deadline); err != nil {
		return nil, err
	}
	switch {
	case p.Poll != nil:
		return h.runJob(ctx, call, p)
	case p.Callback != nil:
		return h.runCallback(ctx, call, p)
	}
	a, err := p.exchange(ctx, call, h.client, call.IdempotencyKey())
	if err != nil {
		return nil, err
	}
	out, err := a.outputs(call.Host, p)
	if err != nil {
		return nil, steer(ctx, call, err, p.policy)
	}
	return out, nil
}

// exchange sends the request of the step under an idempotency key and reads the answer.
func (p *params) exchange(ctx context.Context, call *action.Call, client *outbound.Client, key string) (*answer, error) {
	req, err := p.request(call, key)
	if err != nil {
		return nil, action.Fail(err)
	}
	a, err := send(ctx, call, client, req, p.reading(call))
	if err != nil {
		return nil, steer(ctx, call, err, p.policy)
	}
	return a, nil
}

// steer ends the attempt: a Failure as the policy says, anything else as it is.
func steer(ctx context.Context, call *action.Call, err error, policy outbound.Policy) error {
	if f, ok := errors.AsType[*outbound.Failure](err); ok && ctx.Err() == nil {
		return outbound.Steer(ctx, call, f, policy)
	}
	return err
}

// fitTotal makes the exchange end before the step's timeout: a blocked connection must not end the attempt
// (stac-and-media §7).
func (p *params) fitTotal(deadline time.Time) error {
	if deadline.IsZero() {
		return nil
	}
	left := time.Until(deadline)
	if p.timeouts.Total == 0 {
		p.timeouts.Total = left * 95 / 100
		return nil
	}
	if p.timeouts.Total >= left {
		return action.Invalid("raise the step's timeout_seconds, or lower timeouts.total",
			"timeouts.total is %s, which is not less than the step's timeout of about %s", p.timeouts.Total, left.Round(time.Second/10))
	}
	return nil
}

// request makes the request.
func (p *params) request(call *action.Call, key string) (*outbound.Request, error) {
	body, err := p.body(call)
	if err != nil {
		return nil, err
	}
	target, err := withQuery(p.URL, p.query)
	if err != nil {
		return nil, err
	}
	method := p.Method
	if method == "" {
		if method = http.MethodGet; body.Open != nil {
			method = http.MethodPost
		}
	}
	header := p.header.Clone()
	if header.Get("Accept") == "" {
		header.Set("Accept", accepts[p.Response])
	}
	addTrace(header, call.Traceparent())
	addKey(header, method, p.IdempotencyKey, key)
	req := &outbound.Request{Method: method, URL: target, Header: header, Body: body, Timeouts: p.timeouts, MaxBytes: maxFile}
	req.MaxBytes = max(req.MaxBytes, p.MaxBytes)
	if req.Redirects = 5; p.Redirects != nil {
		req.Redirects = *p.Redirects
	}
	return req, nil
}

var accepts = map[string]string{"json": "application/json", "events": "text/event-stream", "lines": "application/x-ndjson, application/jsonl",
	"text": "text/*, */*;q=0.5", "file": "*/*", "none": "*/*", "auto": "application/json, */*;q=0.5", "": "*/*"}

// addTrace sets the header traceparent to the attempt's trace context, unless the step sets it.
func addTrace(header http.Header, traceparent string) {
	if traceparent != "" && header.Get("Traceparent") == "" {
		header.Set("Traceparent", traceparent)
	}
}

// addKey sets the header Idempotency-Key, by which a server recognises another attempt of the same request.
func addKey(header http.Header, method string, wish any, key string) {
	switch w := wish.(type) {
	case bool:
		if !w {
			return
		}
	case string:
		key = w
	default:
		if method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions {
			return
		}
	}
	if header.Get("Idempotency-Key") == "" {
		header.Set("Idempotency-Key", outbound.HeaderKey(key))
	}
}

// withQuery adds parameters to a URL.
func withQuery(text string, query url.Values) (string, error) {
	if len(query) == 0 {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil { // whose text would show the URL
		return "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "url is not valid", Hint: "write it like https://host/path"}
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += query.Encode()
	return u.String(), nil
}

// body makes the one body that is given.
func (p *params) body(call *action.Call) (outbound.Body, error) {
	switch {
	case p.hasJSON:
		raw, err := expr.Marshal(p.JSON)
		return outbound.Text(string(raw), "application/json"), err
	case p.Form != nil:
		values, err := valuesOf("form", p.Form)
		return outbound.Form(values), err
	case p.Text != nil:
		return outbound.Text(*p.Text, or(p.ContentType, "text/plain; charset=utf-8")), nil
	case p.File != "":
		if err := call.May(resolve(call, p.File)); err != nil {
			return outbound.Body{}, err
		}
		return outbound.File(resolve(call, p.File), or(p.ContentType, "application/octet-stream"))
	case p.Multipart != nil:
		parts := make([]outbound.Part, len(p.Multipart))
		for i, from := range p.Multipart {
			parts[i] = outbound.Part{Name: from.Name, Filename: from.Filename, ContentType: from.ContentType}
			switch v := from.Value.(type) {
			case nil:
			case string:
				parts[i].Value = v
			default:
				raw, err := expr.Marshal(v)
				if err != nil {
					return outbound.Body{}, fmt.Errorf("multipart part %s: %w", from.Name, err)
				}
				parts[i].Value = string(raw)
			}
			if from.File != "" {
				parts[i].File = resolve(call, from.File)
				if err := call.May(parts[i].File); err != nil {
					return outbound.Body{}, err
				}
			}
		}
		return outbound.Multipart(parts, call.IdempotencyKey())
	}
	return outbound.Body{}, nil
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

func resolve(call *action.Call, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(call.Dir, path)
}

// send makes one exchange, reads the response, judges it and logs its figures. The error is a *Failure,
// the cause of ctx, or that of a file that could not be written.
func send(ctx context.Context, call *action.Call, client *outbound.Client, req *outbound.Request, how reading) (*answer, error) {
	for _, path := range []string{how.path, how.spill} {
		if path == "" {
			continue
		}
		if err := call.May(path); err != nil {
			return nil, err
		}
	}
	resp, err := client.Do(ctx, req)
	if err != nil {
		call.Host.Log(slog.LevelWarn, req.Method+" failed: "+err.Error(), slog.Int("attempt", call.Attempt))
		return nil, err
	}
	defer resp.Close()
	a := &answer{status: resp.Status, header: resp.Header, url: resp.URL, redact: resp.Redactor}
	err = a.read(call, resp, req.Method, how)
	if cerr := resp.Close(); err == nil && cerr != nil {
		err = cerr
	}
	a.measure(call, resp.Metrics(), how.prices)
	resp.Spend(a.tokens)
	level, message := slog.LevelInfo, fmt.Sprintf("%s %s: %d", req.Method, a.redact.URL(a.url), a.status)
	if err != nil {
		level = slog.LevelWarn
		message += ", " + err.Error()
	} else if how.quiet {
		level = slog.LevelDebug
	}
	call.Host.Log(level, message, a.attrs()...)
	return a, err
}

// outputs are the step's outputs.
func (a *answer) outputs(host action.Host, p *params) (map[string]any, error) {
	out := map[string]any{"status": a.status, "headers": a.redact.Header(a.header), "metrics": a.metrics}
	if a.file != nil {
		out["file"] = a.file
	}
	include := len(p.outputs) == 0
	if p.IncludeBody != nil {
		include = *p.IncludeBody
	}
	if include && a.file == nil {
		out["body"] = a.redact.Value(a.body)
	}
	return out, a.extract(host, p.outputs, out)
}

func resultFailure(kind outbound.Kind, message string) *outbound.Failure {
	return &outbound.Failure{Kind: kind, Err: &stepwell.Error{Code: stepwell.CodeFailed, Message: strings.TrimSpace(message)}}
}
