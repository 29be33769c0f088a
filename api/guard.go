package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api/body"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// guard checks every operation before its parameters are read: authentication and role, rate, size; then it reads the
// body, and only then takes a request slot, so that a stalled upload holds none. Changes are written to the audit log,
// refused ones too.
func (s *server) guard(op *operation) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		if s.local != nil {
			s.serveLocal(op, hc, next)
			return
		}
		r, w := humago.Unwrap(hc)
		ctx := r.Context()
		c := callOf(ctx)
		c.op = op.id
		p, caller, err := s.admit(op, r)
		if err == nil {
			err = s.known(op, r)
		}
		if err != nil {
			if op.is(changes) && p.Role != 0 { // unknown callers could fill the log
				s.record(op, c, r, p, problemOf(ctx, s.o.Log, err).Code)
			}
			s.refuse(w, r, err)
			return
		}
		if !op.is(streams) {
			limit := s.maxBody(op)
			data, done, err := s.bodies.Receive(w, r, limit, caller)
			switch {
			case errors.Is(err, body.ErrLarge):
				err = tooLarge("body", limit, "")
			case errors.Is(err, body.ErrLate):
				err = &Problem{Code: stepwell.CodeTimeout, Message: err.Error(), Hint: "send it in one go", Details: []Detail{}, status: http.StatusRequestTimeout}
			}
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			if done != nil {
				defer done()
				c.body, r.Body = data, io.NopCloser(bytes.NewReader(data))
			}
			patience := s.o.Timeout
			if !op.is(vital) {
				pool := s.slots.of(op, p)
				if op.is(waits) && r.URL.Query().Has("wait_seconds") {
					pool, patience = s.waits.of(op, p), patience+maxWait
				}
				if !pool.acquire(caller) {
					s.refuse(w, r, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "too many requests at once", Hint: "try again in a moment"})
					return
				}
				defer pool.release(caller)
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		out := &outcome{humaContext: huma.WithContext(hc, access.With(ctx, p))}
		next(out)
		if op.is(changes) || c.actor != "" {
			s.record(op, c, r, p, out.code(c))
		}
	}
}

// slots bounds concurrent requests: staff (operators and above) have slots of their own, so that other requests cannot
// block them.
type slots struct{ shared, staff *slotPool }

func newSlots(most int) slots {
	return slots{shared: newSlotPool(most, (most+1)/2), staff: newSlotPool(most, most)}
}

func (s *slots) of(op *operation, p access.Principal) *slotPool {
	if op.role != public && p.Role.May(access.Operator) {
		return s.staff
	}
	return s.shared
}

// admit authenticates and rate-limits the caller. Failed authentication counts against the caller's address.
func (s *server) admit(op *operation, r *http.Request) (p access.Principal, caller string, err error) {
	if op.is(vital) {
		return p, "", nil
	}
	var refused error
	if op.role != public {
		if p, refused = s.o.Auth.Authenticate(r); refused != nil {
			p = access.Principal{}
		}
	}
	caller = access.Caller(p, s.o.ClientAddr(r))
	if s.o.Limit != nil && (op.role != access.Worker || refused != nil) { // who speaks the protocol counts its calls
		if ok, wait := s.o.Limit.Allow(caller); !ok {
			return p, caller, &Problem{Code: stepwell.CodeLimit, Message: "too many requests", Hint: "wait as long as Retry-After says", Details: []Detail{},
				status: http.StatusTooManyRequests, retryAfter: strconv.Itoa(int(math.Ceil(wait.Seconds())))}
		}
	}
	if refused != nil || op.role == public {
		return p, caller, refused
	}
	return p, caller, p.Need(op.role)
}

// known checks the credential of a public operation, if it has one of its own, before anything is read.
func (s *server) known(op *operation, r *http.Request) error {
	if admit := s.admits[op.id]; admit != nil {
		return admit(r)
	}
	return nil
}

// escaped is how many times as large a document may be as a string of JSON: text that is mostly \u escapes is at the most
// three times as large, and there is more in the body.
const escaped = 4

// delivery is a call of a webhook, with its body when that has come.
func (s *server) delivery(r *http.Request, body []byte) webhook.Delivery {
	return webhook.Delivery{Header: r.Header, Body: body, From: s.o.ClientAddr(r), Elsewhere: s.site.Check(r)}
}

// maxBody is the size of the largest body of an operation.
func (s *server) maxBody(op *operation) int64 {
	if op.is(large) {
		return max(s.o.MaxBody, escaped*int64(s.o.Pipelines.MaxDocument()))
	}
	return cmp.Or(s.most[op.id], s.o.MaxBody)
}

// fits refuses a document that the library would not take.
func (s *server) fits(d Document) error {
	limit := s.o.Pipelines.MaxDocument()
	if len(d) <= limit {
		return nil
	}
	return tooLarge("pipeline", int64(limit), "split it into pipelines that call each other")
}

func tooLarge(what string, limit int64, hint string) error {
	return &Problem{Code: stepwell.CodeLimit, Message: "the " + what + " is larger than " + strconv.FormatInt(limit, 10) + " bytes", Hint: hint, Details: []Detail{},
		status: http.StatusRequestEntityTooLarge}
}

// auditPatience is how long an answer waits for room in the audit log; after that the entry is in the server's log alone.
const auditPatience = 5 * time.Second

// record writes a change down, also when the client has gone meanwhile.
func (s *server) record(op *operation, c *call, r *http.Request, p access.Principal, code stepwell.Code) {
	if s.o.Audit == nil {
		return
	}
	object := c.object
	for _, name := range objectParams() {
		if object == "" {
			object = r.PathValue(name)
		}
	}
	e := store.AuditEntry{Actor: p.Actor(), Action: op.id, Object: stepwell.Clip(strings.ToValidUTF8(object, "�"), 200), Result: string(code)}
	if c.actor != "" {
		e.Actor = c.actor
	}
	if len(c.detail) > 0 {
		if raw, err := json.Marshal(c.detail); err == nil { // texts and lists of texts
			e.Detail = raw
		}
	}
	if code == "" {
		e.Result = "ok"
	}
	if p.Role != 0 {
		e.Role = p.Role.String()
	}
	if addr := s.o.ClientAddr(r); addr.IsValid() {
		e.Remote = addr.String()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditPatience)
	defer cancel()
	if err := s.o.Audit.Record(ctx, e); err != nil {
		s.o.Log.Error("the audit log was not written", "request", c.id, "action", op.id, "actor", e.Actor, "error", err)
	}
}

// objectParams are the path parameters that name the changed object.
func objectParams() []string {
	return []string{"execution_id", "run_id", "job_id", "webhook_id", "trigger_id", "pipeline_id", "approval_id", "project_id", "lesson_id", "upload_id", "key_id", "name"}
}

// outcome sees how an operation was answered. Requests that are well-formed and wrong are 400 like the others, not 422, unless the operation
// means it.
type outcome struct {
	humaContext
	status int
}

// humaContext is embedded under a name that its method Context leaves free.
type humaContext = huma.Context

func (o *outcome) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity && !callOf(o.Context()).unprocessable {
		status = http.StatusBadRequest
	}
	o.status = status
	o.humaContext.SetStatus(status)
}

// SetHeader gives huma's own errors the content type of all the others.
func (o *outcome) SetHeader(name, value string) {
	if value == "application/problem+json" {
		value = "application/json"
	}
	o.humaContext.SetHeader(name, value)
}

// Status is the status of the answer.
func (o *outcome) Status() int { return o.status }

// Unwrap is for humago.Unwrap.
func (o *outcome) Unwrap() huma.Context { return o.humaContext }

// code is "" for a success.
func (o *outcome) code(c *call) stepwell.Code {
	if o.status < 400 || c.code != "" {
		return c.code
	}
	return codeOfStatus(o.status)
}
