//go:build unix

package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/desk"
)

// fakeDesk hears of each caller at once, if it hears of any.
type fakeDesk struct {
	deaf bool

	mu   sync.Mutex
	lost []string
}

func (d *fakeDesk) Handler(func(*http.Request) desk.Caller) http.Handler {
	return http.NotFoundHandler()
}

func (d *fakeDesk) Workers() []desk.Worker { return nil }

func (d *fakeDesk) Heard(string) time.Time {
	if d.deaf {
		return time.Time{}
	}
	return time.Now()
}

func (d *fakeDesk) Lose(caller string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = append(d.lost, caller)
}

// supervise runs one plugin, a shell with a script, until stop, which gives the callers that were lost.
func supervise(t *testing.T, deaf bool, memory int64, script string) (s *Supervisor, stop func() []string) {
	t.Helper()
	d := &fakeDesk{deaf: deaf}
	s, err := New(Options{Programs: map[string]Program{"acme": {Command: []string{"sh", "-c", script}, Dir: t.TempDir(), Memory: memory}}, Desk: d, Lease: time.Hour,
		Host: "here", Hide: func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { s.Run(ctx); close(ran) }()
	return s, func() []string {
		end()
		<-ran
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.lost
	}
}

// until waits for a status of the plugin.
func until(t *testing.T, s *Supervisor, what string, there func(Status) bool) Status {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		x := s.List()[0]
		if there(x) {
			return x
		}
		if time.Now().After(end) {
			t.Fatalf("no %s: %+v", what, x)
		}
	}
}

// A plugin that ends is started again, what each process held is lost, and after five deaths it is called failing, with its last words.
func TestStartedAgain(t *testing.T) {
	s, stop := supervise(t, false, 0, "sleep 0.1; echo the password is hunter2; exit 7")
	x := until(t, s, "failing", func(x Status) bool { return x.State == Failing && x.Restarts >= failsAt })
	if x.Error != "exit status 7: the password is ***" || x.Restarts < failsAt || x.PID != 0 {
		t.Errorf("%+v", x)
	}
	if got := s.Explain("acme.upper"); !strings.HasPrefix(got, "waits for the plugin acme, which does not run: exit status 7") {
		t.Error(got)
	}
	if s.Failing() == "" || s.Explain("other.upper") != "" {
		t.Errorf("%q, %q", s.Failing(), s.Explain("other.upper"))
	}
	lost := stop()
	for n := range failsAt {
		if want := fmt.Sprintf("plugin:acme:%d", n+1); !slices.Contains(lost, want) {
			t.Errorf("%s is not lost: %v", want, lost)
		}
	}
	if x := s.List()[0]; x.State != Stopped {
		t.Errorf("%+v", x)
	}
}

// A drain has the program end in order, and not begin again. Its socket is gone then.
func TestDrained(t *testing.T) {
	s, _ := supervise(t, false, 0, "trap 'exit 0' TERM; touch up; while :; do sleep 0.01; done")
	until(t, s, "running", func(x Status) bool { return x.State == Running })
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.plugins[0].program.Dir, "up")); err == nil { // it handles the signal
			break
		}
	}
	s.Drain()
	x := until(t, s, "end", func(x Status) bool { return x.State == Stopped })
	if x.Restarts != 0 || x.PID != 0 {
		t.Errorf("%+v", x)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Error("its sockets are left:", err)
	}
}

// The processes that a plugin has started end with it.
func TestChildrenEnd(t *testing.T) {
	s, stop := supervise(t, true, 0, "sleep 600 & echo $! > child; wait")
	file := filepath.Join(s.plugins[0].program.Dir, "child")
	var pid string
	for end := time.Now().Add(time.Minute); pid == "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		raw, _ := os.ReadFile(file) // it comes
		if text, whole := strings.CutSuffix(string(raw), "\n"); whole {
			pid = text
		}
	}
	stop()
	if runtime.GOOS != "linux" {
		return
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		raw, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(raw), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the process %s lives: %s", pid, raw)
		}
	}
}

// The memory of all processes of a plugin counts.
func TestMemory(t *testing.T) {
	if !measures {
		t.Skip("memory is measured on Linux alone")
	}
	s, stop := supervise(t, false, 64<<20, `sh -c 'x=$(head -c 100000000 /dev/zero | tr "\0" x); sleep 600' & wait`)
	x := until(t, s, "death", func(x Status) bool { return x.Restarts > 0 })
	if !strings.Contains(x.Error, "MiB of memory, its limit is 64 MiB") {
		t.Errorf("%+v", x)
	}
	stop()
}

func TestValidate(t *testing.T) {
	for name, p := range map[string]Program{
		"Upper": {Command: []string{"x"}}, "a.b": {Command: []string{"x"}}, "none": {}, "empty": {Command: []string{""}},
		"env": {Command: []string{"x"}, Env: map[string]string{"A=B": "c"}}, "own": {Command: []string{"x"}, PassEnv: []string{"STEPWELL_SECRETS_KEY"}},
	} {
		if err := p.Validate(name); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := (&Program{Command: []string{"no-such-program-of-mine"}}).Check("acme"); err == nil || !strings.Contains(err.Error(), "plugins.acme.command") {
		t.Error(err)
	}
}

// A long name of the folder of temporary files is no obstacle: the sockets lie in a shorter one, and the folder is left as it was.
func TestSocketsHaveShortNames(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("temporary", 12))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	s, _ := supervise(t, false, 0, "while :; do sleep 0.01; done")
	until(t, s, "running", func(x Status) bool { return x.State == Running })
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("left there: %v, %v", left, err)
	}
}
