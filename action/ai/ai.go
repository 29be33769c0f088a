// Package ai has the actions that ask language models and have speech written down: ai.chat and ai.transcribe, for
// services with OpenAI's API, in the cloud or of one's own.
//
// How a request leaves the process, its limits, its retries and what is hidden of it are those of util.http (packages
// httpcall and outbound). This package makes the request, reads the answer, and holds it against a JSON Schema: an
// answer that does not fit fails the attempt, and the next one quotes it and says what is wrong. What the actions read
// and return is stated in their Specs. Names, parameters and outputs are stable.
package ai

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/httpcall"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
)

// Register adds the actions, which use the client. It is shared by the process, and the caller closes it.
func Register(r *action.Registry, c *outbound.Client) error { return r.Add(chat(c), transcribe(c)) }

// service is how a model is reached.
type service struct {
	URL     string         `json:"url" required:"true" minLength:"1" doc:"Base URL of the service, such as https://api.openai.com/v1; a query stays behind the paths that are added."`
	Key     string         `json:"key" writeOnly:"true" doc:"API key, best a secret: it is sent as a bearer token and never shown. None by default."`
	Headers map[string]any `json:"headers" writeOnly:"true" doc:"More headers."`
	Model   string         `json:"model" required:"true" minLength:"1" doc:"Name of the model."`
	Timeout time.Duration  `json:"timeout" minimum:"0.001" doc:"Limit of the whole exchange; 95 % of the step's timeout by default, and never more."`
	Extra   map[string]any `json:"extra" doc:"Further members of the request, as the service defines them; null leaves one out that would be sent."`
}

// usage is the work that one attempt has been charged for.
type usage struct {
	Input   int64   `json:"input_tokens" doc:"Tokens of the question."`
	Output  int64   `json:"output_tokens" doc:"Tokens of the answer."`
	Cached  int64   `json:"cached_tokens,omitempty" doc:"Those of input_tokens that the service had in its cache."`
	Seconds float64 `json:"seconds,omitempty" doc:"Seconds of sound."`
}

var policy = &stepwell.Retry{MaxAttempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, Jitter: 0.5}

// post sends a request to a path of the service. Body has the parameters of util.http beyond those that s gives.
func (s *service) post(ctx context.Context, call *action.Call, client *outbound.Client, path string, body map[string]any) (*httpcall.Answer, error) {
	u, err := url.Parse(s.URL)
	if err != nil { // whose text may hold credentials
		return nil, action.Invalid("write it like https://host/v1", "url is not valid")
	}
	values := map[string]any{"url": u.JoinPath(path).String()}
	headers := maps.Clone(s.Headers)
	if headers == nil {
		headers = map[string]any{}
	}
	if s.Key != "" {
		headers["Authorization"] = "Bearer " + s.Key
	}
	values["headers"] = headers
	if s.Timeout > 0 && (call.Deadline.IsZero() || s.Timeout < time.Until(call.Deadline)*95/100) {
		values["timeouts"] = map[string]any{"total": s.Timeout.Seconds()}
	}
	maps.Copy(values, body)
	return httpcall.Post(ctx, call, client, values)
}

// addExtra sets more members of a request; null takes one out.
func (s *service) addExtra(members map[string]any) {
	for name, v := range s.Extra {
		if v == nil {
			delete(members, name)
		} else {
			members[name] = v
		}
	}
}

// unusable fails the attempt because of what the service has answered; another attempt may be answered better.
func unusable(ctx context.Context, call *action.Call, kind outbound.Kind, used usage, format string, args ...any) error {
	f := &outbound.Failure{Kind: kind, Err: stepwell.Errorf(stepwell.CodeFailed, "", format, args...)}
	call.Host.Log(slog.LevelWarn, f.Error(), slog.Int("attempt", call.Attempt))
	return action.Used(used, outbound.Steer(ctx, call, f, outbound.Policy{}))
}

// textOf is a value of a parameter as a text: one as it is, anything else as JSON.
func textOf(v any) (string, error) {
	if text, ok := v.(string); ok {
		return text, nil
	}
	raw, err := expr.Marshal(v)
	return string(raw), err
}

func textAt(v any, name string) string {
	m, _ := v.(map[string]any)
	text, _ := m[name].(string)
	return text
}
