package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// Client calls the services of a table outside of steps, in the way of the actions: at their base URLs, or through the
// sidecar, behind the same limits and breakers of its own. It is safe for concurrent use.
type Client struct{ caller *caller }

// NewClient makes one. Close it.
func NewClient(o Options) (*Client, error) {
	c, err := newCaller(o)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Close releases its connections.
func (c *Client) Close() { c.caller.client.Close() }

// Request is a call of a service.
type Request struct {
	App    string // of the table; "": the sidecar itself
	Method string // defaults to POST
	Path   string
	Values map[string]any // fill the placeholders of Path
	Body   any            // is sent as JSON; of a GET, an object whose members are the query. Defaults to none
	Header http.Header
	// Timeout is that of the call. Defaults to 10 seconds.
	Timeout time.Duration
	// Quiet keeps the answer out of errors: it may be secret.
	Quiet bool
}

// Located reports why a service cannot be called at all, nil if it can. CodeInvalid.
func (c *Client) Located(app string) error {
	if app == "" {
		_, err := c.sidecar()
		return err
	}
	_, err := c.caller.locate(app)
	return err
}

func (c *Client) sidecar() (place, error) {
	if c.caller.o.DaprPort == 0 {
		return place{}, stepwell.Invalid("set DAPR_HTTP_PORT, or services.dapr_http_port in stepwell.yaml", "there is no Dapr sidecar")
	}
	return place{base: c.caller.sidecar(), gate: "dapr:"}, nil
}

// Call makes a call and returns the answer, which is empty or JSON. The error is a *outbound.Failure when something was sent,
// or could not be sent now; errors that no repetition helps are CodeInvalid.
func (c *Client) Call(ctx context.Context, r Request) (json.RawMessage, error) {
	at, err := c.sidecar()
	if r.App != "" {
		at, err = c.caller.locate(r.App)
	}
	if err != nil {
		return nil, err
	}
	path, err := fill(r.Path, r.Values, at.sidecar())
	if err != nil {
		return nil, err
	}
	u, err := at.at(path)
	if err != nil {
		return nil, stepwell.Invalid("", "the path %s is not valid", r.Path)
	}
	if r.Timeout <= 0 {
		r.Timeout = 10 * time.Second
	}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	req := &outbound.Request{Method: r.Method, Gate: at.gate, Header: http.Header{"Accept": {"application/json"}},
		Timeouts: outbound.Timeouts{Connect: min(5*time.Second, r.Timeout), Total: r.Timeout}}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if at.sidecar() && c.caller.o.DaprToken != "" {
		req.Header.Set("Dapr-Api-Token", c.caller.o.DaprToken)
	}
	if r.Body != nil {
		if err := give(req, u, r.Body); err != nil {
			return nil, err
		}
	}
	req.URL = u.String()
	answer, err := c.exchange(ctx, req, r.Quiet)
	if f, ok := errors.AsType[*outbound.Failure](err); ok {
		return nil, at.named(f, r.App)
	}
	return answer, err
}

func (c *Client) exchange(ctx context.Context, req *outbound.Request, quiet bool) (json.RawMessage, error) {
	resp, err := c.caller.client.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	shown := body
	if quiet {
		shown = nil
	}
	switch {
	case (resp.Status < 200 || resp.Status > 299) && req.Gate != "":
		f := sidecarFailure(resp, body)
		if quiet {
			told := *f.Err
			told.Message = resp.StatusFailure(nil).Err.Message
			if f.Err = &told; secretMissing(body) {
				f.Kind, f.Status = outbound.KindStatus, http.StatusNotFound
			}
		}
		return nil, f
	case resp.Status < 200 || resp.Status > 299:
		return nil, resp.StatusFailure(shown)
	case len(body) > 0 && !json.Valid(body):
		message := "the answer is no JSON"
		if excerpt := resp.Excerpt(shown); excerpt != "" {
			message += ": " + excerpt
		}
		return nil, &outbound.Failure{Kind: outbound.KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed, Message: message}}
	}
	return body, nil
}

// Lasting reports whether a repetition of a failed call does not help: the service has refused it, or it cannot be sent.
func Lasting(err error) bool {
	f, ok := errors.AsType[*outbound.Failure](err)
	if !ok {
		return action.IsFail(err) || stepwell.CodeOf(err) == stepwell.CodeInvalid
	}
	switch f.Kind {
	case outbound.KindInvalid, outbound.KindBlocked, outbound.KindContent:
		return true
	case outbound.KindStatus:
		return f.Status >= 400 && f.Status < 500 && f.Status != http.StatusRequestTimeout && f.Status != http.StatusTooManyRequests && f.Status != http.StatusTooEarly
	}
	return false
}

// SecretSource says where secrets are: of one Service and Dapr, exactly one.
type SecretSource struct {
	Service string `json:"service"` // of the table
	Path    string `json:"path"`    // of the service; {name} is the secret's. Defaults to /api/v1/credentials/{name}
	Value   string `json:"value"`   // member of the answer, by its path. Defaults to value
	Dapr    string `json:"dapr"`    // a secret store of the sidecar
	Prefix  string `json:"prefix"`  // put before names. Defaults to none
}

// complete checks a source and fills in its defaults. CodeInvalid.
func (s *SecretSource) complete() error {
	if (s.Service == "") == (s.Dapr == "") {
		return stepwell.Invalid("write {service: budapp} or {dapr: STORE}", "a source of secrets is a service or a secret store of Dapr")
	}
	if s.Dapr != "" && (s.Path != "" || !appID.MatchString(s.Dapr)) {
		return stepwell.Invalid("letters, digits, - _ and .; a path is for services", "%q is not a name of a secret store", s.Dapr)
	}
	if s.Value == "" {
		s.Value = "value"
	}
	if s.Path == "" {
		s.Path = "/api/v1/credentials/{name}"
	}
	if s.Service != "" && (s.Path[0] != '/' || placeholder.FindString(s.Path) != "{name}") {
		return stepwell.Invalid("such as /api/v1/credentials/{name}", "the path %q of the source %s has no {name}, or does not begin with /", s.Path, s.Service)
	}
	return nil
}

// Secrets is a source of secrets (secret.Source).
type Secrets struct {
	client *Client
	of     SecretSource
}

// Secrets makes a source. CodeInvalid, also when nothing says where it is.
func (c *Client) Secrets(s SecretSource) (*Secrets, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	if err := c.Located(s.Service); err != nil {
		return nil, err
	}
	return &Secrets{c, s}, nil
}

// Name is what the settings say.
func (s *Secrets) Name() string {
	if s.of.Dapr != "" {
		return "dapr " + s.of.Dapr
	}
	return s.of.Service
}

// Secret reads a value. CodeNotFound when the source does not have it; CodeUnavailable when that cannot be said now, CodeDenied
// when it refuses to say. Errors never hold values.
func (s *Secrets) Secret(ctx context.Context, name string) (string, error) {
	r := Request{App: s.of.Service, Method: http.MethodGet, Path: s.of.Path, Values: map[string]any{"name": s.of.Prefix + name}, Quiet: true}
	if s.of.Dapr != "" {
		r.Path = "/v1.0/secrets/" + s.of.Dapr + "/" + url.PathEscape(s.of.Prefix+name)
	}
	answer, err := s.client.Call(ctx, r)
	if err != nil {
		return "", s.failure(ctx, name, err)
	}
	value, ok := s.value(answer, s.of.Prefix+name)
	if !ok {
		return "", &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("the source %s has no secret %q", s.Name(), name)}
	}
	return value, nil
}

// value finds the value in the answer: a text, or the text at the path of an object. Dapr answers with the members of the
// secret, of which one has the secret's name, or is alone.
func (s *Secrets) value(answer json.RawMessage, key string) (string, bool) {
	if len(answer) == 0 {
		return "", false
	}
	var v any
	if json.Unmarshal(answer, &v) != nil {
		return "", false
	}
	if text, ok := v.(string); ok {
		return text, true
	}
	members, _ := v.(map[string]any)
	if s.of.Dapr == "" {
		return textAt(members, s.of.Value)
	}
	if text, ok := members[key].(string); ok {
		return text, true
	}
	if len(members) == 1 {
		for _, only := range members {
			text, ok := only.(string)
			return text, ok
		}
	}
	return textAt(members, s.of.Value)
}

func textAt(v any, path string) (string, bool) {
	for name := range strings.SplitSeq(path, ".") {
		members, ok := v.(map[string]any)
		if !ok {
			return "", false
		}
		v = members[name]
	}
	text, ok := v.(string)
	return text, ok
}

// failure says which source failed, and whether a repetition may help.
func (s *Secrets) failure(ctx context.Context, name string, err error) error {
	code, hint := stepwell.CodeUnavailable, stepwell.HintOf(err)
	f, ok := errors.AsType[*outbound.Failure](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ok && (f.Status == http.StatusNotFound || f.Status == http.StatusGone):
		code = stepwell.CodeNotFound
	case Lasting(err):
		code = stepwell.CodeDenied
	}
	return &stepwell.Error{Code: code, Message: fmt.Sprintf("the secret %q cannot be read from the source %s: %s", name, s.Name(), err), Hint: hint}
}
