package daprtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// process is one process of the program, and its output.
type process struct {
	t     testing.TB
	log   bytes.Buffer // read it when the process has ended
	ended chan struct{}

	mu             sync.Mutex
	cmd            *exec.Cmd
	again, stopped bool // the process is started again when it ends; the test has ended it
}

func startProcess(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, ended: make(chan struct{})}
	if err := p.start(append([]string{program}, args...)); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for again := true; again; {
			_ = p.cmd.Wait() // killed, or its log says why
			p.mu.Lock()
			again = p.again && !p.stopped && p.start(p.cmd.Args) == nil
			p.mu.Unlock()
		}
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *process) start(args []string) error {
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), "DAPR_HOST_IP=127.0.0.1")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	return p.cmd.Start()
}

// supervise has the process started again when it ends.
func (p *process) supervise() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = true
}

// kill kills the process. One that is supervised is started again.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended by itself
}

// stop kills the process for good. It may be called twice.
func (p *process) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.kill()
	<-p.ended
}

// Services are a placement service and a scheduler, which actors, workflows and jobs need.
type Services struct {
	placement, scheduler string // addresses
}

// NewServices starts the services, on loopback and with a folder of their own, and returns when both serve. The test ends them.
func (n *Network) NewServices() *Services {
	n.t.Helper()
	ports := freePorts(n.t, 6)
	port := func(i int) string { return strconv.Itoa(ports[i]) }
	peer := "http://127.0.0.1:" + port(4)
	scheduler := startProcess(n.t, n.program, "scheduler", "--listen-address", "127.0.0.1", "--port", port(0), "--healthz-port", port(1), "--healthz-listen-address", "127.0.0.1",
		"--id", "one", "--etcd-data-dir", filepath.Join(n.dir, "scheduler"), "--etcd-client-port", port(2), "--etcd-initial-cluster", "one="+peer, "--etcd-initial-election-tick-advance",
		"--override-broadcast-host-port", "127.0.0.1:"+port(0), "--identity-directory-write", filepath.Join(n.dir, "identity"), "--enable-metrics=false", "--log-level", "warn")
	placement := startProcess(n.t, n.program, "placement", "--listen-address", "127.0.0.1", "--port", port(3), "--healthz-port", port(5),
		"--id", "one", "--initial-cluster", "one=127.0.0.1:"+strconv.Itoa(freePorts(n.t, 1)[0]), "--enable-metrics=false", "--log-level", "warn", "--disseminate-timeout", "1s")
	s := &Services{placement: "127.0.0.1:" + port(3), scheduler: "127.0.0.1:" + port(0)}
	scheduler.awaitPort(s.scheduler)
	placement.awaitPort(s.placement)
	return s
}

// awaitPort waits until something listens at an address.
func (p *process) awaitPort(address string) {
	p.t.Helper()
	for range 1200 { // a minute
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-p.ended:
			p.t.Fatalf("%s has ended:\n%s", p.cmd.Args[1], p.log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	p.stop()
	p.t.Fatalf("%s does not listen:\n%s", p.cmd.Args[1], p.log.String())
}

// AddComponent gives the sidecars started from now on a component, such as "state.sqlite". Metadata are its settings.
func (n *Network) AddComponent(name, kind string, metadata map[string]string) {
	n.t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: dapr.io/v1alpha1\nkind: Component\nmetadata: {name: %s}\nspec:\n  type: %s\n  version: v1\n  metadata:\n", name, kind)
	for k, v := range metadata {
		fmt.Fprintf(&b, "  - {name: %s, value: %q}\n", k, v)
	}
	if len(metadata) == 0 {
		b.WriteString("    []\n")
	}
	if err := os.WriteFile(filepath.Join(n.dir, "components", name+".yaml"), b.Bytes(), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// AddActorStore gives the sidecars started from now on a SQLite file for actors and workflows, which outlives them.
func (n *Network) AddActorStore() {
	n.t.Helper()
	n.AddComponent("actors", "state.sqlite", map[string]string{"connectionString": filepath.Join(n.dir, "actors.db"), "actorStateStore": "true"})
}
