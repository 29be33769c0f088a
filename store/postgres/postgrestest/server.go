package postgrestest

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
	"slices"
	"strconv"
	"strings"
	"time"
)

// Server is a PostgreSQL server in a folder of its own. It ends with this process, whichever way that ends.
type Server struct {
	bin, dir string
	settings []string // beside settings
	port     int
	cmd      *exec.Cmd
	let      io.Closer // the server stops when it is closed
	ended    chan struct{}
}

// errNone names the remedy.
var errNone = errors.New("no PostgreSQL server: install postgresql (its initdb and postgres on PATH or in /usr/lib/postgresql), or name a server in STEPWELL_TEST_POSTGRES")

// programs is the folder of initdb and postgres, of the newest version that is installed.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is a good one
	slices.SortFunc(found, func(a, b string) int { return release(b) - release(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			found = append([]string{real}, found...)
		}
	}
	for _, path := range found {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "postgres")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	return "", errNone
}

func release(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for an odd one
	return n
}

// Start creates a server with more settings ("fsync=on") and waits until it answers. Without them its data is not synced to disk: a kill of its processes loses
// nothing, only a loss of power would.
func Start(more ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: more}
	if s.dir, err = os.MkdirTemp("", "stepwell-postgres-"); err != nil {
		return nil, err
	}
	if err := give(s.dir); err != nil {
		return nil, err
	}
	initdb := s.command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "stepwell", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	for range 5 { // another process may take the port first
		if err = s.Begin(); err == nil {
			return s, nil
		}
		s.port = 0
	}
	s.Stop()
	return nil, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL is the address of the server's first database.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://stepwell@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+s.dir, "TZ=UTC")
	drop(cmd)
	return cmd
}

// settings of the server.
var settings = []string{"fsync=off", "full_page_writes=off", "unix_socket_directories=", "listen_addresses=127.0.0.1", "max_connections=300", "deadlock_timeout=200ms",
	"max_wal_size=1GB", "log_line_prefix=%m [%p] ", "log_min_messages=fatal", "max_prepared_transactions=0"}

// freePort is below the ports that systems give to connections: one of these could take it while the server restarts.
func freePort() (port int, err error) {
	for range 100 {
		port = 15_000 + rand.IntN(15_000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// Begin starts the server on its data, again on the same port after Kill.
func (s *Server) Begin() error {
	if s.port == 0 {
		var err error
		if s.port, err = freePort(); err != nil {
			return err
		}
	}
	// The shell ends the server when its input ends, as it does with this process, and itself with the server.
	args := []string{"-c", `exec 3<&0; "$@" </dev/null & p=$!; { read x <&3; kill -QUIT $p; } >/dev/null 2>&1 & w=$!; wait $p; kill $w 2>/dev/null`, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, set := range slices.Concat(settings, s.settings) {
		args = append(args, "-c", set)
	}
	cmd := s.command("sh", args...)
	var err error
	if s.let, err = cmd.StdinPipe(); err != nil {
		return err
	}
	var log bytes.Buffer
	cmd.Stderr, cmd.Stdout = &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // the shell's exit says nothing
		close(s.ended)
	}()
	return s.ready(&log)
}

// ready waits until the server takes connections.
func (s *Server) ready(log *bytes.Buffer) error {
	timeout := time.After(time.Minute)
	for Exec(s.URL(), "SELECT 1") != nil {
		select {
		case <-s.ended:
		case <-timeout:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		s.quit()
		return fmt.Errorf("the PostgreSQL server does not start: %s", log)
	}
	return nil
}

// pid is the server's process id, 0 while there is none.
func (s *Server) pid() int {
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, _ := strconv.Atoi(line) // 0 while it is being written
	return pid
}

// Kill ends the server as a crash of its machine would, but for the disk: its processes get no chance to say anything.
func (s *Server) Kill() error {
	pid := s.pid()
	if pid == 0 {
		return errors.New("the server is not running")
	}
	if err := kill(pid); err != nil {
		return err
	}
	s.quit()
	return nil
}

// Restart is Kill, then Begin.
func (s *Server) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.Begin()
}

// RestartImmediate is `pg_ctl restart -m immediate`: the server's processes tell their clients of a crash, and it recovers.
func (s *Server) RestartImmediate() error {
	s.quit()
	return s.Begin()
}

// Copy stops the server, copies its data to a folder beside it, and goes on.
func (s *Server) Copy() (string, error) {
	s.quit()
	to, err := os.MkdirTemp(s.dir, "copy-")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("cp", "-a", s.data(), to).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy the data: %w: %s", err, out)
	}
	return filepath.Join(to, "data"), s.Begin()
}

// Replace stops the server and goes on with a copy, as a standby that lacks the last commits does.
func (s *Server) Replace(copied string) error {
	s.quit()
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if err := os.Rename(copied, s.data()); err != nil {
		return err
	}
	return s.Begin()
}

// quit ends the shell and with it the server, and waits for the processes of its connections.
func (s *Server) quit() {
	if s.cmd == nil {
		return
	}
	_ = s.let.Close() // it may have ended
	<-s.ended
	s.cmd = nil
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	s.quit()
	_ = os.RemoveAll(s.dir) // what is left is in the folder for temporary files
}
