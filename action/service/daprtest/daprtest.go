// Package daprtest starts Dapr's own sidecar, daprd, for tests of what goes through it. For tests only.
//
// The program is the module in the folder daprd beside it, built by package tooltest. Every sidecar is a
// private process on loopback; names of apps are found in a file of the test.
package daprtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stepwell/stepwell/tooltest"
)

// Network is a set of sidecars that know each other's apps.
type Network struct {
	t       testing.TB
	program string
	dir     string
}

// NewNetwork builds the sidecar when that is needed; see tooltest.Path.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := &Network{t: t, program: tooltest.Path(t, tooltest.Daprd), dir: t.TempDir()}
	config := fmt.Sprintf(`apiVersion: dapr.io/v1alpha1
kind: Configuration
metadata: {name: test}
spec:
  tracing: {samplingRate: "1"}
  nameResolution: {component: sqlite, version: v1, configuration: {connectionString: %q}}
`, filepath.Join(n.dir, "names.db"))
	if err := os.WriteFile(filepath.Join(n.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// Sidecar is one process of daprd.
type Sidecar struct {
	Port int // of its HTTP API

	n     *Network
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
}

// Start starts the sidecar of an app that listens on a port of this machine (0: an app that only calls), and returns when it
// serves. The test ends it.
func (n *Network) Start(app string, appPort int) *Sidecar {
	n.t.Helper()
	ports := freePorts(n.t, 3)
	s := &Sidecar{Port: ports[0], n: n}
	args := []string{"-app-id", app, "-config", filepath.Join(n.dir, "config.yaml"), "-http-port", strconv.Itoa(ports[0]), "-grpc-port", strconv.Itoa(ports[1]),
		"-internal-port", strconv.Itoa(ports[2])}
	if appPort > 0 {
		args = append(args, "-app-port", strconv.Itoa(appPort))
	}
	s.cmd = exec.Command(n.program, args...)
	s.cmd.Env = append(os.Environ(), "DAPR_HOST_IP=127.0.0.1")
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // killed, or its log says why
	}()
	n.t.Cleanup(s.Stop)
	s.await(app)
	return s
}

// await waits until the process answers under its name; another process on the port would not.
func (s *Sidecar) await(app string) {
	s.n.t.Helper()
	for range 1200 { // a minute
		select {
		case <-s.ended:
			s.n.t.Fatalf("the sidecar of %s has ended:\n%s", app, s.log.String())
		case <-time.After(50 * time.Millisecond):
		}
		resp, err := http.Get(s.URL("/v1.0/metadata"))
		if err != nil {
			continue
		}
		var said struct{ ID string }
		err = json.NewDecoder(resp.Body).Decode(&said)
		resp.Body.Close()
		if err == nil && said.ID == app {
			return
		}
	}
	s.Stop()
	s.n.t.Fatalf("the sidecar of %s does not serve:\n%s", app, s.log.String())
}

// URL is that of a path of the sidecar's API.
func (s *Sidecar) URL(path string) string { return "http://127.0.0.1:" + strconv.Itoa(s.Port) + path }

// Stop kills the process. It may be called twice.
func (s *Sidecar) Stop() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.ended
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
