// Package kubetest gives tests a Kubernetes cluster: the real control plane (etcd, API server, controllers), which package
// tooltest builds, in processes of the test's own on loopback, and Kubelet, a node that runs pods as processes of this machine.
//
// Stability: for this module's tests.
package kubetest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/tooltest"
)

// Cluster is a control plane. Its methods may be called from many goroutines.
type Cluster struct {
	URL   string // https://127.0.0.1:PORT
	CA    []byte // PEM
	Token string // of an administrator

	dir      string
	program  string
	listener *os.File // kept open: the API server has the same address after a restart
	client   *http.Client

	mu                          sync.Mutex
	etcd, apiserver, controller *part
}

// nobody is the address of etcd for other members and for clients that ask for members: there are none.
const nobody = "http://127.0.0.1:1"

// shared is the control plane of this test process, started by the first test that needs it.
var shared struct {
	mu      sync.Mutex
	tried   bool
	cluster *Cluster
	err     error
}

// Main runs a package's tests and stops the control plane that they have used; it is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

// Stop stops the control plane that the tests of this process have used, if one is running. For a TestMain that does more.
func Stop() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster != nil {
		shared.cluster.stop()
	}
	shared.cluster, shared.err = nil, errors.New("kubetest.Stop was called")
}

// Start returns the control plane that all tests of this process share: each takes a Namespace of its own and may not restart
// it. The package's TestMain calls Main or Stop. Where the control plane is not built the test is skipped with one line, or
// fails if CI is "true".
func Start(t testing.TB) *Cluster {
	t.Helper()
	program := tooltest.Path(t, tooltest.Kube)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.tried {
		shared.tried = true
		shared.cluster, shared.err = start(program)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// New starts a control plane for one test, which may restart it. That takes about five seconds.
func New(t testing.TB) *Cluster {
	t.Helper()
	c, err := start(tooltest.Path(t, tooltest.Kube))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

func start(program string) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp("", "kubetest-") // short: etcd's socket is in it
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, program: program, Token: rand.Text()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("kubernetes control plane: %w", err)
			c.stop()
		}
	}()
	if err := c.write(); err != nil {
		return nil, err
	}
	if c.etcd, err = c.run("etcd", nil, "--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--log-level", "warn", "--listen-client-urls", "unix://"+c.path("c.sock"),
		"--advertise-client-urls", nobody, "--listen-peer-urls", "unix://"+c.path("p.sock"), "--initial-advertise-peer-urls", nobody, "--initial-cluster", "default="+nobody); err != nil {
		return nil, err
	}
	if err := c.serve(); err != nil {
		return nil, err
	}
	c.controller, err = c.run("controllers", nil, "--kubeconfig", c.path("kubeconfig"), "--secure-port", "0", "--leader-elect=false", "--kube-api-qps", "1000",
		"--kube-api-burst", "2000", "--concurrent-job-syncs", "20", "--use-service-account-credentials=false", "--controllers", "job-controller,cronjob-controller,"+
			"ttl-after-finished-controller,garbage-collector-controller,namespace-controller,pod-garbage-collector-controller,deployment-controller,replicaset-controller,"+
			"statefulset-controller,disruption-controller")
	return c, err
}

// write writes the keys and certificates, the users and the administrator's kubeconfig, and opens the listener.
func (c *Cluster) write() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close() // its file stays
	if c.listener, err = l.(*net.TCPListener).File(); err != nil {
		return err
	}
	c.URL = "https://" + l.Addr().String()
	issued, err := issue("127.0.0.1")
	if err != nil {
		return err
	}
	c.CA = issued.ca
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16}}
	return errors.Join(c.put("tls.crt", issued.cert), c.put("tls.key", issued.key), c.put("sa.key", issued.key),
		c.put("tokens", []byte(c.Token+",kubetest,kubetest,system:masters\n")), c.put("kubeconfig", []byte(c.Kubeconfig("default"))))
}

func (c *Cluster) put(name string, data []byte) error { return os.WriteFile(c.path(name), data, 0o600) }

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// serve starts the API server and waits until it is ready. Nobody else can answer: the certificate is this cluster's own.
func (c *Cluster) serve() error {
	p, err := c.run("apiserver", c.listener, "--etcd-servers", "unix://"+c.path("c.sock"), "--bind-address", "127.0.0.1", "--cert-dir", c.dir,
		"--tls-cert-file", c.path("tls.crt"), "--tls-private-key-file", c.path("tls.key"), "--token-auth-file", c.path("tokens"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubetest", "--service-account-key-file", c.path("sa.key"), "--service-account-signing-key-file", c.path("sa.key"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none", "--kubelet-preferred-address-types", "InternalIP",
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
	if err != nil {
		return err
	}
	c.apiserver = p
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; {
		select {
		case <-p.ended:
			return fmt.Errorf("the API server has ended:\n%s", p.said())
		case <-c.etcd.ended:
			return fmt.Errorf("etcd has ended:\n%s", c.etcd.said())
		case <-time.After(50 * time.Millisecond):
		}
		if c.ready() {
			return nil
		}
	}
	return fmt.Errorf("the API server does not become ready:\n%s", p.said())
}

func (c *Cluster) ready() bool {
	req, err := http.NewRequest("GET", c.URL+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	bounded := http.Client{Transport: c.client.Transport, Timeout: 5 * time.Second}
	resp, err := bounded.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the status says it
	return resp.StatusCode == http.StatusOK
}

// Restart kills the API server, does what it is told while there is none (nil: nothing), and starts it again at the same
// address. Connections are cut; new ones wait for it. Watches begun before may be answered 410. Only for a cluster of New.
func (c *Cluster) Restart(t testing.TB, meanwhile func()) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c == shared.cluster {
		t.Fatal("kubetest: the cluster of Start is shared, a test may only restart one of New")
	}
	c.apiserver.kill()
	if meanwhile != nil {
		meanwhile()
	}
	if err := c.serve(); err != nil {
		t.Fatal(err)
	}
}

// stop ends all processes and removes their data.
func (c *Cluster) stop() {
	for _, p := range []*part{c.controller, c.apiserver, c.etcd} {
		if p != nil {
			p.kill()
		}
	}
	if c.listener != nil {
		_ = c.listener.Close() // nothing is left to be done with it
	}
	_ = os.RemoveAll(c.dir) // a temporary folder
}

// Kubeconfig is the text of a kubeconfig of the administrator.
func (c *Cluster) Kubeconfig(namespace string) string {
	return c.KubeconfigOf(c.URL, namespace, "token: "+c.Token)
}

// KubeconfigOf is the text of a kubeconfig with another address, a proxy's, or user: "tokenFile: PATH", "token: TOKEN".
func (c *Cluster) KubeconfigOf(address, namespace, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts:
- {name: test, context: {cluster: test, user: test, namespace: %s}}
clusters:
- name: test
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: test
  user:
    %s
`, namespace, address, base64.StdEncoding.EncodeToString(c.CA), user)
}

// part is one process of the control plane.
type part struct {
	cmd   *exec.Cmd
	log   string
	stdin io.Closer
	ended chan struct{}
}

func (c *Cluster) run(name string, listener *os.File, args ...string) (*part, error) {
	log, err := os.OpenFile(c.path(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has it
	p := &part{cmd: exec.Command(c.program, append([]string{name}, args...)...), log: log.Name(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, c.dir
	if listener != nil {
		p.cmd.ExtraFiles = []*os.File{listener}
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // killed, or its log says why
	}()
	return p, nil
}

func (p *part) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

// said is the end of the process's log.
func (p *part) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
