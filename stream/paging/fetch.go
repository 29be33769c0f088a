package paging

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

const (
	redirects = 5
	// How often a server may put off one page, besides the attempts, and for how long at once.
	maxDeferrals = 30
	maxWait      = time.Hour
)

// request asks for a page.
type request struct {
	method, url string
	header      http.Header
	body        []byte // nil: none
	shown       string // the URL without secrets
}

// key identifies a request.
func (r *request) key() [16]byte {
	sum := sha256.Sum256([]byte(r.method + " " + r.url + "\n" + string(r.body)))
	return [16]byte(sum[:16])
}

// request makes the request for the page at the cursor.
func (s *source) request(at cursor) (*request, error) {
	u, header, body := s.start.String(), s.header, s.body
	switch {
	case at.URL != "":
		u = s.unhide(at.URL)
	case s.next.param != "":
		var err error
		if u, body, err = s.with(at); err != nil {
			return nil, err
		}
	}
	target, err := url.Parse(u)
	if err != nil {
		return nil, stepwell.Invalid("", "the URL of the next page is not valid")
	}
	shown := outbound.NewRedactor(s.start, s.header).Text(outbound.NewRedactor(target, nil).URL(target))
	if !outbound.SameOrigin(target, s.start) {
		if body != nil {
			return nil, &stream.Error{Type: stream.NetworkError, Context: stream.Context{URL: shown},
				Err: stepwell.Invalid("if that is right, begin there", "the next page is at another origin, %s, to which the body is not sent", shown)}
		}
		header = harmless(header)
	}
	r := &request{method: s.method, url: u, header: header, shown: shown}
	if body != nil {
		r.body = body.Bytes()
	}
	return r, nil
}

// harmless are the headers that may go to another origin.
func harmless(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range []string{"Accept", "Accept-Language", "Content-Type", "User-Agent"} {
		if v := h.Values(name); v != nil {
			out[name] = v
		}
	}
	return out
}

// with is the first request with the parameters of the page at the cursor.
func (s *source) with(at cursor) (string, *item.Value, error) {
	params := map[string]json.RawMessage{}
	if s.next.count {
		params[s.next.param] = strconv.AppendInt(nil, at.Count, 10)
	} else if at.Value != nil {
		params[s.next.param] = at.Value
	}
	if s.next.sizeOf != "" {
		params[s.next.sizeOf] = strconv.AppendInt(nil, s.next.size, 10)
	}
	u := *s.start
	body := s.body.Clone()
	for _, name := range []string{s.next.param, s.next.sizeOf} {
		raw, ok := params[name]
		if !ok {
			continue
		}
		v, err := item.Parse(raw)
		if err != nil {
			return "", nil, err
		}
		if body == nil {
			u.RawQuery = withParam(u.RawQuery, name, plain(v))
			continue
		}
		path, err := item.ParsePath(name)
		if err == nil {
			err = body.Put(path, true, func([]string, *item.Value) (*item.Value, error) { return v, nil })
		}
		if err != nil {
			return "", nil, err
		}
	}
	return u.String(), body, nil
}

func plain(v *item.Value) string {
	if text, ok := v.Str(); ok {
		return text
	}
	return string(v.Bytes())
}

// withParam sets a parameter and leaves the others as they are written.
func withParam(query, name, value string) string {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(key); pair != "" && (err != nil || k != name) {
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}

// page is a page that has arrived in full.
type page struct {
	value   *item.Value
	header  http.Header
	url     *url.URL // where it came from in the end
	shown   string
	status  int
	excerpt string
}

// fetch gets a page, as often as it may be tried. 500 and 504 are no exception, unlike for actions (Once): asking
// for a page changes nothing, and a stream that ends early costs more than another request.
func (s *source) fetch(ctx context.Context, r *request) (*page, error) {
	deferrals := 0
	for attempt, tries := 1, 1; ; tries++ {
		p, err := s.once(ctx, r)
		if err == nil {
			return p, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		f, ok := errors.AsType[*outbound.Failure](err)
		if !ok {
			return nil, err
		}
		verdict := outbound.Policy{}.Judge(f)
		wait := s.retry.Delay(attempt, rand.Float64())
		limit := s.retry.MaxAttempts
		switch verdict {
		case outbound.Permanent:
			limit = 0
		case outbound.Deferred:
			if deferrals++; deferrals <= maxDeferrals {
				limit, wait = attempt+1, max(f.After, time.Second)
				attempt-- // it does not count
			}
		}
		if attempt >= limit || f.After > maxWait {
			if tries > 1 {
				err = fmt.Errorf("%w, tried %d times", err, tries)
			}
			return nil, &stream.Error{Type: stream.NetworkError, Err: err, Context: stream.Context{URL: r.shown, Status: f.Status, Attempt: attempt}}
		}
		s.env.Log(slog.LevelWarn, "a page could not be fetched; it will be retried", slog.String("error", f.Error()), slog.Duration("after", wait))
		if err := action.Pause(ctx, wait); err != nil {
			return nil, err
		}
		attempt++
	}
}

// once asks for a page once and reads all of it.
func (s *source) once(ctx context.Context, r *request) (*page, error) {
	req := &outbound.Request{Method: r.method, URL: r.url, Header: r.header, Redirects: redirects, MaxBytes: s.maxBytes,
		Timeouts: outbound.Timeouts{Connect: 30 * time.Second, Idle: time.Minute, FirstByte: s.timeout, Total: s.timeout}}
	if r.body != nil {
		req.Body = outbound.Text(string(r.body), "application/json")
	}
	resp, err := s.client.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Close() // nolint:errcheck // all needed has been read
	raw, err := io.ReadAll(resp.Body)
	if resp.Status < 200 || resp.Status > 299 {
		return nil, resp.StatusFailure(raw)
	}
	if err != nil {
		return nil, err
	}
	if resp.Status == http.StatusNoContent {
		raw = []byte("[]") // no items
	}
	v, err := item.Parse(raw)
	if err != nil { // torn, or a page for people: another try may tell
		return nil, &outbound.Failure{Kind: outbound.KindResult, Err: &stepwell.Error{Code: stepwell.CodeFailed,
			Message: r.shown + " answered what is no JSON: " + resp.Excerpt(raw[:min(len(raw), 300)]), Err: err}}
	}
	return &page{value: v, header: resp.Header, url: resp.URL, shown: r.shown, status: resp.Status, excerpt: resp.Excerpt(raw[:min(len(raw), 300)])}, nil
}
