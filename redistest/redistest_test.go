package redistest

import (
	"testing"

	"github.com/stepwell/stepwell/proxytest"
)

func TestMain(m *testing.M) { Main(m) }

// TestServer: a killed server begins again, empty, on its port.
func TestServer(t *testing.T) {
	s := New(t)
	do := func(want string, command ...string) {
		t.Helper()
		if got, err := Do(s.Address(), command...); err != nil || got != want {
			t.Fatalf("%v: %q, %v; want %q", command, got, err, want)
		}
	}
	do("OK", "1/SET", "k", "v")
	do("v", "1/GET", "k")
	do("", "GET", "k")
	do("a\nb", "EVAL", "return {'a', 'b'}", "0")
	address := s.Address()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := Do(address, "PING"); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	do("", "1/GET", "k")
	if s.Address() != address {
		t.Errorf("it is at %s, not at %s", s.Address(), address)
	}
}

// TestProxy: what a proxy holds passes later, and what it cuts ends.
func TestProxy(t *testing.T) {
	p := proxytest.New(t, Address(t))
	if _, err := Do(p.Address(), "PING"); err != nil {
		t.Fatal(err)
	}
	p.Stall()
	answered := make(chan error, 1)
	go func() {
		_, err := Do(p.Address(), "PING")
		answered <- err
	}()
	p.Resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	p.Refuse(true)
	if _, err := Do(p.Address(), "PING"); err == nil {
		t.Error("a refused connection answers")
	}
}
