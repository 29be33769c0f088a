package outbound

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// maxRecorded bounds a recorded body.
const maxRecorded = 16 << 20

// recording is one exchange in a file, for tests that want no network. Secrets are not in it: they are
// hidden before the name of the file is reckoned, so a replay with other secrets finds it.
type recording struct {
	At      time.Time `json:"recorded_at,omitzero"` // recordings of before 2026-11-29 lack it
	Request struct {
		Method string            `json:"method"`
		URL    string            `json:"url"`
		Header map[string]string `json:"headers"`
		Body   string            `json:"body,omitempty"`
	} `json:"request"`
	Response struct {
		Status int               `json:"status"`
		Header map[string]string `json:"headers"`
		Text   string            `json:"text,omitempty"`
		Base64 string            `json:"base64,omitempty"`
	} `json:"response,omitzero"`
	// Error is why there is no response, or none to its end.
	Error *recordedError `json:"error,omitempty"`
}

// recordedError is a Failure, or the end of the step's time.
type recordedError struct {
	Kind    Kind          `json:"kind"`
	Phase   string        `json:"phase,omitempty"`
	Code    stepwell.Code `json:"code,omitempty"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
}

// kindDeadline is the kind of a request that was under way when the step's timeout passed.
const kindDeadline Kind = "step_timeout"

// record writes down an error of the transport, nil when it is nothing to play again: somebody has stopped the step.
func (x *exchange) record(err error, tape *action.Tape) *recordedError {
	err = x.failure(err)
	if errors.Is(err, action.ErrDeadline) {
		return &recordedError{Kind: kindDeadline, Code: stepwell.CodeTimeout, Message: action.ErrDeadline.Message}
	}
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return nil
	}
	return &recordedError{Kind: f.Kind, Phase: f.Phase, Code: f.Err.Code, Message: tape.Hidden(f.Err.Message), Hint: f.Err.Hint}
}

func (r *recordedError) error() error {
	if r.Kind == kindDeadline {
		return action.ErrDeadline
	}
	return &Failure{Kind: r.Kind, Phase: r.Phase, Err: &stepwell.Error{Code: r.Code, Message: r.Message, Hint: r.Hint}}
}

// failing is a body that breaks off.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// upTo is a body of which this has come, and then err, nil if it is whole.
func upTo(content []byte, err error) io.ReadCloser {
	if err == nil {
		return io.NopCloser(bytes.NewReader(content))
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(content), failing{err}))
}

// key is what tells requests apart: the method, the URL, and the request's body or name.
func (r *recording) key(body string) string {
	return r.Request.Method + "\n" + r.Request.URL + "\n" + body
}

// describe writes down the request. whole is its body with members that only their names make secret, as it was recorded before
// 2026-11-29.
func describe(req *http.Request, tape *action.Tape) (r *recording, whole string, err error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, "", &stepwell.Error{Code: stepwell.CodeInternal, Message: "a request without an exchange"}
	}
	tape.Learned(NewRedactor(req.URL, req.Header).values...)
	r = &recording{}
	r.Request.Method, r.Request.URL, r.Request.Header = req.Method, tape.Hidden(x.redact.URL(req.URL)), hideAll(tape, x.redact.Header(req.Header))
	if req.Body == nil || x.req.Body.Open == nil {
		return r, "", nil
	}
	if r.Request.Body = tape.Hidden(x.req.Body.Name); r.Request.Body != "" {
		delete(r.Request.Header, "content-type") // it holds a form's boundary
		return r, r.Request.Body, nil
	}
	in, err := x.req.Body.Open()
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxRecorded+1))
	if err == nil && len(content) > maxRecorded {
		err = &Failure{Kind: KindLimit, Phase: "body", Err: &stepwell.Error{Code: stepwell.CodeLimit, Message: "the request is too large to be recorded"}}
	}
	if err != nil {
		return nil, "", err
	}
	whole = tape.Hidden(x.redact.Text(string(content)))
	r.Request.Body = withoutMembers(whole, req.Header.Get("Content-Type"), tape, SecretName)
	return r, whole, nil
}

func hideAll(tape *action.Tape, header map[string]string) map[string]string {
	for name, value := range header {
		header[name] = tape.Hidden(value)
	}
	return header
}

// withoutMembers hides the members of a JSON object or of those in a list, or the fields of a form, whose names say that they are secret. Any other body is
// as it was.
func withoutMembers(body, kind string, tape *action.Tape, secret func(name string) bool) string {
	if strings.HasPrefix(kind, "application/x-www-form-urlencoded") {
		parts := strings.Split(body, "&")
		for i, part := range parts {
			name, value, _ := strings.Cut(part, "=")
			if plain, err := url.QueryUnescape(name); err == nil && secret(plain) && value != "" {
				if value, err = url.QueryUnescape(value); err == nil {
					tape.Learned(value)
				}
				parts[i] = name + "=" + Hidden
			}
		}
		return strings.Join(parts, "&")
	}
	if start := strings.TrimSpace(body); !strings.HasPrefix(start, "{") && !strings.HasPrefix(start, "[") {
		return body
	}
	v, err := expr.Decode([]byte(body))
	if err != nil || !hideMembers(v, tape, secret, 0) {
		return body
	}
	raw, err := expr.Marshal(v)
	if err != nil {
		return body
	}
	return string(raw)
}

// secretAnswer is SecretName for what a service answers: where its next page is, is none.
func secretAnswer(name string) bool {
	low := strings.ToLower(name)
	return SecretName(name) && !strings.Contains(low, "next") && !strings.Contains(low, "page") && !strings.Contains(low, "continuation") && !strings.Contains(low, "cursor")
}

// hideMembers reports whether it has changed a value. What is below "links" is passed by: of an answer these are the requests for other
// pages.
func hideMembers(v any, tape *action.Tape, secret func(name string) bool, depth int) (changed bool) {
	if depth > 100 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if text, ok := value.(string); ok && text != "" && text != Hidden && secret(name) {
				tape.Learned(text)
				v[name], changed = Hidden, true
				continue
			}
			if name != "links" {
				changed = hideMembers(value, tape, secret, depth+1) || changed
			}
		}
	case []any:
		for _, value := range v {
			changed = hideMembers(value, tape, secret, depth+1) || changed
		}
	}
	return changed
}

type recorder struct {
	*action.Tape
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The response is read to its end, or to its limit, before it is
// given on: recording is for tests.
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r, _, err := describe(req, t.Tape)
	if err != nil {
		return nil, err
	}
	x := req.Context().Value(exchangeKey{}).(*exchange)
	r.At = time.Now().UTC().Truncate(time.Second)
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		if r.Error = x.record(err, t.Tape); r.Error == nil {
			return nil, err
		}
		return nil, errors.Join(err, t.write(r))
	}
	content, broken := io.ReadAll(io.LimitReader(resp.Body, maxRecorded+1))
	if cerr := resp.Body.Close(); broken == nil {
		broken = cerr
	}
	if len(content) > maxRecorded {
		return nil, &Failure{Kind: KindLimit, Phase: "body", Err: &stepwell.Error{Code: stepwell.CodeLimit, Message: "the response is too large to be recorded"}}
	}
	resp.Body = upTo(content, broken)
	if broken != nil {
		if r.Error = x.record(broken, t.Tape); r.Error == nil {
			return resp, nil
		}
	}
	for _, cookie := range resp.Cookies() {
		t.Learned(cookie.Value)
	}
	if to, err := resp.Location(); err == nil {
		t.Learned(NewRedactor(to, nil).values...)
	}
	r.Response.Status, r.Response.Header = resp.StatusCode, hideAll(t.Tape, x.redact.Header(resp.Header))
	if shown := withoutMembers(t.Hidden(x.redact.Text(string(content))), resp.Header.Get("Content-Type"), t.Tape, secretAnswer); utf8.ValidString(shown) {
		r.Response.Text = shown
	} else {
		r.Response.Base64 = base64.StdEncoding.EncodeToString([]byte(shown))
	}
	if err := t.write(r); err != nil {
		return nil, err
	}
	return resp, nil
}

func (t *recorder) write(r *recording) error { return t.Write("", r.key(r.Request.Body), r) }

type replayer struct {
	*action.Tape
	nearby nearby
}

func newReplayer(tape *action.Tape) *replayer {
	return &replayer{tape, nearby{turn: make(chan struct{}, 1)}}
}

// RoundTrip implements http.RoundTripper. A request that was never recorded, or not as often, fails.
func (t *replayer) RoundTrip(req *http.Request) (*http.Response, error) {
	wanted, whole, err := describe(req, t.Tape)
	if err != nil {
		return nil, err
	}
	if req.Body != nil {
		// A replayed request is not sent, but counts as sent.
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
	}
	path, n := t.Next("", wanted.key(wanted.Request.Body))
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && whole != wanted.Request.Body {
		path, _ = t.Next("", wanted.key(whole))
		raw, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		nearest, bad := t.nearest(req.Context(), wanted, n)
		if bad != nil {
			return nil, bad
		}
		return nil, &Failure{Kind: KindInvalid, Err: &stepwell.Error{Code: stepwell.CodeNotFound,
			Message: fmt.Sprintf("no recording of %s %s (%s)%s", wanted.Request.Method, wanted.Request.URL, filepath.Base(path), nearest), Hint: "record it first"}}
	}
	if err != nil {
		return nil, err
	}
	r := &recording{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("recording %s: %w", filepath.Base(path), err)
	}
	var broken error
	if r.Error != nil {
		if broken = r.Error.error(); r.Response.Status == 0 {
			return nil, broken
		}
	}
	content := []byte(r.Response.Text)
	if r.Response.Base64 != "" {
		if content, err = base64.StdEncoding.DecodeString(r.Response.Base64); err != nil {
			return nil, fmt.Errorf("recording %s: %w", filepath.Base(path), err)
		}
	}
	header := http.Header{}
	for name, value := range r.Response.Header {
		header.Set(name, value)
	}
	header.Del("Content-Length")
	length := int64(len(content))
	if broken != nil {
		length = -1
	}
	return &http.Response{StatusCode: r.Response.Status, Status: strings.TrimSpace(fmt.Sprint(r.Response.Status, " ", http.StatusText(r.Response.Status))),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: upTo(content, broken), ContentLength: length, Request: req}, nil
}

// alike is how many bytes two texts have in common at their beginning, on a border of runes.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return n
}

// partly sends requests to the hosts that the guard names, and answers the others from recordings.
type partly struct {
	*guard
	sent, recorded http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p partly) RoundTrip(req *http.Request) (*http.Response, error) {
	if among(p.only, hostPort(req.URL)) {
		return p.sent.RoundTrip(req)
	}
	return p.recorded.RoundTrip(req)
}
