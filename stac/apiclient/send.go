package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// Request is a request as a link describes it: it can be kept and sent later, and holds no secrets of ours.
type Request struct {
	Method string            `json:"method,omitempty"` // Defaults to GET
	URL    string            `json:"href"`
	Header map[string]string `json:"headers,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"`
}

// KindLoop is the Kind of an Error for pages that lead in circles.
const KindLoop = "pagination_loop"

// Error is a request that did not succeed in the end.
type Error struct {
	Kind     string // an outbound.Kind, or KindLoop
	URL      string // without secrets
	Status   int    // 0: there was none
	Attempts int
	Err      error
}

func (e *Error) Error() string {
	if e.Attempts > 1 {
		return fmt.Sprintf("%s (after %d attempts)", e.Err, e.Attempts)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// StatusOf is the HTTP status of an error, 0 if it has none.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// exchange is a request with the client's own data about it.
type exchange struct {
	Request
	header  http.Header // besides
	form    string      // instead of Body
	kind    string      // content type of Body. Defaults to application/json
	foreign bool        // never with our credentials
	repeat  bool        // may be sent again even if the server may have carried it out
	limit   int64       // of the response's body
}

// reply is an answer of 2xx.
type reply struct {
	*outbound.Response
	head *head
	body io.Reader
}

// head keeps the beginning of a body, for errors.
type head struct {
	in   io.Reader
	kept []byte
}

const headSize = 4 << 10

func (h *head) Read(p []byte) (int, error) {
	n, err := h.in.Read(p)
	if room := headSize - len(h.kept); room > 0 {
		h.kept = append(h.kept, p[:min(n, room)]...)
	}
	return n, err
}

// content is the failure of an invalid answer; the same request gets the same.
func (r *reply) content(message string) error {
	return &outbound.Failure{Kind: outbound.KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed, Message: r.where() + " " + message}}
}

// broken is a failure for an answer that ended early, or began as JSON and does not go on so.
func (r *reply) broken(err error) error {
	if _, ok := errors.AsType[*outbound.Failure](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if text := strings.TrimSpace(string(r.head.kept)); text != "" && text[0] != '{' {
		return r.content("answered " + fmt.Sprint(r.Status) + " with no JSON object: " + r.Excerpt(r.head.kept))
	}
	return &outbound.Failure{Kind: outbound.KindTruncated, Err: &stepwell.Error{Code: stepwell.CodeUnavailable,
		Message: fmt.Sprintf("%s answered %d with JSON that is broken (%v): %s", r.where(), r.Status, err, r.Excerpt(r.head.kept))}}
}

func (r *reply) where() string { return r.Redactor.URL(r.URL) }

// attempts is the shared state of one request's attempts.
type attempts struct {
	x         *exchange
	began     time.Time
	number    int
	moved     int
	refreshed bool
	doubtful  bool // an attempt may have been carried out without our knowing
}

// send sends the request until it is answered with 2xx and read is content, as often as Retry permits. It
// reports whether an earlier attempt may have been carried out unheard.
func (c *Client) send(ctx context.Context, x *exchange, read func(*reply) error) (doubtful bool, err error) {
	a := &attempts{x: x, began: time.Now(), number: 1}
	for {
		location, auth, err := c.attempt(ctx, x, read)
		if err == nil {
			return a.doubtful, nil
		}
		if ctx.Err() != nil {
			return a.doubtful, context.Cause(ctx)
		}
		f, ok := errors.AsType[*outbound.Failure](err)
		if !ok {
			return a.doubtful, err
		}
		wait, again := c.judge(a, f, location, auth)
		if !again {
			return a.doubtful, c.failed(a, f)
		}
		if err := action.Pause(ctx, wait); err != nil {
			return a.doubtful, err
		}
	}
}

// judge decides how to proceed after a failure. It is the retry table from the special to the general.
func (c *Client) judge(a *attempts, f *outbound.Failure, location, auth string) (wait time.Duration, again bool) {
	switch {
	case f.Status == http.StatusUnauthorized && c.o.Auth.TokenURL != "" && !a.x.foreign && !a.refreshed:
		a.refreshed = true
		c.token.forget(auth)
		return 0, true
	case location != "" && a.moved < 5: // a search by POST that has moved
		a.moved++
		a.x.URL = location
		return 0, true
	case f.Kind == outbound.KindBusy: // nothing was sent
		return f.After, c.within(a, f, f.After)
	case !c.retryable(f):
		return 0, false
	}
	a.doubtful = a.doubtful || f.Kind != outbound.KindDNS && f.Kind != outbound.KindConnect && f.Status != http.StatusTooManyRequests
	if a.doubtful && !a.x.repeat || a.number >= c.o.Retry.Attempts {
		return 0, false
	}
	wait = f.After
	if !f.Told {
		most := float64(c.o.Retry.Base) * math.Pow(2, float64(a.number-1))
		wait = time.Duration(rand.Float64() * min(most, float64(c.o.Retry.Max)))
	}
	if !c.within(a, f, wait) {
		return 0, false
	}
	if c.retries.Add(1) > int64(c.o.Retry.Budget) {
		f.Err = &stepwell.Error{Code: f.Err.Code, Message: f.Err.Message + fmt.Sprintf("; the run's %d second attempts are used up", c.o.Retry.Budget), Hint: f.Err.Hint}
		return 0, false
	}
	a.number++
	return wait, true
}

// within reports whether a wait fits into the request's time, and says so if not.
func (c *Client) within(a *attempts, f *outbound.Failure, wait time.Duration) bool {
	if time.Since(a.began)+wait <= c.o.Retry.Total {
		return true
	}
	f.Err = &stepwell.Error{Code: f.Err.Code, Message: fmt.Sprintf("%s; waiting another %s would take the request beyond %s", f.Err.Message,
		wait.Round(time.Second), c.o.Retry.Total), Hint: "raise retry.total to wait longer"}
	return false
}

func (c *Client) retryable(f *outbound.Failure) bool {
	switch f.Kind {
	case outbound.KindDNS, outbound.KindConnect, outbound.KindTimeout, outbound.KindReset, outbound.KindTruncated, outbound.KindProtocol:
		return true
	case outbound.KindStatus:
	default:
		return false
	}
	switch {
	case slices.Contains(c.o.Retry.Never, f.Status):
		return false
	case slices.Contains(c.o.Retry.Also, f.Status), f.Status >= 520 && f.Status <= 529:
		return true
	}
	return slices.Contains([]int{408, 425, 429, 500, 502, 503, 504}, f.Status)
}

// failed makes the error that the caller sees.
func (c *Client) failed(a *attempts, f *outbound.Failure) error {
	e := *f.Err
	e.Message = c.redact.Text(e.Message)
	return &Error{Kind: string(f.Kind), URL: c.shown(a.x.URL), Status: f.Status, Attempts: a.number, Err: &e}
}

// shown is a URL for people.
func (c *Client) shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return c.redact.URL(u)
}

// attempt sends the request once. location is the redirect of a request other than GET, auth
// the Authorization that it had.
func (c *Client) attempt(ctx context.Context, x *exchange, read func(*reply) error) (location, auth string, err error) {
	req, err := c.outgoing(ctx, x)
	if err != nil {
		return "", "", err
	}
	auth = req.Header.Get("Authorization")
	release, err := c.acquireSlot(ctx)
	if err != nil {
		return "", auth, err
	}
	defer release()
	resp, err := c.o.HTTP.Do(ctx, req)
	if err != nil {
		return "", auth, err
	}
	defer resp.Close() // nolint:errcheck // read errors have been reported
	resp.Redactor.Add(c.o.Auth.secrets()...)
	h := &head{in: resp.Body}
	if resp.Status < 200 || resp.Status > 299 {
		body, readErr := io.ReadAll(io.LimitReader(h, 64<<10))
		if readErr != nil && ctx.Err() != nil {
			return "", auth, context.Cause(ctx)
		}
		return c.moved(x, resp), auth, resp.StatusFailure(body)
	}
	return "", auth, read(&reply{Response: resp, head: h, body: h})
}

// moved is where a search by POST goes on. The transport would turn it into a GET without its body.
func (c *Client) moved(x *exchange, resp *outbound.Response) string {
	switch resp.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return ""
	}
	to, err := resp.URL.Parse(resp.Header.Get("Location"))
	if err != nil || x.Method == "" || x.Method == http.MethodGet || resp.Header.Get("Location") == "" {
		return ""
	}
	c.upgrade(to)
	if origin(to) != origin(resp.URL) {
		return ""
	}
	c.strip(to)
	return to.String()
}

// outgoing is the request with its credentials, for which the time has come.
func (c *Client) outgoing(ctx context.Context, x *exchange) (*outbound.Request, error) {
	u, err := url.Parse(x.URL)
	if err != nil {
		return nil, &outbound.Failure{Kind: outbound.KindInvalid, Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a link's URL is not valid"}}
	}
	header := http.Header{"Accept": {"application/geo+json, application/json"}}
	for name, value := range x.Header {
		header.Set(name, value)
	}
	if !x.foreign && c.mine(u) {
		for name, values := range c.o.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
		if err := c.authorize(ctx, u, header); err != nil {
			return nil, err
		}
	}
	for name, values := range x.header {
		header[name] = values
	}
	req := &outbound.Request{Method: x.Method, URL: u.String(), Header: header, Timeouts: c.o.Timeouts, MaxBytes: x.limit}
	if req.MaxBytes <= 0 {
		req.MaxBytes = c.o.MaxPage
	}
	kind := x.kind
	if kind == "" {
		kind = "application/json"
	}
	switch {
	case x.form != "":
		req.Body = outbound.Text(x.form, "application/x-www-form-urlencoded")
	case x.Body != nil:
		req.Body = outbound.Text(string(x.Body), kind)
	}
	if x.Method == "" || x.Method == http.MethodGet {
		req.Redirects = 5
	}
	return req, nil
}
