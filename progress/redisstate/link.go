package redisstate

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// link is the client, made when it is first needed, and its connections.
type link struct {
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

func (l *link) init(c rueidis.ClientOption) {
	l.conns = map[net.Conn]bool{}
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
}

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
	l *link
}

func (l *link) hold(conn net.Conn) net.Conn {
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

// get is the client.
func (l *link) get(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return nil, errClosed
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
func (l *link) connect(d *dial) {
	defer close(d.done)
	d.client, d.err = rueidis.NewClient(l.option)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = nil
	switch {
	case d.err != nil:
	case l.closed:
		go d.client.Close()
		d.client, d.err = nil, errClosed
	default:
		l.client = d.client
	}
}

// close closes the client, and what does not end by itself within a time.
func (l *link) close(limit time.Duration) {
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
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close() // it may have ended
	}
}

// digest names a script as Redis does.
func digest(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// fieldOf is a field of Redis's INFO, "" if it is missing.
func fieldOf(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
