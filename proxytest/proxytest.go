// Package proxytest gives tests a proxy between a client and a server: it holds and delays what passes, cuts connections
// and refuses new ones.
//
// Stability: for this module's tests.
package proxytest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a proxy to one server. Its methods may be called from many goroutines.
type Proxy struct {
	listener net.Listener
	server   string
	carry    func(client, server net.Conn)

	mu     sync.Mutex
	conns  map[net.Conn]bool
	open   chan struct{} // closed: what comes is passed on
	delay  time.Duration
	refuse bool
}

// New is a proxy to a server's address (host:port) that passes bytes on. It ends with the test.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	return Carrying(t, server, nil)
}

// Carrying is New with a function of the test's own that carries one connection until one side ends; Stall and Slow do
// nothing there.
func Carrying(t testing.TB, server string, carry func(client, server net.Conn)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: server, carry: carry, conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(p.open)
	if carry == nil {
		p.carry = p.pass
	}
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close() // for the end of accept
		p.Resume()
		p.Cut()
	})
	return p
}

// Address is host and port of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Stall holds everything from now on: connections are accepted and nothing is answered.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// Resume lets everything pass again.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Slow delays everything that passes from now on, in each direction.
func (p *Proxy) Slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// Refuse says whether new connections are closed at once.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = yes
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // it may have ended
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuses() {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go p.serve(client, server)
	}
}

func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

// serve carries a connection and forgets it.
func (p *Proxy) serve(client, server net.Conn) {
	p.carry(client, server)
	_, _ = client.Close(), server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// pass passes bytes on, both ways, until one side ends.
func (p *Proxy) pass(client, server net.Conn) {
	var back sync.WaitGroup
	back.Go(func() { p.copy(client, server) })
	p.copy(server, client)
	back.Wait()
}

// copy passes the bytes of one direction on, and ends both at its end.
func (p *Proxy) copy(to, from net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		open, delay := p.open, p.delay
		p.mu.Unlock()
		<-open
		time.Sleep(delay)
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
