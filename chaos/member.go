package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/child"
)

// masterKey is the key of a database that holds no secrets.
const masterKey = "STEPWELL_SECRETS_KEY=c3RlcHdlbGwgY2hhb3M6IG5vIHNlY3JldHMgaGVyZS4="

// startPatience is how long a process may take until it is ready.
const startPatience = time.Minute

// member is a server or a worker: one process after the other.
type member struct {
	t      *trial
	name   string
	serves bool
	listen string // of a server: it comes back where it was
	args   func() []string

	mu      sync.Mutex
	process *child.Process
	api     *client.Client // of a server that is up
	ours    bool           // it has been killed or stopped on purpose
}

// begin starts all processes.
func (t *trial) begin(ctx context.Context) error {
	if err := t.lay(); err != nil {
		return err
	}
	for i := range t.Nodes {
		m := &member{t: t, name: fmt.Sprintf("node-%d", i+1), serves: true, listen: "127.0.0.1:0"}
		m.args = func() []string {
			return []string{"serve", "--db", t.DB, "--data", m.name, "--listen", m.listen, "--workers", "4", "--queue", t.Queue}
		}
		t.nodes = append(t.nodes, m)
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	for i := range t.Workers {
		m := &member{t: t, name: fmt.Sprintf("worker-%d", i+1)}
		m.args = func() []string {
			return []string{"worker", "--name", m.name, "--data", m.name, "--concurrency", "8", "--queues", "default," + queueName, "--server", strings.Join(t.addresses(), ","), "--redis", t.Queue}
		}
		t.workers = append(t.workers, m)
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the process, and waits until a server serves or a worker has joined one.
func (m *member) start(ctx context.Context) error {
	folder := filepath.Join(m.t.folder, m.name)
	settings := fmt.Appendf(nil, "queues: {%s: {concurrency: %d}}\n", queueName, queueLimit)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "stepwell.yaml"), settings, 0o600)); err != nil {
		return err
	}
	p, err := child.Start(m.t.folder, []string{masterKey, "STEPWELL_SERVER_LIMITS_RATE=100000", "STEPWELL_SERVER_LIMITS_BURST=100000", "STEPWELL_SERVER_LIMITS_EXECUTIONS=0",
		fmt.Sprintf("STEPWELL_SERVER_WORKER_LEASE_SECONDS=%g", m.t.lease.Seconds())}, m.args()...)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process, m.ours = p, false
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	address, err := p.Address(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", m.name, err), m.kill())
	}
	if m.serves {
		c, err := client.New(client.Options{URL: "http://" + address})
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.api, m.listen = c, address
		m.mu.Unlock()
	}
	go m.watch(p)
	return nil
}

// watch notes a process that ends by itself, and starts another, as a supervisor does: while the database is away that fails.
func (m *member) watch(p *child.Process) {
	<-p.Ended()
	m.mu.Lock()
	ours := m.ours
	m.api = nil
	m.mu.Unlock()
	t := m.t
	excused := t.mayEnd()
	t.mu.Lock()
	ours = ours || t.stopping
	if !ours {
		t.result.Ended++
	}
	t.mu.Unlock()
	if ours {
		return
	}
	t.say("%s has ended by itself: %s", m.name, lastLine(p.Said()))
	if !excused {
		t.wrong("%s ended by itself:\n%s", m.name, p.Said())
	}
	for err := m.start(context.Background()); err != nil; err = m.start(context.Background()) {
		if !t.mayEnd() {
			t.wrong("%s does not start again: %v", m.name, err)
			return
		}
		wait(context.Background(), 200*time.Millisecond)
	}
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// take marks the process as ended on purpose.
func (m *member) take() *child.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ours, m.api = true, nil
	return m.process
}

func (m *member) kill() error {
	m.take().Kill()
	return nil
}

func (m *member) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	return m.take().Stop(ctx)
}

func (m *member) client() *client.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.api
}

// addresses are those of the servers that are up.
func (t *trial) addresses() (list []string) {
	for _, m := range t.nodes {
		m.mu.Lock()
		if m.api != nil {
			if address, err := m.process.Address(context.Background()); err == nil { // known already
				list = append(list, "http://"+address)
			}
		}
		m.mu.Unlock()
	}
	return list
}

// end stops all processes in order, workers first.
func (t *trial) end() error {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
	var errs []error
	for _, m := range append(t.workers, t.nodes...) {
		m.mu.Lock()
		running := m.process != nil
		m.mu.Unlock()
		if running {
			if err := m.stop(); err != nil {
				errs = append(errs, fmt.Errorf("%s does not stop in order: %w", m.name, err))
			}
		}
	}
	return errors.Join(errs...)
}
