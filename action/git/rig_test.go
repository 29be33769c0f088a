package git_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/outbound"
)

type params = map[string]any

// origin is a repository on a server that speaks git's smart HTTP with TLS, of this machine's git http-backend.
type origin struct {
	t      *testing.T
	work   string // where commits are made
	bare   string
	url    string
	caFile string
	server *httptest.Server

	mu       sync.Mutex
	password string // with which the server lets in; "": everybody
	answer   func(w http.ResponseWriter, r *http.Request) bool
	seen     []*http.Request
}

// gitProgram leaves a test out where there is no git with http-backend.
func gitProgram(t *testing.T) {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err == nil {
		_, err = os.Stat(filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"))
	}
	if err != nil {
		t.Skip("git with http-backend is not installed: repositories are left out")
	}
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	gitProgram(t)
	dir := t.TempDir()
	o := &origin{t: t, work: filepath.Join(dir, "work"), bare: filepath.Join(dir, "served", "repo.git"), caFile: filepath.Join(dir, "ca.pem")}
	o.git(dir, "init", "-q", "-b", "main", o.work)
	o.git(dir, "init", "-q", "--bare", "-b", "main", o.bare)
	o.git(o.bare, "config", "uploadpack.allowFilter", "true")
	o.git(o.bare, "config", "http.uploadpack", "true")
	backend := &cgi.Handler{Path: program(t), Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"}}
	o.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.seen = append(o.seen, r.Clone(t.Context()))
		password, answer := o.password, o.answer
		o.mu.Unlock()
		if answer != nil && answer(w, r) {
			return
		}
		if _, got, _ := r.BasicAuth(); password != "" && got != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if v := r.Header.Get("Git-Protocol"); v != "" {
			h := *backend
			h.Env = append(append([]string{}, backend.Env...), "GIT_PROTOCOL="+v)
			h.ServeHTTP(w, r)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(o.server.Close)
	o.url = o.server.URL + "/repo.git"
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.server.Certificate().Raw})
	if _, err := x509.ParseCertificate(o.server.Certificate().Raw); err != nil {
		t.Fatal(err)
	}
	o.write(o.caFile, string(cert))
	return o
}

func program(t *testing.T) string {
	path, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	return path
}

func (o *origin) write(path, text string) {
	o.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		o.t.Fatal(err)
	}
}

// git runs git as somebody who writes the repository.
func (o *origin) git(dir string, args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, commits them and pushes main; it gives the commit.
func (o *origin) commit(files map[string]string) string {
	o.t.Helper()
	for name, text := range files {
		o.write(filepath.Join(o.work, name), text)
	}
	return o.push()
}

func (o *origin) push() string {
	o.t.Helper()
	o.git(o.work, "add", "-A")
	o.git(o.work, "commit", "-q", "--allow-empty", "-m", "change")
	o.git(o.work, "push", "-q", "--force", o.bare, "HEAD:refs/heads/main")
	return o.git(o.work, "rev-parse", "HEAD")
}

func (o *origin) requests() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*http.Request{}, o.seen...)
}

func (o *origin) set(change func(o *origin)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// loopback permits the addresses of tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// rig is the action as a process has it, with a cache of its own.
type rig struct {
	action action.Action
	o      git.Options
}

func newRig(t *testing.T, o git.Options, out outbound.Options) *rig {
	t.Helper()
	if o.Cache == "" {
		o.Cache = filepath.Join(t.TempDir(), "cache")
	}
	o.Pause = time.Millisecond
	client, err := outbound.New(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := new(action.Registry)
	if err := git.Register(r, client, o); err != nil {
		t.Fatal(err)
	}
	a, _ := r.Lookup(git.Name)
	return &rig{action: *a, o: o}
}

func (o *origin) rig() *rig {
	return newRig(o.t, git.Options{CAFile: o.caFile}, outbound.Options{AllowCIDRs: loopback})
}

func (r *rig) run(t *testing.T, c actiontest.Call) actiontest.Result {
	t.Helper()
	if c.Execution == "" {
		c.Execution = strings.ReplaceAll(t.Name(), "/", "-")
	}
	return actiontest.Run(t.Context(), r.action, c)
}

// fails checks that an attempt failed with a code, for good or not, and says so.
func fails(t *testing.T, got actiontest.Result, code stepwell.Code, forGood bool, text string) {
	t.Helper()
	if stepwell.CodeOf(got.Err) != code || action.IsFail(got.Err) != forGood || !strings.Contains(got.Err.Error(), text) {
		t.Errorf("error %q (%s, for good: %t), want %s, %t, %q", got.Err, stepwell.CodeOf(got.Err), action.IsFail(got.Err), code, forGood, text)
	}
}

// succeeds gives the outputs of an attempt.
func succeeds(t *testing.T, got actiontest.Result) params {
	t.Helper()
	if got.Err != nil {
		t.Fatalf("%v (%s)", got.Err, stepwell.HintOf(got.Err))
	}
	return got.Outputs
}
