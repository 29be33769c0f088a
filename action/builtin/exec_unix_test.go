//go:build unix

package builtin

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

// witness is a named pipe that processes hold open for writing: its end is the proof that all of them
// are dead.
type witness struct {
	path string
	read *bufio.Reader
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{path: filepath.Join(t.TempDir(), "witness")}
	if err := syscall.Mkfifo(w.path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened without waiting for a writer; what is read must not be taken for the end before there is one.
	f, err := os.OpenFile(w.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.read = bufio.NewReader(f)
	return w
}

// dead fails the test unless all holders are dead; rest is what they had written.
func (w *witness) dead(t *testing.T) (rest string) {
	t.Helper()
	all, err := io.ReadAll(w.read)
	if err != nil {
		t.Fatalf("a process lives on: %v", err)
	}
	return string(all)
}

// started is one run of a line for the shell that the test stops.
type started struct {
	cancel context.CancelFunc
	result chan actiontest.Result
	logged chan string
}

// start runs the line with $WITNESS in its environment; every line of its log comes over logged.
func (w *witness) start(t *testing.T, line string, more params) *started {
	t.Helper()
	s := &started{result: make(chan actiontest.Result, 1), logged: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	p := params{"command": line, "env": params{"WITNESS": w.path}}
	for name, value := range more {
		p[name] = value
	}
	call := &action.Call{Params: p, Dir: t.TempDir(), Host: lineHost{logged: s.logged}}
	go func() {
		outputs, err := execHandler{}.Run(ctx, call)
		o, _ := outputs.(map[string]any)
		s.result <- actiontest.Result{Outputs: o, Err: err}
	}()
	t.Cleanup(cancel)
	return s
}

type lineHost struct {
	discard
	logged chan string
}

// Log implements action.Host.
func (h lineHost) Log(_ slog.Level, message string, _ ...slog.Attr) { h.logged <- message }

func TestExecCancelKillsGroup(t *testing.T) {
	tests := map[string]struct {
		line  string
		grace float64
		rest  string
	}{
		"child": {`exec 3>"$WITNESS"; echo ready; sleep 1000`, 5, ""},
		"grandchild with its own output": {
			`(exec 3>"$WITNESS"; sh -c 'sleep 1000' >/dev/null 2>&1 & echo ready; wait)`, 5, ""},
		"grandchild that holds the pipes": {`exec 3>"$WITNESS"; sleep 1000 & echo ready; wait`, 5, ""},
		"ends well on SIGTERM":            {`exec 3>"$WITNESS"; trap 'echo bye >&3; exit 0' TERM; echo ready; while :; do sleep 0.01; done`, 5, "bye\n"},
		"ignores SIGTERM":                 {`trap '' TERM; exec 3>"$WITNESS"; echo ready; while :; do sleep 1000; done`, 0.05, ""},
		"grandchild ignores SIGTERM": {
			`exec 3>"$WITNESS"; sh -c 'trap "" TERM; echo ready; while :; do sleep 1000; done' & wait`, 0.05, ""},
		"stopped": {`exec 3>"$WITNESS"; echo ready; kill -STOP $$`, 0.05, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			s := w.start(t, test.line, params{"grace_seconds": test.grace})
			<-s.logged
			s.cancel()
			got := <-s.result
			if stepwell.CodeOf(got.Err) != stepwell.CodeCancelled {
				t.Errorf("error %v, want code cancelled", got.Err)
			}
			if rest := w.dead(t); rest != test.rest {
				t.Errorf("the witness heard %q, want %q", rest, test.rest)
			}
		})
	}
}

func TestExecTimeout(t *testing.T) {
	a, _ := registry(t).Lookup("util.exec")
	got := actiontest.Run(t.Context(), *a, actiontest.Call{Timeout: 50 * time.Millisecond, Params: params{"command": "sleep 1000"}})
	if stepwell.CodeOf(got.Err) != stepwell.CodeTimeout || !strings.Contains(got.Err.Error(), "time limit") {
		t.Errorf("error %v, want code timeout", got.Err)
	}
}

// TestExecLeftBehind: a program that ends and leaves processes behind succeeds, but they die.
func TestExecLeftBehind(t *testing.T) {
	t.Run("with the output closed", func(t *testing.T) {
		w := newWitness(t)
		s := w.start(t, `(exec 3>"$WITNESS" >/dev/null 2>&1; echo up >&3; sleep 1000) & read line < "$WITNESS"; echo $line`, nil)
		if got := <-s.result; got.Err != nil || got.Outputs["exit_code"] != 0 {
			t.Errorf("got %v, %v", got.Outputs, got.Err)
		}
		w.dead(t)
	})
	t.Run("with the output open", func(t *testing.T) {
		w := newWitness(t)
		s := w.start(t, `(exec 3>"$WITNESS"; sleep 1000) & echo done`, params{"grace_seconds": 0})
		if got := <-s.result; got.Err != nil || got.Outputs["stdout"] != "done" {
			t.Errorf("got %v, %v", got.Outputs, got.Err)
		}
		w.dead(t)
		if first, second := <-s.logged, <-s.logged; first != "done" || !strings.Contains(second, "left behind") {
			t.Errorf("log %q, %q", first, second)
		}
	})
	t.Run("cancelled meanwhile", func(t *testing.T) {
		w := newWitness(t)
		s := w.start(t, `(exec 3>"$WITNESS"; echo up; sleep 1000) & exit 0`, params{"grace_seconds": 300})
		<-s.logged
		s.cancel()
		<-s.result
		w.dead(t)
	})
}

// TestExecEscaped: a process that leaves the group is not killed, but it cannot hold up the step.
func TestExecEscaped(t *testing.T) {
	w := newWitness(t)
	s := w.start(t, `perl -MPOSIX -e 'fork and exit; POSIX::setsid(); open(F, ">", $ENV{WITNESS}); syswrite(F, "$$\n"); sleep 1000' || exit 9; echo done`,
		params{"grace_seconds": 0})
	got := <-s.result
	if got.Err != nil && strings.Contains(got.Err.Error(), "exit code 9") {
		t.Skip("perl is not installed: a process in a session of its own is left out")
	}
	if got.Err != nil || got.Outputs["stdout"] != "done" {
		t.Errorf("got %v, %v", got.Outputs, got.Err)
	}
	killFrom(t, w)
}

// killFrom kills the process whose number the witness hears, and waits for its end.
func killFrom(t *testing.T, w *witness) {
	line, err := w.read.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for _, digit := range strings.TrimSpace(line) {
		pid = pid*10 + int(digit-'0')
	}
	if pid < 2 {
		t.Fatalf("process number %q", line)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.dead(t)
}

// flood counts what is logged, and looks at the memory from time to time.
type flood struct {
	discard
	lines, bytes, peak, longest atomic.Int64
	invalid                     atomic.Bool
}

// Log implements action.Host.
func (f *flood) Log(_ slog.Level, message string, _ ...slog.Attr) {
	f.bytes.Add(int64(len(message)))
	if int64(len(message)) > f.longest.Load() {
		f.longest.Store(int64(len(message)))
	}
	if !utf8.ValidString(message) || strings.ContainsRune(message, 0) {
		f.invalid.Store(true)
	}
	if f.lines.Add(1)%20_000 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if held := int64(m.HeapInuse); held > f.peak.Load() {
			f.peak.Store(held)
		}
	}
}

// TestExecFlood: 100 MB of output, in lines, in one line and as garbage on both streams.
func TestExecFlood(t *testing.T) {
	const size = 100_000_000
	tests := map[string]string{
		"lines":    `yes 'the quick brown fox jumps over the lazy dog, and once more for good measure ....' | head -c 100000000`,
		"one line": `head -c 100000000 /dev/zero | tr '\0' x`,
		"garbage":  `head -c 50000000 /dev/urandom & head -c 50000000 /dev/urandom >&2; wait`,
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			runtime.GC() // what other tests left
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			var f flood
			start := time.Now()
			value, err := execHandler{}.Run(t.Context(), &action.Call{Params: params{"command": line}, Host: &f})
			if err != nil {
				t.Fatal(err)
			}
			outputs := value.(map[string]any)
			if text := outputs["stdout"].(string); len(text) > 4*maxCapture || !utf8.ValidString(text) || outputs["stdout_truncated"] != true {
				t.Errorf("stdout has %d bytes, truncated %v", len(text), outputs["stdout_truncated"])
			}
			if f.invalid.Load() {
				t.Error("a line is not valid text")
			}
			if f.longest.Load() > 3*maxLine+100 {
				t.Errorf("a line has %d bytes", f.longest.Load())
			}
			if name == "lines" && f.bytes.Load()+f.lines.Load() < size {
				t.Errorf("%d bytes in %d lines were logged, want %d", f.bytes.Load(), f.lines.Load(), size)
			}
			grown := f.peak.Load() - int64(before.HeapInuse)
			if grown > 32<<20 {
				t.Errorf("%d MiB more in use at the peak", grown>>20)
			}
			t.Logf("%d lines, %d MiB more at the peak, %v", f.lines.Load(), grown>>20, time.Since(start).Round(time.Millisecond))
		})
	}
}
