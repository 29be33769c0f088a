// Package redistest gives tests a Redis server of their own: the one that STEPWELL_TEST_REDIS names (host:port, whose database
// 1 the tests may empty), else one that it starts from redis-server on PATH, or from Debian's packages, which it unpacks into the
// user's cache.
//
// Stability: for this module's tests.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a Redis server in a folder of its own, without persistence. It ends with this process, whichever way that ends.
type Server struct {
	program
	dir   string
	port  int
	let   io.Closer // the server stops when it is closed
	ended chan struct{}
}

// Address is host and port.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

var shared struct {
	once    sync.Once
	address string
	own     *Server
	err     error
}

// Main runs a package's tests and stops the server that they have shared; it is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.own != nil {
		shared.own.Stop()
	}
	os.Exit(code)
}

// Address is that of the process's shared server. A machine without one skips the test, or fails it where CI=true.
func Address(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.address = os.Getenv("STEPWELL_TEST_REDIS"); shared.address != "" {
			return
		}
		if shared.own, shared.err = Start(); shared.err == nil {
			shared.address = shared.own.Address()
		}
	})
	if shared.err != nil {
		missing(t, shared.err)
	}
	return shared.address
}

// New starts a server for one test, which may kill it. options are those of redis-server: "--maxmemory", "2mb".
func New(t testing.TB, options ...string) *Server {
	t.Helper()
	s, err := Start(options...)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.Stop)
	return s
}

func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Start starts a server and waits until it answers.
func Start(options ...string) (*Server, error) {
	p, err := find()
	if err != nil {
		return nil, err
	}
	s := &Server{program: p}
	if s.dir, err = os.MkdirTemp("", "stepwell-redis-"); err != nil {
		return nil, err
	}
	for range 5 { // another process may take the port first
		if err = s.Begin(options...); err == nil {
			return s, nil
		}
		s.port = 0
	}
	s.Stop()
	return nil, err
}

// Begin starts the server, empty, again on the same port after Kill.
func (s *Server) Begin(options ...string) error {
	if s.port == 0 {
		if err := s.choosePort(); err != nil {
			return err
		}
	}
	var log bytes.Buffer
	if err := s.launch(&log, append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir, "--pidfile", s.pidFile(),
		"--maxclients", "5000"}, options...)...); err != nil {
		return err
	}
	return s.ready(&log)
}

// choosePort chooses one that is free, below the ports that systems give to connections: one of these could take it while the server is
// away.
func (s *Server) choosePort() (err error) {
	for range 1000 {
		s.port = 10_000 + rand.IntN(5_000)
		var l net.Listener
		if l, err = net.Listen("tcp", s.Address()); err == nil {
			return l.Close()
		}
	}
	return err
}

// launch starts the program. The shell ends it when its input ends, as it does with this process, and itself with the program.
func (s *Server) launch(log io.Writer, args ...string) error {
	cmd := exec.Command("sh", append([]string{"-c", `exec 3<&0; "$@" </dev/null & p=$!; { read x <&3; kill -KILL $p; } >/dev/null 2>&1 & w=$!; wait $p; kill $w 2>/dev/null`, "sh", s.path}, args...)...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	let, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.let, s.ended = let, ended
	go func() {
		_ = cmd.Wait() // the shell's exit says nothing
		close(ended)
	}()
	return nil
}

func (s *Server) pidFile() string { return filepath.Join(s.dir, "pid") }

// ready waits until the server answers.
func (s *Server) ready(log *bytes.Buffer) error {
	timeout := time.After(time.Minute)
	for !s.answers() {
		select {
		case <-s.ended:
		case <-timeout:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		s.end()
		return fmt.Errorf("the Redis server does not start: %s", log)
	}
	return nil
}

// answers reports whether this server, and no other one that has taken the port, answers, and has read what it has kept.
func (s *Server) answers() bool {
	out, err := Do(s.Address(), "INFO")
	return err == nil && strings.Contains(out, fmt.Sprintf("process_id:%d\r", s.pid())) && !strings.Contains(out, "loading:1\r")
}

// pid is the server's process id, 0 while there is none.
func (s *Server) pid() int {
	raw, err := os.ReadFile(s.pidFile())
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw))) // 0 while it is being written
	return pid
}

// Kill ends the server at once; it loses everything.
func (s *Server) Kill() error {
	pid := s.pid()
	if pid == 0 {
		return errors.New("the server is not running")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	s.end()
	return nil
}

// end waits until the server has ended, which the end of its shell's input makes it do.
func (s *Server) end() {
	if s.let != nil {
		_ = s.let.Close() // it may have ended by itself
		<-s.ended
		s.let = nil
	}
	_ = os.Remove(s.pidFile()) // it may be gone with the server
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() {
	s.end()
	_ = os.RemoveAll(s.dir) // a leftover in a temporary folder harms nothing
}

// Sentinel starts a Redis Sentinel, for one test, that watches a server under a name, with its replicas, and has one of them take over when it has
// not answered for a second. It returns the Sentinel's address.
func Sentinel(t testing.TB, name string, master *Server) string {
	t.Helper()
	s := &Server{program: master.program, dir: t.TempDir()}
	if err := s.choosePort(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(s.dir, "sentinel.conf") // a Sentinel writes to it
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor %[2]s 127.0.0.1 %[3]d 1\nsentinel down-after-milliseconds %[2]s 1000\nsentinel failover-timeout %[2]s 3000\n", s.port, name, master.port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(io.Discard, config, "--sentinel"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, err := Do(s.Address(), "SENTINEL", "REPLICAS", name)
		if err == nil && strings.Contains(out, "127.0.0.1") {
			return s.Address()
		}
		if time.Now().After(end) {
			t.Fatalf("the Sentinel knows of no replica: %v, %s", err, out)
		}
	}
}
