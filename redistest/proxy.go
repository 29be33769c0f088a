package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server: it can hold what passes, cut connections and refuse new ones.
type Proxy struct {
	listener net.Listener
	server   string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	open   chan struct{} // closed: what comes is passed on
	refuse bool
}

// NewProxy is a proxy to a server's address.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: server, conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(p.open)
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
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		server, err := net.Dial("tcp", p.server)
		if refuse || err != nil {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go p.pass(client, server)
		go p.pass(server, client)
	}
}

// pass passes bytes on until one side ends.
func (p *Proxy) pass(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		<-open
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
