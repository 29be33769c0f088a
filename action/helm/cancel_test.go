package helm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/helm"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/outbound"
)

// standIn is a helm for tests of what is asked of it: the release is a file with what the real one prints of it, and whatever changes
// something is written down.
const standIn = `#!/bin/sh
cd %s || exit 9
case "$*" in
version*) echo v4.1.0; exit;;
esac
shift 4 # --kubeconfig FILE --namespace NAME
case "$1" in
get) [ -e release ] && exec cat release; echo "Error: release: not found" >&2; exit 1;;
history) exec cat history;;
esac
if [ -e fatal ]; then case "$*" in *"$(cat fatal)"*) kill -9 $$;; esac; fi
case "$*" in
*--dry-run*) ;;
*) echo "$1 $2 $3" >> done; [ "$1" = uninstall ] && rm -f release; [ "$1" = rollback ] && sed -i '2s/.*/"deployed"/' release;;
esac
echo '{"version": 1, "info": {"status": "deployed"}, "chart": {"metadata": {"name": "greeting", "version": "1.2.3"}}}'
`

// cancelRig is both actions with the stand-in.
type cancelRig struct {
	t       *testing.T
	dir     string
	actions *action.Registry
	work    map[string]any // what the step owned
}

func newCancelRig(t *testing.T) *cancelRig {
	t.Helper()
	r := &cancelRig{t: t, dir: t.TempDir()}
	r.write("helm", fmt.Sprintf(standIn, r.dir))
	t.Setenv("PATH", r.dir+":"+os.Getenv("PATH"))
	r.write("kubeconfig", "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: n}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n")
	for path, text := range chartFiles(nil) {
		r.write(filepath.Join("greeting", path), text)
	}
	r.actions = register(t, kube.Options{Clusters: map[string]kube.Access{"here": {Kubeconfig: filepath.Join(r.dir, "kubeconfig")}}}, outbound.Options{})
	return r
}

func (r *cancelRig) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // one of them is a program
		r.t.Fatal(err)
	}
}

// begin runs a step to its end and keeps what it owned meanwhile.
func (r *cancelRig) begin(name string, p params) {
	r.t.Helper()
	a, _ := r.actions.Lookup(name)
	got := actiontest.Run(r.t.Context(), *a, actiontest.Call{Params: p, Dir: r.dir})
	if got.Err != nil {
		r.t.Fatal(got.Err)
	}
	if err := json.Unmarshal(got.Owned, &r.work); err != nil {
		r.t.Fatalf("it owned %q: %v", got.Owned, err)
	}
	r.clear("done")
}

func (r *cancelRig) clear(name string) {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

// release is the newest revision, made by the step unless change says otherwise.
func (r *cancelRig) release(revision int, status string, change ...string) {
	r.t.Helper()
	lines := []string{fmt.Sprint(revision), fmt.Sprintf("%q", status), `"greeting"`, `"1.2.3"`, `"9"`, "1000", "2000",
		fmt.Sprintf("%q", fmt.Sprint(r.work["key"])), `"digest"`, fmt.Sprintf("%q", fmt.Sprint(r.work["machine"])), fmt.Sprintf("%q", fmt.Sprint(revision)), `"4000000000"`, `""`}
	for i := 0; i+1 < len(change); i += 2 {
		lines[map[string]int{"first": 5, "key": 7, "meant": 10}[change[i]]] = change[i+1]
	}
	r.write("release", strings.Join(lines, "\n")+"\n")
	r.write("history", `[{"revision": 1, "status": "superseded"}]`)
	_ = os.Remove(filepath.Join(r.dir, "done")) // it may not be there
}

// cancel calls Cancel with the work, with some of it changed.
func (r *cancelRig) cancel(name string, change ...any) error {
	r.t.Helper()
	a, _ := r.actions.Lookup(name)
	state := map[string]any{}
	for k, v := range r.work {
		state[k] = v
	}
	for i := 0; i+1 < len(change); i += 2 {
		state[change[i].(string)] = change[i+1]
	}
	p := params{"release": "app"}
	if name == helm.Install {
		p["chart"] = "greeting"
	}
	return actiontest.Cancel(r.t.Context(), *a, actiontest.Call{Params: p, State: state})
}

// did is what helm has changed.
func (r *cancelRig) did(want string) {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, "done"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	if got := strings.TrimSpace(string(raw)); got != want {
		r.t.Errorf("helm did %q, want %q", got, want)
	}
}

// TestCancelAfterACrash: a release that the helm of a cancelled step has left unfinished, because the process died before helm could mark
// it, is repaired by whichever process is asked, once; every other release stays as it is.
func TestCancelAfterACrash(t *testing.T) {
	r := newCancelRig(t)
	r.begin(helm.Install, params{"release": "app", "chart": "greeting"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	r.release(1, "pending-install")
	must(r.cancel(helm.Install))
	r.did("uninstall app --wait=hookOnly")
	must(r.cancel(helm.Install)) // again
	r.did("uninstall app --wait=hookOnly")

	r.release(2, "pending-upgrade")
	must(r.cancel(helm.Install))
	r.did("rollback app 1")
	must(r.cancel(helm.Install))
	r.did("rollback app 1")

	for _, status := range []string{"failed", "deployed", "uninstalled"} {
		r.release(2, status)
		must(r.cancel(helm.Install))
		r.did("")
	}
	r.release(2, "pending-upgrade", "key", `"of another step"`)
	must(r.cancel(helm.Install))
	r.did("")
	r.release(3, "pending-upgrade", "meant", `"2"`) // labels that helm has copied to a revision of somebody else
	must(r.cancel(helm.Install))
	r.did("")

	r.release(3, "pending-rollback", "meant", `"1"`)
	must(r.cancel(helm.Install))
	r.did("")
	must(r.cancel(helm.Install, "rollbacks", []int{3})) // the step's own repair was cut off
	r.did("rollback app 1")

	r.release(1, "pending-install")
	err := r.cancel(helm.Install, "machine", "another")
	if stepwell.CodeOf(err) != stepwell.CodeUnavailable || action.IsFail(err) {
		t.Errorf("the helm of another machine may be at work: %v", err)
	}
	r.did("")
	must(r.cancel(helm.Install, "machine", "another", "until", time.Now().Add(-time.Second)))
	r.did("uninstall app --wait=hookOnly")

	r.release(1, "pending-install") // a step that only waited has no work
	must(r.cancel(helm.Install, "release", "", "since", time.Now()))
	r.did("")
}

// TestCancelOfUninstall: an uninstallation that was cut off is finished, unless somebody has installed another release by that name.
func TestCancelOfUninstall(t *testing.T) {
	r := newCancelRig(t)
	r.release(1, "deployed")
	r.begin(helm.Uninstall, params{"release": "app"})
	r.release(1, "uninstalling")
	if err := r.cancel(helm.Uninstall); err != nil {
		t.Error(err)
	}
	r.did("uninstall app --timeout")
	r.release(1, "uninstalling", "first", "1500")
	if err := r.cancel(helm.Uninstall); err != nil {
		t.Error(err)
	}
	r.did("")
}

// TestHelmIsKilled: where somebody kills helm, or the kernel does, the error says so, and another attempt may do better.
func TestHelmIsKilled(t *testing.T) {
	for when, what := range map[string]string{"--dry-run": "rendering the chart: ended by signal 9", "--labels": "helm: ended by signal 9"} {
		r := newCancelRig(t)
		r.write("fatal", when)
		a, _ := r.actions.Lookup(helm.Install)
		got := actiontest.Run(t.Context(), *a, actiontest.Call{Params: params{"release": "app", "chart": "greeting"}, Dir: r.dir})
		fails(t, got, stepwell.CodeFailed, false, what)
	}
}
