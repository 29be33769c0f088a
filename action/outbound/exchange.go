package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Request is a request to send.
type Request struct {
	Method   string // Defaults to GET
	URL      string // http or https
	Header   http.Header
	Body     Body // Defaults to none
	Timeouts Timeouts
	// Redirects is how many are followed; beyond, the exchange fails. Defaults to 0: a redirect is the response.
	Redirects int
	// MaxBytes bounds the decoded body of the response. Defaults to 16 MiB.
	MaxBytes int64
	// Gate names the limits and the breaker that the request counts for, where one address stands for many
	// services: behind a sidecar "dapr:budmodel". Options.Hosts may have limits for it. The address then has a breaker of
	// its own that counts failed connections only. Defaults to the URL's host and port.
	Gate string
}

// Response is a response whose body is still to be read. Close it, or its host's slot stays taken.
type Response struct {
	Status int
	Header http.Header
	URL    *url.URL // where it came from in the end
	Body   io.Reader
	// Redactor knows the secrets of the request.
	Redactor *Redactor

	exchange *exchange
	raw      io.Closer
}

// Metrics are the figures of one exchange, complete after Close.
type Metrics struct {
	Sent, Received      int64 // bytes of the bodies on the wire
	FirstByte, Duration time.Duration
}

// exchange is one request under way.
type exchange struct {
	client   *Client
	req      *Request
	outer    context.Context // of the caller
	ctx      context.Context // ends with the exchange
	cancel   context.CancelCauseFunc
	stop     context.CancelFunc
	watch    *watchdog
	turn     *turn
	redact   *Redactor
	origin   string
	started  time.Time
	ended    time.Time
	sent     atomic.Int64
	received atomic.Int64
}

type exchangeKey struct{}

// Do sends the request and returns when the headers of the response are there. The error is a *Failure, or the cause of
// ctx if that ended. A response of any status is no error here.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
	x := &exchange{client: c, req: req, outer: ctx}
	hr, err := x.prepare()
	if err != nil {
		return nil, err
	}
	if err := x.queue(hr); err != nil {
		return nil, err
	}
	total := req.Timeouts.Total
	if total <= 0 {
		total = longest
	}
	inner, stop := context.WithTimeoutCause(ctx, total, error(timedOut(phaseTotal, total)))
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(inner, exchangeKey{}, x))
	x.stop, x.started = stop, time.Now()
	x.watch = newWatchdog(req.Timeouts, x.cancel)
	hr = hr.WithContext(httptrace.WithClientTrace(x.ctx, x.watch.trace()))
	client := &http.Client{Transport: c.trips, CheckRedirect: x.redirect}
	resp, err := client.Do(hr) //nolint:bodyclose // Response.Close does
	if err != nil {
		if resp != nil {
			resp.Body.Close()
		}
		err = x.failure(err)
		x.finish(err)
		return nil, err
	}
	return x.response(resp), nil
}

// queue waits for the request's turn; a replay needs none.
func (x *exchange) queue(hr *http.Request) (err error) {
	if x.client.o.Replay != "" {
		return nil
	}
	at := place{gate: x.req.Gate, host: strings.ToLower(hr.URL.Hostname()), hostPort: strings.ToLower(hostPort(hr.URL)), credential: credentialOf(hr)}
	x.turn, err = x.client.limits.wait(x.outer, at)
	if err != nil && hr.Body != nil {
		hr.Body.Close()
	}
	return err
}

// prepare makes the request; its errors hold no secrets.
func (x *exchange) prepare() (*http.Request, error) {
	u, err := parseURL(x.req.URL)
	if err != nil {
		return nil, err
	}
	x.redact, x.origin = NewRedactor(u, x.req.Header), origin(u)
	method := x.req.Method
	if method == "" {
		method = http.MethodGet
	}
	hr, err := http.NewRequestWithContext(x.outer, method, "http://invalid/", nil)
	if err != nil {
		return nil, invalid("the method is not valid", "write it like GET or POST")
	}
	hr.URL, hr.Host = u, u.Host
	if err := setHeader(hr, x.req.Header); err != nil {
		return nil, err
	}
	if hr.Header.Get("User-Agent") == "" {
		hr.Header.Set("User-Agent", x.client.o.UserAgent)
	}
	if hr.Header.Get("Accept-Encoding") == "" && x.client.o.Record == "" {
		hr.Header.Set("Accept-Encoding", "gzip")
	}
	return hr, x.setBody(hr)
}

// setBody gives the request its body, which redirects open again. An empty one has the length 0 and
// not an unknown one.
func (x *exchange) setBody(hr *http.Request) error {
	b := x.req.Body
	if b.Open == nil {
		return nil
	}
	if b.ContentType != "" && hr.Header.Get("Content-Type") == "" {
		hr.Header.Set("Content-Type", b.ContentType)
	}
	if b.Size == 0 {
		hr.Body = http.NoBody
		return nil
	}
	hr.ContentLength = b.Size
	hr.GetBody = func() (io.ReadCloser, error) {
		in, err := b.Open()
		if err != nil {
			return nil, err
		}
		return &sending{in, x}, nil
	}
	in, err := hr.GetBody()
	if err != nil {
		return invalid(x.redact.Text("the body cannot be read: "+err.Error()), "")
	}
	hr.Body = in
	return nil
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil { // whose text holds the URL
		return nil, invalid("the URL is not valid", "write it like https://host/path, with special characters escaped")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, invalid("the URL has no http or https scheme, or no host", "write it like https://host/path")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// setHeader copies the headers and refuses those of the transport.
func setHeader(hr *http.Request, header http.Header) error {
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		switch name {
		case "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te", "Keep-Alive", "Proxy-Connection":
			return invalid("the header "+name+" cannot be set", "it follows from the body and the connection")
		case "Host":
			if len(values) > 0 {
				hr.Host = values[0]
			}
			continue
		}
		if name == "" || strings.ContainsAny(name, " \r\n\x00:") || strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return invalid("the header "+printable(name)+" or its value has characters that are not allowed", "line breaks cannot be sent in headers")
		}
		hr.Header[name] = append(hr.Header[name], values...)
	}
	return nil
}

// response makes the caller's view of a response.
func (x *exchange) response(resp *http.Response) *Response {
	x.watch.awaiting(false)
	if x.turn != nil {
		after, told := RetryAfter(resp.Header, time.Now())
		switch status := resp.StatusCode; {
		case status == http.StatusTooManyRequests && !told:
			x.turn.coolDown(time.Second)
		case told && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
			x.turn.coolDown(min(after, maxAfter))
		}
		x.turn.tell(verdictOf(resp.StatusCode))
		x.turn.reached(nil)
	}
	limit := x.req.MaxBytes
	if limit <= 0 {
		limit = 16 << 20
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, URL: resp.Request.URL, Redactor: x.redact,
		Body: &receiving{in: resp.Body, x: x, left: limit, limit: limit}, exchange: x, raw: resp.Body}
}

// verdictOf maps a status to a breaker's result.
func verdictOf(status int) error {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: http.StatusText(status)}
	case http.StatusTooManyRequests:
		return errExcluded
	}
	return nil
}

// Close ends the exchange; the unread body is dropped. It may be called twice.
func (r *Response) Close() error {
	err := r.raw.Close()
	r.exchange.finish(nil)
	return err
}

// Metrics are the figures so far.
func (r *Response) Metrics() Metrics { return r.exchange.metrics() }

// Spend says how many tokens the exchange has used, for the limits that count them.
func (r *Response) Spend(tokens int) {
	if r.exchange.turn != nil {
		r.exchange.turn.spend(tokens)
	}
}

func (x *exchange) metrics() Metrics {
	m := Metrics{Sent: x.sent.Load(), Received: x.received.Load()}
	end := x.ended
	if end.IsZero() {
		end = time.Now()
	}
	m.Duration = end.Sub(x.started)
	x.watch.mu.Lock()
	defer x.watch.mu.Unlock()
	if !x.watch.firstByte.IsZero() {
		m.FirstByte = x.watch.firstByte.Sub(x.started)
	}
	return m
}

// finish releases the exchange's resources.
func (x *exchange) finish(err error) {
	if !x.ended.IsZero() {
		return
	}
	x.ended = time.Now()
	action.MeterOf(x.outer).Traffic(x.received.Load(), x.sent.Load())
	x.watch.stop()
	x.cancel(nil)
	x.stop()
	if x.turn != nil {
		if err != nil {
			x.turn.tell(hostFault(err))
			x.turn.reached(connectFault(err))
		}
		x.turn.end()
	}
}

// hostFault is err if it speaks against the host, else errExcluded.
func hostFault(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		switch f.Kind {
		case KindConnect, KindDNS, KindReset, KindTimeout, KindTLS:
			return err
		}
	}
	return errExcluded
}

// connectFault is err if no connection came about, else errExcluded.
func connectFault(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok && (f.Kind == KindConnect || f.Kind == KindDNS) {
		return err
	}
	return errExcluded
}

// hostPort is the URL's host with its port.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

func origin(u *url.URL) string { return u.Scheme + "://" + strings.ToLower(hostPort(u)) }

// SameOrigin reports whether two URLs share scheme, host and port.
func SameOrigin(a, b *url.URL) bool { return origin(a) == origin(b) }

// sending counts sent bytes.
type sending struct {
	io.ReadCloser
	x *exchange
}

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.x.sent.Add(int64(n))
	s.x.watch.touch()
	return n, err
}

// receiving limits the received bytes and explains the end.
type receiving struct {
	in          io.Reader
	x           *exchange
	left, limit int64
	err         error
}

// Read implements io.Reader. Its errors are io.EOF, a *Failure, or the cause of the caller's context.
func (r *receiving) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}
	r.x.watch.awaiting(true)
	n, err := r.in.Read(p)
	r.x.watch.awaiting(false)
	if int64(n) > r.left {
		r.err = &Failure{Kind: KindLimit, Phase: "body", Err: stepwell.Errorf(stepwell.CodeLimit, "", "the response is larger than %s", size(r.limit))}
		n := int(r.left)
		r.left = 0
		return n, r.err
	}
	r.left -= int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it bare
		err = r.x.failure(err)
		if f, ok := errors.AsType[*Failure](err); ok && f.Kind == KindReset {
			f.Kind = KindTruncated // the headers were there
		}
	}
	r.err = err
	return n, err
}
