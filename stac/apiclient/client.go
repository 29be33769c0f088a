// Package apiclient is a client of STAC APIs (stac-and-media §2). It sends a search by POST and falls back to GET, follows
// pages by link, header, body and merge, and notices pages that overlap, repeat or stay empty. Failed requests are retried
// within the limits of Retry; the limits of a host, and the wait of all workers after a 429, are those of package outbound.
//
// Errors are *Error: the request without secrets, the status, and the beginning of the answer. A Client is safe for
// concurrent use. Stable.
package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// Options configure a Client.
type Options struct {
	HTTP *outbound.Client
	// URL is the API's landing page.
	URL  string
	Auth Auth
	// Header is sent with every request to the origin of URL. Defaults to none.
	Header http.Header
	// AddConformance and RemoveConformance override the classes of the landing page. Each is a class, or the end of
	// one: "item-search", "item-search#filter", "collections". Default to none.
	AddConformance, RemoveConformance []string
	// Method is how searches are sent: "POST", "GET", or "" for POST with GET as the fallback.
	Method string
	Retry  Retry
	// Timeouts bound one attempt. Defaults to 10 s for the connection, 60 s for the first byte and between
	// bytes, 5 minutes in all.
	Timeouts outbound.Timeouts
	// MaxPage bounds the body of one page. Defaults to 64 MiB.
	MaxPage int64
	// MaxHref is the longest URL that is sent by GET. Defaults to 8,000 characters.
	MaxHref int
	// EmptyPages is how many pages without items are followed in a row; also how many pages of nothing but
	// known items. Defaults to 3.
	EmptyPages int
	// Concurrent limits this client's concurrent requests, PerSecond their rate; the limits of outbound.Options for a
	// host apply as well. Default to 5 and any rate.
	Concurrent int
	PerSecond  float64
}

// Retry says how often and how soon a failed request is sent again. The table is that of stac-and-media §2:
// 408 425 429 500 502 503 504 and 520-529, no connection, a broken one, and answers that end early.
type Retry struct {
	Attempts int           // of one request, the first included. Defaults to 5
	Base     time.Duration // of the wait, doubled each time, of which a random part is taken. Defaults to 500 ms
	Max      time.Duration // of the wait. Defaults to 30 s
	Total    time.Duration // of one request with all attempts and waits. Defaults to 15 minutes
	Budget   int           // of second attempts in the client's life. Defaults to 1,000
	Also     []int         // statuses that are tried again besides. Defaults to none
	Never    []int         // statuses that are not. Defaults to none
}

// Client talks to one API.
type Client struct {
	o       Options
	root    *url.URL
	own     []string // origins that get the credentials
	redact  *outbound.Redactor
	slots   chan struct{}
	pace    *rate.Limiter
	retries atomic.Int64
	noPost  atomic.Bool // searches by POST are refused
	token   tokenSource

	mu      sync.Mutex
	landing *Landing
}

// New makes a client; it sends nothing. Errors are CodeInvalid.
func New(o Options) (*Client, error) {
	root, err := url.Parse(o.URL)
	if err != nil || root.Scheme != "http" && root.Scheme != "https" || root.Host == "" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the API's URL is not valid", Hint: "write it like https://host/stac"}
	}
	if root.User != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the API's URL holds a user or a password", Hint: "give them in credentials"}
	}
	if err := o.Auth.check(); err != nil {
		return nil, err
	}
	o.defaults()
	c := &Client{o: o, root: root, own: []string{origin(root)}, slots: make(chan struct{}, o.Concurrent)}
	for _, text := range o.Auth.Origins {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "origin " + text + " is not valid", Hint: "write it like https://host:port"}
		}
		c.own = append(c.own, origin(u))
	}
	if o.PerSecond > 0 {
		c.pace = rate.NewLimiter(rate.Limit(o.PerSecond), max(1, int(min(o.PerSecond, 1000))))
	}
	c.redact = outbound.NewRedactor(root, o.Header)
	c.redact.Add(o.Auth.secrets()...)
	c.noPost.Store(strings.EqualFold(o.Method, http.MethodGet))
	return c, nil
}

func (o *Options) defaults() {
	fill(&o.Timeouts.Connect, 10*time.Second)
	fill(&o.Timeouts.FirstByte, time.Minute)
	fill(&o.Timeouts.Idle, time.Minute)
	fill(&o.Timeouts.Total, 5*time.Minute)
	fill(&o.Retry.Base, 500*time.Millisecond)
	fill(&o.Retry.Max, 30*time.Second)
	fill(&o.Retry.Total, 15*time.Minute)
	fill(&o.Retry.Attempts, 5)
	fill(&o.Retry.Budget, 1000)
	fill(&o.MaxHref, 8000)
	fill(&o.EmptyPages, 3)
	fill(&o.Concurrent, 5)
	fill(&o.MaxPage, 64<<20)
}

// fill sets an option that is not given.
func fill[T ~int | ~int64](to *T, value T) {
	if *to <= 0 {
		*to = value
	}
}

// URL is the landing page's.
func (c *Client) URL() string { return c.root.String() }

// Retries is how many requests have been sent again so far.
func (c *Client) Retries() int64 { return c.retries.Load() }

// acquireSlot waits for the client's own limits.
func (c *Client) acquireSlot(ctx context.Context) (release func(), err error) {
	if c.pace != nil {
		if err := c.pace.Wait(ctx); err != nil {
			return nil, err
		}
	}
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Client) mine(u *url.URL) bool { return slices.Contains(c.own, origin(u)) }

// origin is scheme, host and port.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if u.Port() == "" {
		if strings.EqualFold(u.Scheme, "https") {
			host += ":443"
		} else {
			host += ":80"
		}
	}
	return strings.ToLower(u.Scheme) + "://" + host
}
