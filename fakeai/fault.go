package fakeai

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Faults describes the faults, one a line, for help texts.
const Faults = `rate_limit=N   every N-th request is answered 429
retry_after=S  and says to come back after S seconds (1)
error=N        every N-th request is answered 500
slow=D         answers come after D, such as 500ms
invalid=N      the first N answers of a conversation that asks for JSON are not as asked for
huge           the answer is one of 64 MiB
endless        the answer never ends
html           the answer is a web page
deep           the answer is JSON of 100,000 levels
cut            the answer ends in the middle`

// Header, or the query parameter "fault", names the faults of one request, instead of those of the server.
const Header = "X-Fake-Fault"

// faults are what goes wrong, separated by commas: "rate_limit=3,slow=1s". A name without a number has 1.
type faults struct {
	text       string
	rateLimit  int
	retryAfter string
	error      int
	slow       time.Duration
	invalid    int
	body       string // huge, endless, html, deep or cut
}

func parseFaults(text string) (f faults, err error) {
	f.text = text
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		number := func() (n int) {
			n, err = strconv.Atoi(cmp.Or(value, "1"))
			if err == nil && (n < 1 || n > 1_000_000) {
				err = strconv.ErrRange
			}
			return n
		}
		switch name {
		case "":
		case "rate_limit":
			f.rateLimit = number()
		case "error":
			f.error = number()
		case "invalid":
			f.invalid = number()
		case "retry_after":
			_, err = strconv.ParseFloat(value, 64)
			f.retryAfter = value
		case "slow":
			f.slow, err = time.ParseDuration(value)
		case "huge", "endless", "html", "deep", "cut":
			f.body = name
		default:
			err = fmt.Errorf("unknown")
		}
		if err != nil {
			return f, stepwell.Invalid("the faults are: "+strings.Join(strings.Fields(faultNames()), ", "), "%q is not a fault", word)
		}
	}
	return f, nil
}

func faultNames() string {
	var names []string
	for line := range strings.Lines(Faults) {
		names = append(names, strings.Fields(line)[0])
	}
	return strings.Join(names, " ")
}

// every reports whether this is one of every n-th requests that meet the same fault. Requests with faults of their own
// are counted by these.
func (s *Server) every(n int, name, text string) bool {
	if n == 0 {
		return false
	}
	const most = 1000 // different faults that are counted
	hit := false
	s.told(func() {
		key := name + " " + text
		if _, known := s.counts[key]; !known && len(s.counts) == most {
			clear(s.counts)
		}
		s.counts[key]++
		hit = s.counts[key]%n == 0
	})
	return hit
}

// serve has the faults of the request answer, and else the handler.
func (s *Server) serve(x *exchange, handle func(*exchange) error) error {
	f, err := s.faults, error(nil)
	if text := cmp.Or(x.r.Header.Get(Header), x.r.URL.Query().Get("fault")); text != "" {
		if f, err = parseFaults(text); err != nil {
			return err
		}
	}
	if f.slow > 0 {
		select {
		case <-time.After(min(f.slow, time.Hour)):
		case <-x.r.Context().Done():
			return nil
		}
	}
	fault := func(name string) { s.told(func() { x.asked.Fault = name }) }
	switch {
	case s.every(f.rateLimit, "rate_limit", f.text):
		fault("rate_limit")
		x.w.Header().Set("Retry-After", cmp.Or(f.retryAfter, "1"))
		return &refusal{http.StatusTooManyRequests, "rate_limit_exceeded", "too many requests, as was asked for"}
	case s.every(f.error, "error", f.text):
		fault("error")
		return &refusal{http.StatusInternalServerError, "server_error", "a failure, as was asked for"}
	case f.body != "":
		fault(f.body)
		s.spoil(x, f.body)
		return nil
	}
	x.invalid = f.invalid
	return handle(x)
}

// spoil writes a body that no client should choke on.
func (s *Server) spoil(x *exchange, how string) {
	kind := "application/json"
	switch {
	case how == "html":
		kind = "text/html"
	case how == "endless":
		kind = "text/event-stream"
	}
	x.w.Header().Set("Content-Type", kind)
	x.w.WriteHeader(http.StatusOK)
	piece, times := "", 1
	switch how {
	case "html":
		piece = "<!doctype html><title>Sign in</title>"
	case "cut":
		piece = `{"choices": [{"message": {"content": "half an ans`
	case "deep":
		piece = `{"choices":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"
	case "huge":
		piece, times = strings.Repeat(" ", 1<<20), 64
	case "endless":
		piece, times = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\""+strings.Repeat("and so on ", 1000)+"\"}}]}\n\n", 1_000_000
	}
	for range times {
		if _, err := io.WriteString(x.w, piece); err != nil {
			return // the client has gone
		}
	}
	if how == "cut" {
		_ = http.NewResponseController(x.w).Flush()
		panic(http.ErrAbortHandler) // the connection ends in the middle of the body
	}
}
