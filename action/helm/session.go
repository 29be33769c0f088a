package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/kube"
)

// Oldest says which versions of helm the actions work with.
const Oldest = "4, or 3.15 and later"

// Version finds helm and its version. CodeInvalid where there is none, or one that is too old.
func Version(ctx context.Context) (path, version string, err error) {
	home, err := os.MkdirTemp("", "stepwell-helm-") // so that it reads nothing of the user's
	if err != nil {
		return "", "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "temporary directory of helm", Err: err}
	}
	defer os.RemoveAll(home)
	needed := builtin.Required{Name: "helm", Action: Install, Args: []string{"version", "--short"}, Env: environment(home), Text: versionText(), Least: [2]int{3, 15}, Oldest: Oldest}
	return needed.Version(ctx)
}

// versions are those of programs that were asked before.
var versions sync.Map // of program

// program is a file as it was.
type program struct {
	path string
	size int64
	at   time.Time
}

// find is Version, without running helm again as long as its file is the same.
func find(ctx context.Context) (path, version string, err error) {
	path, err = exec.LookPath("helm")
	if err != nil {
		return Version(ctx) // which says so
	}
	info, err := os.Stat(path)
	if err != nil {
		return Version(ctx)
	}
	file := program{path, info.Size(), info.ModTime()}
	if known, ok := versions.Load(file); ok {
		return path, known.(string), nil
	}
	if path, version, err = Version(ctx); err == nil {
		versions.Store(file, version)
	}
	return path, version, err
}

var versionText = action.Pattern(`^v?(([0-9]{1,4})\.([0-9]{1,4})[0-9A-Za-z.+-]*)`)

// environment is the whole environment of helm, which keeps its files in home and has no plugins there.
func environment(home string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LC_ALL=C", "HELM_CACHE_HOME=" + filepath.Join(home, "cache"), "HELM_CONFIG_HOME=" + filepath.Join(home, "config"),
		"HELM_DATA_HOME=" + filepath.Join(home, "data"), "HELM_PLUGINS=" + filepath.Join(home, "plugins"), "HELM_DRIVER=secret", "HELM_NO_COLOR=1", "KUBECACHEDIR=" + filepath.Join(home, "kube")}
	return env
}

// session runs helm for one attempt.
type session struct {
	h         *handler
	call      *action.Call
	t         *target
	cluster   *kube.Cluster
	namespace string
	programs  *builtin.Programs
	program   string // path of helm
	legacy    bool   // helm 3
	private   string
	hidden    *strings.Replacer // takes secrets out of helm's messages; nil: there are none
}

// open finds helm and the cluster; the caller closes the session.
func (h *handler) open(ctx context.Context, call *action.Call, t *target) (_ *session, err error) {
	s := &session{h: h, call: call, t: t}
	if s.cluster, err = h.o.Clusters.Find(t.Cluster); err != nil {
		return nil, action.Fail(err)
	}
	if s.namespace, err = s.cluster.Namespace(ctx, t.Namespace); err != nil {
		return nil, lasting(err)
	}
	config, err := s.cluster.Kubeconfig(ctx)
	if err != nil {
		return nil, lasting(err)
	}
	version := ""
	if s.program, version, err = find(ctx); err != nil {
		return nil, lasting(err)
	}
	s.legacy = strings.HasPrefix(version, "3.")
	if s.programs, err = builtin.OpenPrograms(ctx, call, builtin.Options{}); err != nil {
		return nil, err
	}
	if s.private, err = s.programs.Private(); err == nil {
		err = os.WriteFile(s.kubeconfig(), config, 0o600)
	}
	if err != nil {
		s.programs.Close()
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "temporary directory of helm", Err: err}
	}
	return s, nil
}

func (s *session) close() { s.programs.Close() }

func (s *session) kubeconfig() string { return filepath.Join(s.private, "kubeconfig") }

// id names the release in the cluster, for turns and for viewers of a step that waits.
func (s *session) id() string {
	return "helm:" + s.cluster.ID() + "/" + s.namespace + "/" + s.t.Release
}

// lasting ends the step for errors that another attempt would meet again.
func lasting(err error) error {
	switch stepwell.CodeOf(err) {
	case stepwell.CodeInvalid, stepwell.CodeDenied, stepwell.CodeNotFound, stepwell.CodeLimit:
		return action.Fail(err)
	}
	return err
}

const (
	// grace is what helm gets to mark a release as failed.
	grace = 40 * time.Second
	// maxRendered bounds what is read of helm's output.
	maxRendered = 32 << 20
)

// answer is how a run of helm ended.
type answer struct {
	code           int
	stdout, stderr string
}

// helm runs helm on the cluster. The error is that of a run that did not take place, or was stopped.
func (s *session) helm(ctx context.Context, stdin []byte, args ...string) (a answer, err error) {
	args = append([]string{s.program, "--kubeconfig", s.kubeconfig(), "--namespace", s.namespace}, args...)
	env := environment(s.private)
	if home, err := os.UserHomeDir(); err == nil {
		env = append(env, "HOME="+home) // for the programs that give a kubeconfig's credentials
	}
	t := builtin.Tool{Argv: args, Env: env, Dir: s.private, Stdin: stdin, Keep: maxRendered, Grace: grace}
	a.code, a.stdout, a.stderr, err = s.programs.Tool(ctx, t)
	a.stderr = s.without(a.stderr)
	return a, err
}

// without takes the step's secrets out of a text of helm's. Its JSON is read before: a secret may be "true".
func (s *session) without(text string) string {
	if s.hidden == nil {
		return text
	}
	return s.hidden.Replace(text)
}

// warn logs what helm says beside its answer.
func (s *session) warn(a answer) {
	for line := range strings.Lines(a.stderr) {
		if line = strings.TrimSpace(line); line != "" {
			s.call.Host.Log(slog.LevelWarn, "helm: "+line)
		}
	}
}

// hide takes values out of whatever helm says.
func (s *session) hide(values map[string]any) {
	var list []string
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, inner := range v {
				add(inner)
			}
		case []any:
			for _, inner := range v {
				add(inner)
			}
		case string:
			if len(v) >= 4 {
				list = append(list, v, "[redacted]")
				if raw, err := json.Marshal(v); err == nil && string(raw[1:len(raw)-1]) != v {
					list = append(list, string(raw[1:len(raw)-1]), "[redacted]")
				}
			}
		}
	}
	add(values)
	if len(list) > 0 {
		s.hidden = strings.NewReplacer(list...)
	}
}

// attempt says who works on the release: this process's machine and until when.
func (s *session) labels(key, digest string, revision int) string {
	return fmt.Sprintf("%s=%s,%s=%s,%s=%d,%s=%s,%s=%d", labelKey, key, labelDigest, digest, labelRevision, revision, labelMachine, machine(), labelUntil, s.ends().Unix())
}

// ends is when a helm that begins now has certainly ended: with rollback_on_failure it works as long again.
func (s *session) ends() time.Time { return time.Now().Add(2*s.t.limit() + grace) }

// machine names the machine on which processes of the step can be seen.
func machine() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return hash(host, os.TempDir())[:16]
}

// outputs are those that both actions have.
func (s *session) outputs(r *release) map[string]any {
	out := map[string]any{"release": s.t.Release, "namespace": s.namespace, "cluster_id": s.cluster.ID(), "revision": 0, "status": "uninstalled"}
	if r != nil {
		out["revision"], out["status"] = r.Revision, r.Status
	}
	return out
}

// read returns the newest revision of the release; nil: there is none.
func (s *session) read(ctx context.Context) (*release, error) {
	a, err := s.helm(ctx, nil, "get", "all", s.t.Release, "--template", releaseTemplate)
	if err != nil {
		return nil, err
	}
	if a.code != 0 {
		if strings.Contains(a.stderr, "release: not found") {
			return nil, nil
		}
		return nil, diagnose("reading the release", a.stderr)
	}
	return parseRelease(a.stdout)
}

// errBusy says that somebody else is working on the release.
var errBusy = errors.New("another process is working on the release")
