package outbound

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// maxRecorded bounds a recorded body.
const maxRecorded = 16 << 20

// recording is one exchange in a file, for tests that want no network. Secrets are not in it: they are
// hidden before the name of the file is reckoned, so a replay with other secrets finds it.
type recording struct {
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
	} `json:"response"`
}

// tape numbers the exchanges that look the same, so that a poll gets its answers in order.
type tape struct {
	dir  string
	mu   sync.Mutex
	seen map[string]int
}

// place is the recording's file. Its key is the method, the URL, and the request's body or name.
func (t *tape) place(r *recording) string {
	sum := sha256.Sum256([]byte(r.Request.Method + "\n" + r.Request.URL + "\n" + r.Request.Body))
	key := hex.EncodeToString(sum[:12])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[key]++
	return filepath.Join(t.dir, fmt.Sprintf("%s-%d.json", key, t.seen[key]))
}

// describe writes down the request.
func describe(req *http.Request) (*recording, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "a request without an exchange"}
	}
	r := &recording{}
	r.Request.Method, r.Request.URL, r.Request.Header = req.Method, x.redact.URL(req.URL), x.redact.Header(req.Header)
	if req.Body == nil || x.req.Body.Open == nil {
		return r, nil
	}
	if r.Request.Body = x.req.Body.Name; r.Request.Body != "" {
		delete(r.Request.Header, "content-type") // it holds a form's boundary
		return r, nil
	}
	in, err := x.req.Body.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxRecorded))
	r.Request.Body = x.redact.Text(string(content))
	return r, err
}

type recorder struct {
	tape
	next http.RoundTripper
}

func newRecorder(dir string, next http.RoundTripper) *recorder {
	return &recorder{tape{dir: dir, seen: map[string]int{}}, next}
}

// RoundTrip implements http.RoundTripper. The response is read to its end, or to its limit, before it is
// given on: recording is for tests.
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r, err := describe(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxRecorded+1))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && len(content) > maxRecorded {
		err = &Failure{Kind: KindLimit, Phase: "body", Err: &stepwell.Error{Code: stepwell.CodeLimit, Message: "the response is too large to be recorded"}}
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(content))
	x := req.Context().Value(exchangeKey{}).(*exchange)
	r.Response.Status, r.Response.Header = resp.StatusCode, x.redact.Header(resp.Header)
	if shown := x.redact.Text(string(content)); utf8.ValidString(shown) {
		r.Response.Text = shown
	} else {
		r.Response.Base64 = base64.StdEncoding.EncodeToString([]byte(shown))
	}
	if err := t.write(r); err != nil {
		return nil, err
	}
	return resp, nil
}

func (t *recorder) write(r *recording) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return os.WriteFile(t.place(r), append(raw, '\n'), 0o600)
}

type replayer struct{ tape }

func newReplayer(dir string) *replayer { return &replayer{tape{dir: dir, seen: map[string]int{}}} }

// RoundTrip implements http.RoundTripper. A request that was never recorded, or not as often, fails.
func (t *replayer) RoundTrip(req *http.Request) (*http.Response, error) {
	wanted, err := describe(req)
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
	path := t.place(wanted)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Failure{Kind: KindInvalid, Err: &stepwell.Error{Code: stepwell.CodeNotFound,
			Message: fmt.Sprintf("no recording of %s %s (%s)", wanted.Request.Method, wanted.Request.URL, filepath.Base(path)), Hint: "record it first"}}
	}
	if err != nil {
		return nil, err
	}
	r := &recording{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("recording %s: %w", filepath.Base(path), err)
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
	return &http.Response{StatusCode: r.Response.Status, Status: strings.TrimSpace(fmt.Sprint(r.Response.Status, " ", http.StatusText(r.Response.Status))),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)), Request: req}, nil
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
