// Package outbound sends the HTTP requests of steps: util.http and the calls to platform services
// share it, so that what must hold for the whole process holds once.
//
// A Client refuses addresses inside the network unless they are allowed, at the moment of the connection
// and after every redirect; bounds how many requests a host or a credential gets, at once and per second;
// stops calling a host that only fails; gives every phase of an exchange its own time limit; and bounds
// headers, redirects, decompression and bodies. What goes wrong is a Failure of a known kind, in whose
// text no secret of the request appears, and Steer turns it into what the step does next (specifications:
// stac-and-media §2 and §7, semantics §3 and §7). Proxies of the environment are not used: they would hide
// the address that is checked. A Client is used by many goroutines. Stable.
//
// Rates are golang.org/x/time/rate's, breakers sony/gobreaker's. failsafe-go 0.9.8 would replace these two and the slots by
// one module and save next to no lines: limits by host and by credential, limits per phase of an exchange, and an answer
// that puts the step back instead of waiting or retrying here, are what the code is about, and it has none of them.
package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Options configure a Client. Limits hold for the process, so a process has one Client.
type Options struct {
	// AllowPrivate permits private and loopback addresses, but not link-local ones and those of cloud
	// metadata services. Defaults to false.
	AllowPrivate bool `json:"allow_private"`
	// AllowHosts permits every address of these hosts: "db.internal", "db.internal:8080" or "*.svc.local".
	// Defaults to none.
	AllowHosts []string `json:"allow_hosts"`
	// AllowCIDRs permits all addresses in these networks. Defaults to none.
	AllowCIDRs []netip.Prefix `json:"allow_cidrs" doc:"write it like 10.1.0.0/16"`
	// OnlyHosts refuses all hosts but these, which are written like AllowHosts; with Replay, recorded exchanges answer in their place.
	// Empty, it refuses all. Defaults to nil: it refuses none.
	OnlyHosts []string `json:"-"`

	// PerHost bounds the requests to each host and port. Defaults to 32 at once, at any rate.
	PerHost Limit `json:"per_host"`
	// Hosts are the limits of single hosts, by "host" or "host:port", and of services behind a sidecar, by Request.Gate.
	// Defaults to none.
	Hosts map[string]Limit `json:"hosts"`
	// PerCredential bounds the requests with the same Authorization or API key. Defaults to 32 at once.
	PerCredential Limit `json:"per_credential"`
	// MaxWait is how long a request waits for its turn before the step is put back. Defaults to 30 s.
	MaxWait time.Duration
	// Breaker stops requests to a host that fails. Defaults to 10 failures in a row, 30 s.
	Breaker Breaker

	// MaxHeaderBytes bounds the headers of a response. Defaults to 256 KiB.
	MaxHeaderBytes int64
	// RootCAs verify servers. Defaults to those of the system.
	RootCAs *x509.CertPool
	// UserAgent is sent unless the request names one. Defaults to "stepwell".
	UserAgent string

	// Record is a directory into which every exchange is written, without secrets. Defaults to none.
	Record string `json:"record"`
	// Replay is a directory of recorded exchanges that answer instead of the network. Defaults to none.
	Replay string `json:"replay"`
	// Tape is the folder of Record or Replay, for callers that hide more, or begin anew. Defaults to one that hides what requests tell.
	Tape *action.Tape `json:"-"`
}

// Breaker says when a host counts as broken.
type Breaker struct {
	Failures int           // in a row: no connection, timeouts, 500, 502, 503, 504. Defaults to 10; -1: never
	Open     time.Duration // how long nothing is sent, before one request tries again. Defaults to 30 s
}

// Client sends requests. Close it when nothing uses it any more.
type Client struct {
	o         Options
	guard     *guard
	limits    *limits
	transport *http.Transport
	trips     http.RoundTripper // transport, or the recorder or player
}

// New makes a Client; options that contradict each other are CodeInvalid.
func New(o Options) (*Client, error) {
	g, err := newGuard(o)
	if err != nil {
		return nil, err
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 30 * time.Second
	}
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = 256 << 10
	}
	if o.UserAgent == "" {
		o.UserAgent = "stepwell"
	}
	c := &Client{o: o, guard: g, limits: newLimits(o)}
	c.transport = &http.Transport{
		DialContext:            g.dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    longest, // each request has its own, shorter one
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		DisableCompression:     true, // decoded here, with a limit
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
	}
	c.trips = decoding{c.transport}
	switch {
	case o.Record != "" && o.Replay != "":
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "exchanges cannot be recorded and replayed at once"}
	case o.Record != "":
		c.trips = &recorder{o.tape(o.Record), c.trips}
	case o.Replay != "" && len(o.OnlyHosts) > 0:
		c.trips = partly{g, c.trips, newReplayer(o.tape(o.Replay))}
	case o.Replay != "":
		c.trips = newReplayer(o.tape(o.Replay))
	}
	return c, nil
}

func (o *Options) tape(dir string) *action.Tape {
	if o.Tape != nil {
		return o.Tape
	}
	return &action.Tape{Dir: dir}
}

// Close ends idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// longest bounds a connection attempt that outlives the request that asked for it.
const longest = 5 * time.Minute

func (g *guard) dialer(host string) *net.Dialer {
	return &net.Dialer{Timeout: longest, KeepAlive: 30 * time.Second, ControlContext: g.control(host)}
}
