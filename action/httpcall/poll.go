package httpcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// pollParams is the parameter poll.
type pollParams struct {
	Job         string         `json:"job" spec:"bare" doc:"Expression over the first response that gives what identifies the job, such as ´body.id´."`
	URL         string         `json:"url" doc:"Where to ask, a template with {{ job }}; by default the Location or Operation-Location of the first response."`
	Method      string         `json:"method" doc:"GET by default."`
	Headers     map[string]any `json:"headers" doc:"Headers, templates with {{ job }}; by default those of the first request, at the same origin."`
	Until       any            `json:"until" required:"true" spec:"bare" doc:"Condition on the response that ends the wait, such as ´body.status == 'done'´."`
	FailIf      any            `json:"fail_if" spec:"bare" doc:"Condition on the response that says that the job failed; another attempt submits a new one."`
	Interval    any            `json:"interval" default:"5s" minimum:"0.001" spec:"duration" doc:"Pause before the first poll."`
	Backoff     float64        `json:"backoff" default:"1.5" minimum:"1" maximum:"10" doc:"Factor from one pause to the next."`
	MaxInterval any            `json:"max_interval" default:"1m" minimum:"0.001" spec:"duration" doc:"Longest pause."`
	Deadline    any            `json:"deadline" default:"24h" minimum:"0.001" maximum:"31536000" spec:"duration" doc:"For how long to ask."`
	MaxErrors   *int           `json:"max_errors" default:"10" minimum:"0" maximum:"1000" doc:"Polls in a row that may fail before the attempt does."`

	interval, longest, deadline time.Duration
	errors                      int
}

// read completes the parameters; an outer template may have left some of them out.
func (p *pollParams) read(of *params) error {
	for _, d := range []struct {
		name     string
		from     any
		into     *time.Duration
		fallback time.Duration
	}{{"interval", p.Interval, &p.interval, 5 * time.Second}, {"max_interval", p.MaxInterval, &p.longest, time.Minute}, {"deadline", p.Deadline, &p.deadline, 24 * time.Hour}} {
		*d.into = d.fallback
		if d.from == nil {
			continue
		}
		var err error
		if *d.into, err = spec.ParseDuration(d.from); err != nil || *d.into <= 0 {
			return action.Invalid("write a number of seconds or a text such as 30s", "poll.%s is not a duration", d.name)
		}
	}
	p.longest = max(p.longest, p.interval)
	if p.Backoff < 1 {
		p.Backoff = 1.5
	}
	if p.errors = 10; p.MaxErrors != nil {
		p.errors = *p.MaxErrors
	}
	if p.Until == nil {
		return action.Invalid("write a condition such as body.status == 'done'", "poll.until is missing")
	}
	if of.Response == "events" || of.Response == "lines" {
		return action.Invalid("use json", "poll cannot read response %s", of.Response)
	}
	if p.Job != "" {
		if err := checkExpression("poll.job", p.Job); err != nil {
			return err
		}
	}
	return errors.Join(checkCondition("poll.until", p.Until), checkCondition("poll.fail_if", p.FailIf))
}

// job is the record of a submission: enough to poll it, and no secret of the request.
type job struct {
	ID        any       `json:"job"`
	Location  string    `json:"location,omitempty"`
	Submitted time.Time `json:"submitted"`
}

// pollState is the state between two polls.
type pollState struct {
	Polls  int `json:"polls"`
	Errors int `json:"errors,omitempty"`
}

// maxJobs bounds the submissions of one step.
const maxJobs = 1000

func jobKey(n int) string { return fmt.Sprintf("http.job.%d", n) }

// current finds the step's job. Without one, n is the number of the submission to make: the first value
// of a record stays, so each job has a record, and another when it has failed.
func current(ctx context.Context, call *action.Call) (found *job, n int, err error) {
	for n = 1; n <= maxJobs; n++ {
		raw, ok, err := call.Host.Recall(ctx, jobKey(n))
		if err != nil || !ok {
			return nil, n, err
		}
		_, failed, err := call.Host.Recall(ctx, jobKey(n)+".failed")
		if err != nil {
			return nil, n, err
		}
		if failed {
			continue
		}
		v, err := expr.Decode(raw)
		if err != nil {
			return nil, n, fmt.Errorf("record of the job: %w", err)
		}
		j := &job{}
		if err := json.Unmarshal(raw, j); err != nil {
			return nil, n, fmt.Errorf("record of the job: %w", err)
		}
		if members, ok := v.(map[string]any); ok {
			j.ID = members["job"] // with every digit
		}
		return j, n, nil
	}
	return nil, n, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d jobs of this step have failed", maxJobs)}
}

// runJob submits the job if there is none, and asks about it otherwise.
func (h *httpHandler) runJob(ctx context.Context, call *action.Call, p *params) (any, error) {
	j, n, err := current(ctx, call)
	if err != nil {
		return nil, err
	}
	if j == nil {
		return nil, h.submit(ctx, call, p, n)
	}
	var state pollState
	if call.State != nil {
		if err := json.Unmarshal(call.State, &state); err != nil {
			return nil, fmt.Errorf("state of the poll: %w", err)
		}
	}
	return h.ask(ctx, call, p, j, n, state)
}

// submit sends the request and records the job before anything else can happen.
func (h *httpHandler) submit(ctx context.Context, call *action.Call, p *params, n int) error {
	key := call.IdempotencyKey()
	if n > 1 {
		key = fmt.Sprintf("%s#%d", key, n)
	}
	a, err := p.exchange(ctx, call, h.client, key)
	if err != nil {
		return err
	}
	j := job{Submitted: time.Now().UTC()}
	if j.Location = a.header.Get("Operation-Location"); j.Location == "" {
		j.Location = a.header.Get("Location")
	}
	if j.Location != "" {
		u, err := a.url.Parse(j.Location)
		if err != nil {
			return action.Fail(resultFailure(outbound.KindContent, "the Location of the job is not valid"))
		}
		u.User = nil // a relative one has that of the request
		j.Location = u.String()
	}
	if p.Poll.Job != "" {
		if j.ID, err = action.Evaluate(call.Host, p.Poll.Job, a.scope()); err != nil {
			return action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: "poll.job: " + a.redact.Text(err.Error()),
				Hint: "the job was submitted, but its response does not say what identifies it"})
		}
	}
	if p.Poll.URL == "" && j.Location == "" {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the response says nowhere where to ask about the job", Hint: "give poll.url"})
	}
	raw, err := expr.Marshal(map[string]any{"job": j.ID, "location": j.Location, "submitted": j.Submitted.Format(time.RFC3339Nano)})
	if err != nil {
		return action.Fail(fmt.Errorf("record of the job: %w", err))
	}
	if err := call.Host.Record(ctx, jobKey(n), raw); err != nil {
		return fmt.Errorf("record of the job: %w", err)
	}
	after, _ := outbound.RetryAfter(a.header, time.Now())
	return p.Poll.again(&j, pollState{}, after, a.redact)
}

// again asks for the next question.
func (p *pollParams) again(j *job, state pollState, atLeast time.Duration, redact *outbound.Redactor) error {
	pause := p.interval
	for range min(state.Polls, 100) {
		pause = min(time.Duration(float64(pause)*p.Backoff), p.longest)
	}
	pause = max(pause, min(atLeast, time.Hour))
	next := time.Now().Add(pause)
	if end := j.Submitted.Add(p.deadline); next.After(end) {
		next = end
	}
	name := ""
	if j.ID != nil {
		if text, ok := j.ID.(string); ok {
			name = text
		} else if raw, err := expr.Marshal(j.ID); err == nil {
			name = string(raw)
		}
	}
	if redact != nil {
		name = redact.Text(name)
	}
	return action.Poll(next, name[:min(len(name), 200)], state)
}

// ask asks once about the job.
func (h *httpHandler) ask(ctx context.Context, call *action.Call, p *params, j *job, n int, state pollState) (any, error) {
	late := time.Since(j.Submitted) >= p.Poll.deadline
	req, err := p.pollRequest(call, j)
	if err != nil {
		return nil, err
	}
	how := p.reading(call)
	how.success, how.quiet = nil, true
	a, err := send(ctx, call, h.client, req, how)
	if err != nil {
		return nil, p.pollFailed(ctx, call, j, state, late, err)
	}
	failed, done, err := p.Poll.judge(call.Host, a, j)
	switch {
	case err != nil:
		return nil, err
	case failed:
		return nil, h.jobFailed(ctx, call, p, a, n)
	case !done && late:
		return nil, deadlinePassed(p.Poll.deadline)
	case !done:
		after, _ := outbound.RetryAfter(a.header, time.Now())
		return nil, p.Poll.again(j, pollState{Polls: state.Polls + 1}, after, a.redact)
	}
	out, err := a.outputs(call.Host, p)
	if err != nil {
		return nil, steer(ctx, call, err, p.policy)
	}
	out["job"] = a.redact.Value(j.ID)
	return out, nil
}

// judge asks fail_if and until of an answer.
func (p *pollParams) judge(host action.Host, a *answer, j *job) (failed, done bool, err error) {
	names := a.scope()
	names["job"] = j.ID
	for _, c := range []struct {
		name      string
		condition any
		into      *bool
	}{{"poll.fail_if", p.FailIf, &failed}, {"poll.until", p.Until, &done}} {
		if c.condition == nil {
			continue
		}
		if *c.into, err = action.Holds(host, c.condition, names); err != nil {
			return false, false, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: c.name + ": " + a.redact.Text(err.Error())})
		}
	}
	return failed, done, nil
}

func deadlinePassed(d time.Duration) error {
	return action.Fail(&stepwell.Error{Code: stepwell.CodeTimeout, Message: fmt.Sprintf("the job was not done %s after it was submitted", d), Hint: "raise poll.deadline"})
}

// pollFailed decides after a question that failed: it says nothing about the job, so another follows,
// unless the answer is final or too many have failed.
func (p *params) pollFailed(ctx context.Context, call *action.Call, j *job, state pollState, late bool, err error) error {
	f, ok := errors.AsType[*outbound.Failure](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	switch {
	case p.policy.Judge(f) == outbound.Permanent:
		return action.Fail(f)
	case late:
		return deadlinePassed(p.Poll.deadline)
	case state.Errors >= p.Poll.errors:
		return action.Retry(0, f)
	}
	state.Polls++
	if f.Kind != outbound.KindBusy {
		state.Errors++
	}
	return p.Poll.again(j, state, f.After, nil)
}

// jobFailed records that the job is over, so that another attempt submits a new one.
func (h *httpHandler) jobFailed(ctx context.Context, call *action.Call, p *params, a *answer, n int) error {
	if err := call.Host.Record(ctx, jobKey(n)+".failed", json.RawMessage("true")); err != nil {
		return fmt.Errorf("record of the job: %w", err)
	}
	shown := ""
	if raw, err := expr.Marshal(a.redact.Value(a.body)); err == nil {
		shown = string(raw[:min(len(raw), 500)])
	}
	return steer(ctx, call, resultFailure(outbound.KindResult, "the job failed: "+shown), p.policy)
}

// pollRequest makes the poll. Headers of the submission are sent to the same origin only, without those of its body.
func (p *params) pollRequest(call *action.Call, j *job) (*outbound.Request, error) {
	names := map[string]any{"job": j.ID, "location": j.Location}
	target := j.Location
	if p.Poll.URL != "" {
		v, err := call.Host.Eval(p.Poll.URL, names)
		if err != nil {
			return nil, action.Fail(fmt.Errorf("poll.url: %w", err))
		}
		target = fmt.Sprint(v)
	}
	to, err := url.Parse(target)
	if err != nil {
		return nil, action.Invalid("write it like https://host/jobs/{{ job }}", "poll.url is not valid")
	}
	from, err := url.Parse(p.URL)
	if err != nil {
		return nil, action.Invalid("write it like https://host/path", "url is not valid")
	}
	same := outbound.SameOrigin(from, to)
	header, err := p.pollHeader(call, names, same)
	if err != nil {
		return nil, err
	}
	if p.Poll.URL == "" && same {
		to.User = from.User
		target = to.String()
	}
	redirects := 5
	if p.Redirects != nil {
		redirects = *p.Redirects
	}
	addTrace(header, call.Traceparent())
	return &outbound.Request{Method: or(p.Poll.Method, http.MethodGet), URL: target, Header: header, Timeouts: p.timeouts, Redirects: redirects, MaxBytes: maxFile}, nil
}

// pollHeader makes the headers of a question.
func (p *params) pollHeader(call *action.Call, names map[string]any, same bool) (http.Header, error) {
	header := http.Header{}
	if p.Poll.Headers == nil {
		for name, values := range p.header {
			if name != "Idempotency-Key" && name != "Content-Type" && (same || !outbound.SecretName(name)) {
				header[name] = values
			}
		}
	} else {
		rendered := map[string]any{}
		for name, v := range p.Poll.Headers {
			if text, ok := v.(string); ok && action.Tagged(text) {
				var err error
				if v, err = call.Host.Eval(text, names); err != nil {
					return nil, action.Fail(fmt.Errorf("poll.headers.%s: %w", name, err))
				}
			}
			rendered[name] = v
		}
		var err error
		if header, err = headerOf(rendered); err != nil {
			return nil, err
		}
		for name := range header {
			if p.Poll.URL == "" && !same && outbound.SecretName(name) {
				delete(header, name) // the server chose where it would go
			}
		}
	}
	if header.Get("Accept") == "" {
		header.Set("Accept", accepts[p.Response])
	}
	return header, nil
}
