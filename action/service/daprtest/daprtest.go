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
	if err := os.Mkdir(filepath.Join(n.dir, "components"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// Sidecar is one process of daprd.
type Sidecar struct {
	Port int // of its HTTP API
	GRPC int // port of its gRPC API

	*process
	again      func()
	supervised bool
	token      string
}

// Start starts the sidecar of an app that listens on a port of this machine (0: an app that only calls), and returns when it
// serves. The test ends it.
func (n *Network) Start(app string, appPort int) *Sidecar {
	n.t.Helper()
	return n.StartWith(app, appPort, nil)
}

// StartWith starts a sidecar like Start, for an app that hosts or calls workflows, actors or jobs.
func (n *Network) StartWith(app string, appPort int, services *Services) *Sidecar {
	n.t.Helper()
	ports := freePorts(n.t, 3)
	s := &Sidecar{Port: ports[0], GRPC: ports[1], token: os.Getenv("DAPR_API_TOKEN")}
	s.launch(n, app, appPort, ports[2], services)
	return s
}

func (s *Sidecar) launch(n *Network, app string, appPort, internal int, services *Services) {
	n.t.Helper()
	args := []string{"-app-id", app, "-config", filepath.Join(n.dir, "config.yaml"), "-components", filepath.Join(n.dir, "components"),
		"-http-port", strconv.Itoa(s.Port), "-grpc-port", strconv.Itoa(s.GRPC), "-internal-port", strconv.Itoa(internal)}
	if appPort > 0 {
		args = append(args, "-app-port", strconv.Itoa(appPort))
	}
	if services != nil {
		args = append(args, "-scheduler", services.scheduler, "-placement", services.placement)
	}
	s.process = startProcess(n.t, n.program, args...)
	if s.supervised {
		s.supervise()
	}
	s.again = func() { s.launch(n, app, appPort, internal, services) }
	s.await(app)
}

// Restart starts the sidecar again, on the same ports, after it was stopped.
func (s *Sidecar) Restart() { s.again() }

// await waits until the process answers under its name; another process on the port would not.
func (s *Sidecar) await(app string) {
	s.t.Helper()
	for range 1200 { // a minute
		select {
		case <-s.ended:
			s.t.Fatalf("the sidecar of %s has ended:\n%s", app, s.log.String())
		case <-time.After(50 * time.Millisecond):
		}
		resp, err := s.Do(http.MethodGet, "/v1.0/metadata", "", nil)
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
	s.t.Fatalf("the sidecar of %s does not serve:\n%s", app, s.log.String())
}

// URL is that of a path of the sidecar's API.
func (s *Sidecar) URL(path string) string { return "http://127.0.0.1:" + strconv.Itoa(s.Port) + path }

// Do sends a request to the sidecar's API, with the token that it was started with: DAPR_API_TOKEN of the test.
func (s *Sidecar) Do(method, path, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL(path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("dapr-api-token", s.token)
	return http.DefaultClient.Do(req)
}

// Supervise starts the sidecar again whenever it ends, as Kubernetes does, until the test stops it.
func (s *Sidecar) Supervise() {
	s.supervised = true
	s.supervise()
}

// Kill kills the process. A supervised sidecar is started again.
func (s *Sidecar) Kill() { s.kill() }

// Stop kills the process. It may be called twice.
func (s *Sidecar) Stop() { s.stop() }

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
