package app

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// One address has at most three quarters of all connections, however often it tries; what it closes it may open again.
// A proxy that is believed stands for many and may have them all.
func TestOneAddressLeavesConnectionsToOthers(t *testing.T) {
	const one, other, proxy = "127.0.0.1", "127.0.0.2", "127.0.0.3" // elsewhere than on Linux only the first is there
	l, err := listen(t.Context(), &ServerOptions{Listen: "127.0.0.1:0", MaxConnections: 4, Access: Access{Proxies: []string{proxy}}})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	done := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				done <- err
				return
			}
			accepted <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // the other end may have
		return c
	}
	enter := func(from string) net.Conn {
		t.Helper()
		dial(from)
		c := <-accepted
		if host, _, _ := net.SplitHostPort(c.RemoteAddr().String()); host != from {
			t.Fatalf("a connection from %s, want %s", host, from)
		}
		return c
	}
	refused := func(from string) {
		t.Helper()
		if _, err := dial(from).Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection too many from %s: %v", from, err)
		}
	}
	var open []net.Conn
	for range 3 {
		open = append(open, enter(one))
	}
	for range 5 {
		refused(one)
	}
	open = append(open, enter(other))
	for range 2 { // closed twice is closed once
		_ = open[0].Close()
	}
	open[0] = enter(one)
	_ = open[3].Close()
	refused(one)
	for _, c := range open[:3] {
		_ = c.Close()
	}
	for range 4 {
		enter(proxy)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ends with %v", err)
	}
}
