package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// order is what a process of its own does: it starts executions, dies at a commit, and else ends with its input.
type order struct {
	URL    string
	Start  int
	DieAt  int // commit; 0: never
	Before bool
}

const orderVariable = "STEPWELL_TEST_FLEET_ORDER"

func TestMain(m *testing.M) {
	text := os.Getenv(orderVariable)
	if text == "" {
		http.DefaultClient.Timeout = time.Minute // a server that does not answer fails its test, not the whole run
		postgrestest.Main(m)
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.follow()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dying kills its own process at the n-th commit, before it or when it is durable and nobody has heard of it.
type dying struct {
	conductor.Store
	o  order
	mu sync.Mutex
	n  int
}

func (d *dying) Commit(ctx context.Context, commits []store.Commit) error {
	d.mu.Lock()
	d.n++
	die := d.n == d.o.DieAt
	d.mu.Unlock()
	if die && d.o.Before {
		d.die()
	}
	err := d.Store.Commit(ctx, commits)
	if die {
		d.die()
	}
	return err
}

// die is kill -9.
func (d *dying) die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	panic(fmt.Sprint("still alive: ", err))
}

func (o order) follow() error {
	ctx := context.Background()
	m, err := newMember(ctx, o.URL, parts{lease: 2 * time.Second, beat: 200 * time.Millisecond, store: func(s conductor.Store) conductor.Store { return &dying{Store: s, o: o} },
		set: func(m *member, o *conductor.Options) {
			slots := fleet.NewSlots(ctx, m.node, m.store)
			go slots.Run()
			o.Slots = slots
		}})
	if err != nil {
		return err
	}
	for i := range o.Start {
		text := six
		if i%2 == 1 {
			text = strings.Replace(six, "steps:", "settings: {concurrency: {key: k, limit: 2}}\nsteps:", 1)
		}
		if _, err := m.start(ctx, text); err != nil {
			return err
		}
		fmt.Println("started")
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return m.stop()
}

// process is a running one.
type process struct {
	cmd     *exec.Cmd
	in      io.Closer
	started int // lines: executions that it has answered for
	read    chan struct{}
}

func run(t *testing.T, o order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.started++
		}
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill() // the test has failed
			_ = p.cmd.Wait()
		}
	})
	return p
}

// end waits for the end of a process.
func (p *process) end() error {
	<-p.read
	return p.cmd.Wait()
}

// Nodes that are killed at any commit lose nothing and do nothing twice: others take their executions over, and the slots of
// concurrency keys that they held.
func TestKilledNodes(t *testing.T) {
	for _, at := range []int{1, 2, 7, 23} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprint(at, " before ", before), func(t *testing.T) {
				url := database(t)
				watch, err := postgres.Open(t.Context(), postgres.Options{URL: url})
				if err != nil {
					t.Fatal(err)
				}
				defer watch.Close()
				survivor := run(t, order{URL: url, Start: 3})
				victims := []*process{run(t, order{URL: url, Start: 30, DieAt: at, Before: before}), run(t, order{URL: url, Start: 30, DieAt: at + 3, Before: !before})}
				for _, v := range victims {
					if err := v.end(); err == nil {
						t.Error("it has ended in order")
					}
				}
				ended(t, watch)
				noSeats(t, watch)
				if err := survivor.in.Close(); err != nil {
					t.Fatal(err)
				}
				if err := survivor.end(); err != nil {
					t.Fatal(err)
				}
				list, err := watch.Executions(t.Context(), store.Filter{Limit: 1000})
				if least := survivor.started + victims[0].started + victims[1].started; err != nil || survivor.started != 3 || len(list) < least {
					t.Errorf("%d executions, at least %d were started, error %v", len(list), least, err)
				}
				checkBooks(t, url, len(list), sixOutputs)
			})
		}
	}
}

// ended waits until no execution is left to run.
func ended(t *testing.T, s *postgres.Store) {
	t.Helper()
	until(t, "the end of all executions", func() bool {
		list, err := s.Executions(t.Context(), store.Filter{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if !x.Status.Terminal() {
				return false
			}
		}
		return true
	})
}
