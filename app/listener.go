package app

import (
	"net"
	"net/netip"
	"sync"

	"github.com/stepwell/stepwell/access"
)

// share is a listener that gives the connections of one address at most three quarters of all, so that one address
// cannot block the others. Trusted proxies stand for many callers and are not limited.
type share struct {
	net.Listener
	each    int
	proxies *access.Proxies

	mu   sync.Mutex
	open map[string]int // by caller, see access.Caller
}

func newShare(l net.Listener, most int, proxies *access.Proxies) *share {
	return &share{Listener: l, each: max(1, most*3/4), proxies: proxies, open: map[string]int{}}
}

// Accept closes connections beyond the share of their address at once.
func (s *share) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil || s.proxies.Trusts(addr.Addr().Unmap()) {
			return c, nil
		}
		caller := access.Caller(access.Principal{}, addr.Addr().Unmap())
		if s.enter(caller) {
			return &shared{Conn: c, leave: sync.OnceFunc(func() { s.exit(caller) })}, nil
		}
		_ = c.Close() // the client sees it
	}
}

func (s *share) enter(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[caller] >= s.each {
		return false
	}
	s.open[caller]++
	return true
}

func (s *share) exit(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[caller]--; s.open[caller] <= 0 {
		delete(s.open, caller)
	}
}

// shared is a connection that counts until it is closed.
type shared struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *shared) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
