package redisstate_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/progress/redisstate"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// rig is a tracker on a database and a Redis server.
type rig struct {
	*testing.T
	address string
	store   *sqlite.Store
	log     *lines
	state   *redisstate.State
	*progress.Tracker
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// line prints values with spaces between them.
func line(x ...any) string { return strings.TrimSuffix(fmt.Sprintln(x...), "\n") }

// quick are times that a test can wait for.
func quick(address string, log *lines) redisstate.Options {
	return redisstate.Options{URL: "redis://" + address, Pauses: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}, Timeout: 5 * time.Second,
		Rest: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))}
}

// both runs a test with a Redis server, and on the database alone.
func both(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { f(t, newRig(t, redistest.Address(t), nil)) })
	t.Run("sql", func(t *testing.T) { f(t, newRig(t, "", nil)) })
}

// newRig begins with a server, or without one where the address is "", on the database of another rig if one is given.
func newRig(t *testing.T, address string, change func(*redisstate.Options, *progress.Options), other ...*rig) *rig {
	t.Helper()
	r := &rig{T: t, address: address, log: &lines{}}
	so, po := quick(address, r.log), progress.Options{Interval: 10 * time.Millisecond, Window: time.Millisecond, ReadTimeout: 30 * time.Second, Source: "sql", Log: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&so, &po)
	}
	var err error
	if len(other) > 0 {
		r.store = other[0].store
	} else {
		if r.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "store.db"), Synchronous: "normal"}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.must(r.store.Close()) })
	}
	po.Store = r.store
	if address != "" {
		if r.state, err = redisstate.Open(so); err != nil {
			t.Fatal(err)
		}
		po.State = r.state
	}
	if r.Tracker, err = progress.New(po); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.must(r.Close()) })
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// do runs a command in database 1, as another program would.
func (r *rig) do(command ...string) string {
	r.Helper()
	command[0] = "1/" + command[0]
	out, err := redistest.Do(r.address, command...)
	r.must(err)
	return out
}

// hash is what Redis has of a project, or the database where there is no server, as "status total done errors".
func (r *rig) hash(project string) string {
	r.Helper()
	if r.address == "" {
		list, err := r.store.Progress(r.Context(), []string{project})
		r.must(err)
		return line(list[0].Status, list[0].Total, list[0].Done, list[0].Errors)
	}
	return strings.ReplaceAll(r.do("HMGET", "smap:proj:"+project, "status", "total", "done", "errors"), "\n", " ")
}

// source is what answers.
func (r *rig) source() string {
	if r.address == "" {
		return "sql"
	}
	return "redis"
}

// name is a project of this test's own.
func (r *rig) name(suffix string) string { return strings.ReplaceAll(r.Name(), "/", "-") + suffix }

// project creates a project with a total, PROCESSING.
func (r *rig) project(suffix string, total int64) string {
	r.Helper()
	name := r.name(suffix)
	_, err := r.Create(r.Context(), name)
	r.must(err)
	p, err := r.FinishDiscovery(r.Context(), name, total)
	r.must(err)
	r.must(p.StateErr)
	return name
}

// add counts items.
func (r *rig) add(project string, done, errors int64) progress.Progress {
	r.Helper()
	p, err := r.Add(r.Context(), store.Count{Project: project, Done: done, Errors: errors}, "")
	r.must(err)
	return p
}

// until waits for a condition.
func (r *rig) until(what string, f func() bool) {
	r.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("waited without success until %s\n%s", what, r.log.buf.String())
		}
	}
}

// events counts the events of finished projects in the outbox.
func (r *rig) events() (n int) {
	r.Helper()
	list, err := r.store.Outbox(r.Context(), 0, 10_000)
	r.must(err)
	for _, o := range list {
		if o.Kind == store.JobCompleted {
			n++
		}
	}
	return n
}

func (r *rig) want(what string, got, want any) {
	r.Helper()
	if got != want {
		r.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
