// Package redislink is a connection to a Redis server that may be away: made when it is first needed, and cut when it does
// not end in time. The client (rueidis) pipelines by itself and gives blocking commands connections of their own.
package redislink

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stepwell/stepwell"
)

// ErrClosed is the error of Get after Close. CodeUnavailable.
var ErrClosed error = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the connection to the Redis server is closed: the process is shutting down"}

// Parse reads an address: redis://user:password@host:port/db, rediss:// for TLS; with ?master_set=NAME&addr=host:port that of Sentinels, which
// name the server. Commands are not repeated by the client, and the
// timeout bounds connecting, each write and each answer of one that does not block. CodeInvalid: a malformed address; the error
// does not have it, because of the password.
func Parse(address, name string, timeout time.Duration) (rueidis.ClientOption, error) {
	c, err := rueidis.ParseURL(address)
	if err != nil {
		return c, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the address of the Redis server cannot be read", Hint: "redis://user@host:6379"}
	}
	c.ClientName = name
	c.ForceSingleClient = c.Sentinel.MasterSet == ""
	c.DisableRetry, c.DisableCache, c.PipelineMultiplex = true, true, -1
	c.Dialer.Timeout, c.Sentinel.Dialer.Timeout, c.ConnWriteTimeout = timeout, timeout, timeout
	return c, nil
}

// Link is the client and its connections. Its methods may be called from many goroutines.
type Link struct {
	option rueidis.ClientOption
	opened atomic.Int64 // connections so far

	mu     sync.Mutex
	client rueidis.Client
	dial   *dial
	conns  map[net.Conn]bool
	closed bool
}

// dial is the making of a client, which is waited for by all that need it.
type dial struct {
	done   chan struct{}
	client rueidis.Client
	err    error
}

// New connects to nothing yet.
func New(c rueidis.ClientOption) *Link {
	l := &Link{conns: map[net.Conn]bool{}}
	given := c.DialCtxFn // of a unix socket
	c.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		conn, err := openConn(ctx, given, address, d, t)
		if err != nil {
			return nil, err
		}
		l.opened.Add(1)
		return l.hold(conn), nil
	}
	l.option = c
	return l
}

// Opened is how many connections have been made so far.
func (l *Link) Opened() int64 { return l.opened.Load() }

type dialer = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

func openConn(ctx context.Context, given dialer, address string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	switch {
	case given != nil:
		return given(ctx, address, d, t)
	case t != nil:
		return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
	}
	return d.DialContext(ctx, "tcp", address)
}

// held is a connection that is known until it is closed.
type held struct {
	net.Conn
	l *Link
}

func (l *Link) hold(conn net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = true
	return &held{conn, l}
}

// Close implements net.Conn.
func (h *held) Close() error {
	h.l.mu.Lock()
	delete(h.l.conns, h.Conn)
	h.l.mu.Unlock()
	return h.Conn.Close()
}

// Get is the client. It waits until there is one, ctx ends or the server cannot be reached.
func (l *Link) Get(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return nil, ErrClosed
	case l.client != nil:
		defer l.mu.Unlock()
		return l.client, nil
	}
	d := l.dial
	if d == nil {
		d = &dial{done: make(chan struct{})}
		l.dial = d
		go l.connect(d)
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.client, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect makes the client. That takes the timeouts of the dialer at most.
func (l *Link) connect(d *dial) {
	defer close(d.done)
	d.client, d.err = rueidis.NewClient(l.option)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = nil
	switch {
	case d.err != nil:
	case l.closed:
		go d.client.Close()
		d.client, d.err = nil, ErrClosed
	default:
		l.client = d.client
	}
}

// Close closes the client, and cuts what does not end by itself within a time. There must be no call of Get under way.
func (l *Link) Close(limit time.Duration) {
	l.mu.Lock()
	l.closed = true
	client := l.client
	l.mu.Unlock()
	if client == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		client.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		l.cut()
		<-done
	}
}

// cut closes the connections at once.
func (l *Link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close() // it may have ended
	}
}

// Field is a field of Redis's INFO, "" if it is missing.
func Field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// passing are the errors of a server that will take the same command later; the client leaves "ERR" out.
var passing = []string{"LOADING", "CLUSTERDOWN", "TRYAGAIN", "OOM", "READONLY", "MASTERDOWN", "MISCONF", "NOREPLICAS", "BUSY", "max number of clients"}

// Transient reports whether the same try may succeed later: all but an error that the server gives for this command, and ErrClosed.
func Transient(err error) bool {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(e.Error(), p) })
	}
	return !errors.Is(err, ErrClosed)
}
