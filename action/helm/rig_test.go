package helm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/helm"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/tooltest"
)

type params = map[string]any

// bin is a folder of PATH for the real helm.
var bin string

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "helm-bin-"); err != nil {
		panic(err)
	}
	os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	code := m.Run()
	kubetest.Stop()
	os.RemoveAll(bin)
	os.Exit(code)
}

// helmProgram puts the real helm on PATH, by its name: that of tooltest, or the program that STEPWELL_TEST_HELM names, such as one of Helm 3.
func helmProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv("STEPWELL_TEST_HELM")
	if program == "" {
		program = tooltest.Path(t, tooltest.Helm)
	}
	if err := os.Symlink(program, filepath.Join(bin, "helm")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return program
}

// rig is both actions as a process has them, with a namespace of the test's own.
type rig struct {
	t         *testing.T
	actions   *action.Registry
	cluster   *kubetest.Cluster
	namespace string
	config    string // kubeconfig file
	dir       string // the pipeline's directory
}

func newRig(t *testing.T, change ...func(*kube.Options)) *rig {
	t.Helper()
	helmProgram(t)
	r := &rig{t: t, cluster: kubetest.Start(t), dir: t.TempDir()}
	r.namespace = r.cluster.Namespace(t)
	r.config = filepath.Join(t.TempDir(), "kubeconfig")
	r.write(r.config, r.cluster.Kubeconfig(r.namespace))
	o := kube.Options{Clusters: map[string]kube.Access{"here": {Kubeconfig: r.config}}}
	for _, f := range change {
		f(&o)
	}
	r.actions = register(t, o, outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	return r
}

func register(t *testing.T, k kube.Options, out outbound.Options) *action.Registry {
	t.Helper()
	clusters, err := kube.NewClusters(k)
	if err != nil {
		t.Fatal(err)
	}
	client, err := outbound.New(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	actions := new(action.Registry)
	if err := helm.Register(actions, client, helm.Options{Clusters: clusters, Pause: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return actions
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// files are those of a chart.
type files map[string]string

// chartFiles is a chart with a config map of a value and a secret of another.
func chartFiles(more files) files {
	all := files{
		"Chart.yaml":            "apiVersion: v2\nname: greeting\nversion: 1.2.3\nappVersion: \"9\"\n",
		"values.yaml":           "text: hello\npassword: none\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {text: {{ .Values.text | quote }}}\n",
		"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}\"}\nstringData: {password: {{ .Values.password | quote }}}\n",
		"templates/NOTES.txt":   "Say {{ .Values.text }}.\n",
	}
	maps.Copy(all, more)
	return all
}

// chart writes a chart into the pipeline's directory.
func (r *rig) chart(name string, all files) string {
	r.t.Helper()
	for path, text := range all {
		r.write(filepath.Join(r.dir, name, path), text)
	}
	return name
}

// archive is the archive of a chart.
func archive(t *testing.T, all files) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if err := w.WriteHeader(&tar.Header{Name: "greeting/" + path, Mode: 0o644, Size: int64(len(all[path]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(all[path])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// step is a step of an execution: attempts of it share its memory.
type step struct {
	*rig
	name   string // of the action
	call   actiontest.Call
	memory map[string]json.RawMessage
}

func (r *rig) step(name, execution string, p params) *step {
	return &step{rig: r, name: name, memory: map[string]json.RawMessage{},
		call: actiontest.Call{Params: p, Execution: execution + "-" + r.namespace, Dir: r.dir}}
}

func (r *rig) install(execution string, p params) *step { return r.step(helm.Install, execution, p) }

func (s *step) run() actiontest.Result {
	s.t.Helper()
	return attempt(s.t.Context(), s.t, s.actions, s.name, s.call, s.memory)
}

func attempt(ctx context.Context, t *testing.T, actions *action.Registry, name string, call actiontest.Call, memory map[string]json.RawMessage) actiontest.Result {
	t.Helper()
	a, ok := actions.Lookup(name)
	if !ok {
		t.Fatal("no action ", name)
	}
	call.Memory = memory
	call.StepKey = "deploy"
	return actiontest.Run(ctx, *a, call)
}

// succeeds gives the outputs of an attempt.
func succeeds(t *testing.T, got actiontest.Result) params {
	t.Helper()
	if got.Err != nil || got.Wait != nil {
		t.Fatalf("error %v (%s), wait %+v", got.Err, stepwell.HintOf(got.Err), got.Wait)
	}
	return got.Outputs
}

// fails checks that an attempt failed with a code, for good or not, and says so.
func fails(t *testing.T, got actiontest.Result, code stepwell.Code, forGood bool, text string) {
	t.Helper()
	if got.Err == nil || stepwell.CodeOf(got.Err) != code || action.IsFail(got.Err) != forGood || !strings.Contains(got.Err.Error(), text) {
		t.Errorf("error %q (%s, for good: %t), want %s, %t, %q", got.Err, stepwell.CodeOf(got.Err), action.IsFail(got.Err), code, forGood, text)
	}
}

// has checks outputs.
func has(t *testing.T, outputs params, want params) {
	t.Helper()
	for name, value := range want {
		if fmt.Sprint(outputs[name]) != fmt.Sprint(value) {
			t.Errorf("output %s is %v, want %v", name, outputs[name], value)
		}
	}
}

// revisions are the statuses of a release's revisions, as the cluster has them.
func (r *rig) revisions(release string) (statuses []string) {
	r.t.Helper()
	all := r.cluster.Items(r.t, "/api/v1/namespaces/"+r.namespace+"/secrets?labelSelector=owner%3Dhelm,name%3D"+release)
	slices.SortFunc(all, func(a, b kubetest.Object) int {
		return len(a.Text("metadata", "labels", "version")) - len(b.Text("metadata", "labels", "version"))
	})
	for _, o := range all {
		statuses = append(statuses, o.Text("metadata", "labels", "version")+" "+o.Text("metadata", "labels", "status"))
	}
	slices.Sort(statuses)
	return statuses
}

// wantRevisions checks the revisions of a release.
func (r *rig) wantRevisions(release string, want ...string) {
	r.t.Helper()
	if got := r.revisions(release); !slices.Equal(got, want) {
		r.t.Errorf("the release %s has revisions %q, want %q", release, got, want)
	}
}

// text is what the chart's config map says; "" if there is none.
func (r *rig) text(release string) string {
	r.t.Helper()
	for _, o := range r.cluster.Items(r.t, "/api/v1/namespaces/"+r.namespace+"/configmaps") {
		if o.Text("metadata", "name") == release {
			return o.Text("data", "text")
		}
	}
	return ""
}

// helm runs helm as somebody else would; the test ends it.
func (r *rig) helm(args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), helmProgram(r.t), append([]string{"--kubeconfig", r.config, "--namespace", r.namespace}, args...)...)
	home := r.t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.Dir = r.dir
	return cmd
}

func (r *rig) mustHelm(args ...string) {
	r.t.Helper()
	if out, err := r.helm(args...).CombinedOutput(); err != nil {
		r.t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
}

// eventually waits for a condition of the cluster.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			r.t.Fatalf("%s does not come about; revisions %q", what, r.revisions("app"))
		}
	}
}

// hookPod is a hook that ends when the test says so.
const hookPod = `apiVersion: v1
kind: Pod
metadata:
  name: "{{ .Release.Name }}-hook"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
spec: {restartPolicy: Never, containers: [{name: one, image: example.org/hook}]}
`

// endHook lets the hook's pod succeed as soon as there is one.
func (r *rig) endHook(release string) {
	r.t.Helper()
	path := "/api/v1/namespaces/" + r.namespace + "/pods/" + release + "-hook"
	r.eventually("the hook's pod", func() bool {
		_, err := r.cluster.Patch(r.t.Context(), path+"/status", kubetest.Object{"status": kubetest.Object{"phase": "Succeeded"}})
		return err == nil
	})
}
