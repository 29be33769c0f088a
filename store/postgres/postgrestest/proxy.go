package postgrestest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/proxytest"
)

// Proxy stands between a client and a server and cuts connections at chosen moments: it counts the client's
// requests, not time.
type Proxy struct {
	*proxytest.Proxy
	only []byte

	mu    sync.Mutex
	fault Fault
	left  int // requests until the fault
	done  int // faults that have happened
}

// Fault is what a proxy does to a request.
type Fault int

// The faults.
const (
	None       Fault = iota
	CutRequest       // the server never gets the end of the request, so it undoes it
	CutBetween       // the server gets the request, and the connection ends at once: it may do either
	CutAnswer        // the server has answered, and the client never hears of it
	MuteAnswer       // likewise, and the connection stays
)

// NewProxy is a proxy to a server's address. Only connections whose first message, with the parameters of the session,
// contains a text are cut.
func NewProxy(t testing.TB, server, only string) *Proxy {
	t.Helper()
	p := &Proxy{only: []byte(only)}
	p.Proxy = proxytest.Carrying(t, server, p.carry)
	return p
}

// URL leads an address through the proxy.
func (p *Proxy) URL(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.Address()
	return u.String()
}

// Next lets a fault happen to the n-th request from now on, 1 being the next one.
func (p *Proxy) Next(f Fault, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.left = f, n
}

// Happened is how many faults there have been.
func (p *Proxy) Happened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// carry passes messages on until one side ends.
func (p *Proxy) carry(client, server net.Conn) {
	from := bufio.NewReader(client)
	first, err := message(from, 0)
	if err != nil {
		return
	}
	chosen := bytes.Contains(first, p.only)
	if _, err := server.Write(first); err != nil {
		return
	}
	drop, mute := make(chan struct{}), make(chan struct{}) // closed: the server's next answer is not passed on
	go p.answers(client, server, drop, mute)
	for {
		m, err := message(from, 1)
		if err != nil {
			return
		}
		fault := None
		if chosen && m[0] == 'S' { // Sync ends a request
			fault = p.take()
		}
		switch fault {
		case CutRequest:
			return
		case CutAnswer:
			close(drop)
		case MuteAnswer:
			close(mute)
		}
		if _, err := server.Write(m); err != nil || fault == CutBetween {
			return
		}
	}
}

// take is the fault of a request.
func (p *Proxy) take() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == None {
		return None
	}
	if p.left--; p.left > 0 {
		return None
	}
	f := p.fault
	p.fault = None
	p.done++
	return f
}

// answers passes the server's messages on.
func (p *Proxy) answers(client, server net.Conn, drop, mute chan struct{}) {
	defer func() { _, _ = client.Close(), server.Close() }()
	from := bufio.NewReader(server)
	for {
		m, err := message(from, 1)
		if err != nil {
			return
		}
		select {
		case <-mute:
			continue
		case <-drop:
			if m[0] == 'Z' { // ready for the next request: this one is done
				return
			}
			continue
		default:
		}
		if _, err := client.Write(m); err != nil {
			return
		}
	}
}

// message reads one message of the protocol: some bytes of its type, then its length, which counts itself.
func message(r *bufio.Reader, kind int) ([]byte, error) {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	m := make([]byte, kind+int(binary.BigEndian.Uint32(head[kind:])))
	copy(m, head)
	_, err := io.ReadFull(r, m[len(head):])
	return m, err
}
