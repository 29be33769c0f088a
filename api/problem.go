package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
)

// CodePrecondition is the one code that only HTTP knows: If-Match named another revision.
const CodePrecondition stepwell.Code = "precondition"

// statuses is the one table from codes to HTTP statuses. Codes that are missing are 500, and their text is not shown.
var statuses = map[stepwell.Code]int{
	stepwell.CodeInvalid:         http.StatusBadRequest,
	stepwell.CodeUnauthenticated: http.StatusUnauthorized,
	stepwell.CodeForbidden:       http.StatusForbidden,
	stepwell.CodeDenied:          http.StatusForbidden,
	stepwell.CodeNotFound:        http.StatusNotFound,
	stepwell.CodeConflict:        http.StatusConflict,
	CodePrecondition:             http.StatusPreconditionFailed,
	stepwell.CodeLimit:           http.StatusTooManyRequests,
	stepwell.CodeFailed:          http.StatusUnprocessableEntity,
	stepwell.CodeUnavailable:     http.StatusServiceUnavailable,
	stepwell.CodeCancelled:       http.StatusServiceUnavailable,
	stepwell.CodeTimeout:         http.StatusGatewayTimeout,
}

// Limits of an error's answer, independent of the request.
const (
	maxDetails    = 50
	maxDetailText = 500
)

// Problem is the body of every answer that is not a success.
type Problem struct {
	Code    stepwell.Code `json:"code" doc:"What kind of error it is." example:"invalid"`
	Message string        `json:"message" doc:"What happened, for people."`
	Hint    string        `json:"hint" doc:"What to do about it; may be empty."`
	Details []Detail      `json:"details" nullable:"false" doc:"All that is wrong, when there are several things."`

	status     int
	retryAfter string
}

// Error makes a Problem an error.
func (p *Problem) Error() string { return p.Message }

// GetStatus is the HTTP status, for huma.
func (p *Problem) GetStatus() int { return p.status }

// GetHeaders are the headers that go with it, for huma.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter != "" {
		h.Set("Retry-After", p.retryAfter)
	}
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="stepwell"`)
	}
	return h
}

func notFound(format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf(format, args...)}
}

// problemOf returns the answer to an error. The text of an error without a code is not shown: it is logged under the id
// in the answer.
func problemOf(ctx context.Context, log *slog.Logger, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if m, ok := errors.AsType[*huma.ErrorModel](err); ok {
		return mismatch(m)
	}
	code := stepwell.CodeOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = stepwell.CodeTimeout
	case errors.Is(err, context.Canceled) && code == stepwell.CodeInternal:
		code = stepwell.CodeCancelled
	}
	status, known := statuses[code]
	local := callOf(ctx).local
	if !known && local {
		status, known = http.StatusInternalServerError, true
	}
	if !known {
		id := requestID(ctx)
		log.Error("a request failed", "request", id, "error", err)
		return &Problem{Code: stepwell.CodeInternal, Message: "an internal error", Hint: "the server's log has more under request " + id, Details: []Detail{}, status: http.StatusInternalServerError}
	}
	if own, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err); ok {
		status = own.HTTPStatus()
	}
	p := &Problem{Code: code, Message: shown(err, code, local), Hint: stepwell.HintOf(err), Details: []Detail{}, status: status}
	switch {
	case local:
	case code == stepwell.CodeUnavailable || code == stepwell.CodeTimeout:
		log.Warn("a request could not be served", "request", requestID(ctx), "error", err)
		p.retryAfter = "1"
	case code == stepwell.CodeLimit:
		p.retryAfter = "1"
	}
	if problems, ok := errors.AsType[definition.Problems](err); ok {
		p.Message, p.Details = summary(problems), pipeline.Details(problems)
	}
	return p.bounded()
}

// shown is the shown text of an error with a known code. Causes of unavailability and timeouts are only logged.
func shown(err error, code stepwell.Code, local bool) string {
	e, ok := errors.AsType[*stepwell.Error](err)
	switch {
	case local:
	case !ok && code == stepwell.CodeTimeout:
		return "the request took too long"
	case !ok:
		return "the request was cancelled"
	case code == stepwell.CodeUnavailable || code == stepwell.CodeTimeout || code == stepwell.CodeCancelled:
		return e.Message
	}
	return err.Error()
}

func summary(problems definition.Problems) string {
	wrong := 0
	first := ""
	for _, p := range problems {
		if !p.Warning {
			if wrong++; first == "" {
				first = p.Message
			}
		}
	}
	if wrong == 1 {
		return first
	}
	return fmt.Sprintf("%d things are wrong: the first is: %s", wrong, first)
}

// bounded truncates parts that a request may have inflated.
func (p *Problem) bounded() *Problem {
	p.Message, p.Hint = stepwell.Clip(p.Message, 4*maxDetailText), stepwell.Clip(p.Hint, maxDetailText)
	if more := len(p.Details) - maxDetails; more > 0 {
		p.Details = append(p.Details[:maxDetails:maxDetails], Detail{Message: fmt.Sprintf("and %d more", more)})
	}
	for i := range p.Details {
		d := &p.Details[i]
		d.Path, d.Message, d.Hint = stepwell.Clip(d.Path, 200), stepwell.Clip(d.Message, maxDetailText), stepwell.Clip(d.Hint, maxDetailText)
	}
	return p
}

// rewritten turns huma's own errors into Problems. It is the API's only transformer, and everything that is
// answered passes through it.
func (s *server) rewritten(_ huma.Context, _ string, v any) (any, error) {
	if p, ok := v.(*Problem); ok {
		return s.hidden(p), nil
	}
	if m, ok := v.(*huma.ErrorModel); ok {
		return s.hidden(mismatch(m)), nil
	}
	return v, nil
}

// mismatch is the answer to a request that is not as the description says.
func mismatch(m *huma.ErrorModel) *Problem {
	p := &Problem{Code: codeOfStatus(m.Status), Message: m.Detail, Details: []Detail{}, status: m.Status}
	for _, e := range m.Errors {
		if e != nil {
			d := Detail{Path: e.Location, Message: e.Message}
			if strings.HasPrefix(d.Message, "invalid date/time for format") || d.Message == validation.MsgExpectedRFC3339DateTime {
				d.Message, d.Hint = "not a time", "write it like 2026-01-31T09:00:00Z"
			}
			if strings.HasPrefix(d.Message, huma.ErrUnknownContentType.Error()) {
				d.Hint = "send JSON, with Content-Type: application/json"
			}
			p.Details = append(p.Details, d)
		}
	}
	if m.Detail == "validation failed" {
		p.Message = "the request is not as the description says"
		p.Hint = "see details, and /docs"
		if len(p.Details) == 1 {
			p.Message = strings.TrimPrefix(p.Details[0].Path+": ", ": ") + p.Details[0].Message
			p.Hint = cmp.Or(p.Details[0].Hint, p.Hint)
		}
	}
	return p.bounded()
}

// codeOfStatus is for the statuses that huma and net/http choose by themselves.
func codeOfStatus(status int) stepwell.Code {
	switch status {
	case http.StatusNotFound:
		return stepwell.CodeNotFound
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge, http.StatusTooManyRequests:
		return stepwell.CodeLimit
	case http.StatusRequestTimeout:
		return stepwell.CodeTimeout
	}
	if status >= 500 {
		return stepwell.CodeInternal
	}
	return stepwell.CodeInvalid
}
