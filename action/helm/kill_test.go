package helm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/helm"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/app/killtest"
	"github.com/stepwell/stepwell/definition"
)

// TestKillChild is a process that runs the execution of a folder to its end, or until it is killed.
func TestKillChild(t *testing.T) {
	killtest.Child(t, func(dir string) app.Options {
		return app.Options{Kubernetes: kube.Options{Clusters: map[string]kube.Access{"here": {Kubeconfig: filepath.Join(dir, "kubeconfig")}}}}
	}, func(string) definition.Step {
		return definition.Step{ID: "deploy", Action: helm.Install, Params: params{"release": "app", "chart": "greeting", "values": params{"text": "killed"}}}
	})
}

// The calls of helm for one installation: its version, what is there, what the chart renders to, the work.
const helmCalls = 4

// TestKill kills this process at every point of an installation and of an upgrade: as helm is called for the nth time, so that helm goes on
// alone; when it has ended; and together with helm in the midst of its work. Whatever was done before, the next process completes the step, and what
// was done is not done twice. Without STEPWELL_TEST_LONG it has the points that leave most behind.
func TestKill(t *testing.T) {
	points := []string{"both", "in 4", "after 4"}
	if os.Getenv("STEPWELL_TEST_LONG") != "" {
		points = []string{"both"}
		for n := 1; n <= helmCalls; n++ {
			points = append(points, fmt.Sprintf("in %d", n), fmt.Sprintf("after %d", n))
		}
	}
	for _, point := range points {
		for _, upgrade := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, upgrade %t", point, upgrade), func(t *testing.T) { t.Parallel(); kill(t, point, upgrade) })
		}
	}
}

// killing is helm with a process above it that is killed.
const killing = `#!/bin/sh
cd %[1]s || exit 9
n=$(($(cat count 2>/dev/null || echo 0) + 1)); echo $n > count
point=$(cat point)
[ -e killed ] && point=
cd "$OLDPWD" || exit 9
case "$point" in
"in $n") touch %[1]s/killed; kill -9 $PPID;;
"after $n") %[2]s "$@"; touch %[1]s/killed; kill -9 $PPID; exit;;
both) if [ $n = 4 ]; then echo $PPID $$ > %[1]s/working; fi;;
esac
exec %[2]s "$@"
`

func kill(t *testing.T, point string, upgrade bool) {
	r := newRig(t)
	dir := t.TempDir()
	r.dir = filepath.Join(dir, "charts")
	hook := files{"templates/hook.yaml": "{{ if eq .Values.text \"killed\" }}\n" + hookPod + "{{ end }}\n"}
	r.chart("greeting", chartFiles(hook))
	want := []string{"1 deployed"}
	if upgrade {
		r.mustHelm("upgrade", "app", "greeting", "--install")
		want = []string{"1 superseded", "2 deployed"}
	}
	r.write(filepath.Join(dir, "bin", "helm"), fmt.Sprintf(killing, dir, helmProgram(t)))
	if err := os.Chmod(filepath.Join(dir, "bin", "helm"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(filepath.Join(dir, "point"), point)
	r.write(filepath.Join(dir, "kubeconfig"), r.cluster.Kubeconfig(r.namespace))
	first := killtest.Command(t, dir)
	if point == "both" {
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		r.killBoth(dir)
		_ = first.Wait() // killed
		if upgrade {
			want = []string{"1 superseded", "2 pending-upgrade", "3 superseded", "4 deployed"}
			r.wantRevisions("app", "1 deployed", "2 pending-upgrade")
		} else {
			r.wantRevisions("app", "1 pending-install")
		}
	} else {
		go r.endHooks()
		if out, _ := first.CombinedOutput(); strings.Contains(string(out), "ENDED") {
			t.Fatalf("the process was not killed: %s", out)
		}
	}
	if point == "both" {
		go r.endHooks()
	}
	if out, _ := killtest.Command(t, dir).CombinedOutput(); !strings.Contains(string(out), "ENDED completed") {
		t.Fatalf("the next process: %s; revisions %q", out, r.revisions("app"))
	}
	got := r.revisions("app")
	deployed := got[len(got)-1]
	if !strings.HasSuffix(deployed, " deployed") || len(got) > 4 || !strings.HasPrefix(point, "in ") && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the release has revisions %q, want %q", got, want)
	}
	if r.text("app") != "killed" {
		t.Errorf("the chart's value is %q", r.text("app"))
	}
}

// killBoth kills helm and the process above it once the hook runs.
func (r *rig) killBoth(dir string) {
	r.t.Helper()
	r.eventually("the hook's pod", func() bool {
		_, err := r.cluster.Do(r.t.Context(), "GET", "/api/v1/namespaces/"+r.namespace+"/pods/app-hook", nil)
		return err == nil
	})
	raw, err := os.ReadFile(filepath.Join(dir, "working"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(filepath.Join(dir, "killed"), "")
	pids := strings.Fields(string(raw)) // the process above first: it would see that its helm failed, and end the step
	if out, err := exec.Command("kill", append([]string{"-9"}, pids...)...).CombinedOutput(); err != nil {
		r.t.Errorf("%v %s", err, out)
	}
}

// endHooks lets every hook's pod succeed until the test ends.
func (r *rig) endHooks() {
	path := "/api/v1/namespaces/" + r.namespace + "/pods/app-hook/status"
	for r.t.Context().Err() == nil {
		_, _ = r.cluster.Patch(r.t.Context(), path, map[string]any{"status": map[string]any{"phase": "Succeeded"}}) // there may be none
		time.Sleep(20 * time.Millisecond)
	}
}
