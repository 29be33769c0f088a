package helm_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/helm"
)

// TestInstallAndUpgrade: what is installed once is not installed again by the same step, also after a restart that has
// forgotten everything; another step, or other values, make the next revision.
func TestInstallAndUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := params{"release": "app", "chart": r.chart("greeting", chartFiles(nil)), "values": params{"text": "one"}, "set_secrets": params{"password": "correct-horse", "flag": "true"}}
	first := r.install("first", p)
	out := succeeds(t, first.run())
	has(t, out, params{"release": "app", "namespace": r.namespace, "cluster_id": "here", "revision": 1, "status": "deployed", "chart": "greeting-1.2.3", "app_version": 9, "changed": true, "notes": "Say one."})
	if r.text("app") != "one" {
		t.Errorf("the chart's value is %q", r.text("app"))
	}
	again := first.run()
	has(t, succeeds(t, again), params{"revision": 1, "changed": false, "notes": "Say one."})
	first.memory = nil // a restart
	has(t, succeeds(t, first.run()), params{"revision": 1, "changed": false})
	r.wantRevisions("app", "1 deployed")

	has(t, succeeds(t, r.install("second", p).run()), params{"revision": 2, "changed": true})
	first.call.Params = params{"release": "app", "chart": "greeting", "values": params{"text": "two"}}
	has(t, succeeds(t, first.run()), params{"revision": 3, "changed": true, "notes": "Say two."})
	r.wantRevisions("app", "1 superseded", "2 superseded", "3 deployed")
	if r.text("app") != "two" {
		t.Errorf("the chart's value is %q", r.text("app"))
	}

	// Helm copies labels to a revision by somebody else; that is not this step's all the same.
	r.mustHelm("upgrade", "app", "greeting", "--set", "text=other")
	has(t, succeeds(t, first.run()), params{"revision": 5, "changed": true})
	if r.text("app") != "two" {
		t.Errorf("the chart's value is %q", r.text("app"))
	}
}

// TestValues: files, then values, then secrets; later ones win, and nothing is taken from the revision before.
func TestValues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chart("greeting", chartFiles(files{"templates/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {values: {{ toJson .Values.deep | quote }}}\n"}))
	r.write("values/one.yaml", "text: file one\ndeep: {a: 1, b: 1, c: 1, d.e: 1}\n")
	r.write("values/two.yaml", "deep: {b: 2, c: 2}\n")
	s := r.install("x", params{"release": "app", "chart": "greeting", "values_files": []any{"values/one.yaml", "values/two.yaml"}, "values": params{"deep": params{"c": 3}},
		"set_secrets": params{"deep.f.g": "four", `deep.d\.e`: 5}})
	succeeds(t, s.run())
	more := r.cluster.Get(t, "/api/v1/namespaces/"+r.namespace+"/configmaps/more").Text("data", "values")
	if want := `{"a":1,"b":2,"c":3,"d.e":5,"f":{"g":"four"}}`; more != want {
		t.Errorf("the values are %s, want %s", more, want)
	}
	r.write("values/one.yaml", "text: changed\n")
	has(t, succeeds(t, s.run()), params{"revision": 2, "changed": true})
	s.call.Params = params{"release": "app", "chart": "greeting"}
	succeeds(t, s.run())
	if r.text("app") != "hello" {
		t.Errorf("the value is %q, which is of the revision before", r.text("app"))
	}
}

// TestDryRun: nothing is changed, and no secret shown.
func TestDryRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := params{"release": "app", "chart": r.chart("greeting", chartFiles(nil)), "dry_run": true, "set_secrets": params{"password": "correct-horse", "text": "battery-staple"}}
	out := succeeds(t, r.install("x", p).run())
	has(t, out, params{"revision": 1, "changed": false, "chart": "greeting-1.2.3"})
	manifest, _ := out["manifest"].(string)
	if !strings.Contains(manifest, "kind: ConfigMap") || strings.Contains(manifest, "correct-horse") || strings.Contains(manifest, "battery") {
		t.Errorf("the manifest is\n%s", manifest)
	}
	r.wantRevisions("app")
}

// TestNamespaceIsCreated: only if it may be used, and only when that is asked for.
func TestNamespaceIsCreated(t *testing.T) {
	t.Parallel()
	r := newRig(t, everywhere)
	name := "made-" + r.namespace
	t.Cleanup(func() { _, _ = r.cluster.Do(t.Context(), "DELETE", "/api/v1/namespaces/"+name, nil) }) // the cluster ends with the tests
	p := params{"release": "app", "chart": r.chart("greeting", chartFiles(nil)), "namespace": name}
	fails(t, r.install("x", p).run(), stepwell.CodeNotFound, true, name)
	p["create_namespace"] = true
	has(t, succeeds(t, r.install("x", p).run()), params{"namespace": name, "revision": 1})
}

// TestUninstall: what is there goes, once; nothing is no failure unless that is said; what others have installed since stays.
func TestUninstall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	none := r.step(helm.Uninstall, "none", params{"release": "app"})
	has(t, succeeds(t, none.run()), params{"removed": false, "status": "uninstalled", "revision": 0})
	strict := r.step(helm.Uninstall, "strict", params{"release": "app", "ignore_missing": false})
	fails(t, strict.run(), stepwell.CodeNotFound, true, "there is no release app")

	r.chart("greeting", chartFiles(nil))
	install := params{"release": "app", "chart": "greeting"}
	succeeds(t, r.install("one", install).run())
	has(t, succeeds(t, strict.run()), params{"removed": true, "status": "uninstalled"})
	has(t, succeeds(t, strict.run()), params{"removed": true}) // a second attempt, after a crash
	if r.text("app") != "" {
		t.Error("the config map is still there")
	}
	succeeds(t, r.install("two", install).run())
	has(t, succeeds(t, strict.run()), params{"removed": true})
	r.wantRevisions("app", "1 deployed")

	kept := r.step(helm.Uninstall, "kept", params{"release": "app", "keep_history": true})
	has(t, succeeds(t, kept.run()), params{"removed": true, "revision": 1, "status": "uninstalled"})
	has(t, succeeds(t, kept.run()), params{"removed": true, "revision": 1})
	r.wantRevisions("app", "1 uninstalled")
	has(t, succeeds(t, r.install("three", install).run()), params{"revision": 2, "status": "deployed"})
}

// TestNeverOnTheCommandLine: values, secrets and credentials of the cluster are in no argument and no variable of helm, and the
// kubeconfig is a file that only its owner reads, gone afterwards.
func TestNeverOnTheCommandLine(t *testing.T) {
	r := newRig(t)
	seen := filepath.Join(t.TempDir(), "seen")
	spy := filepath.Join(t.TempDir(), "bin")
	r.write(filepath.Join(spy, "helm"), "#!/bin/sh\n{ echo \"$@\"; env; ls -l ${HELM_CACHE_HOME%/cache} ; } >> "+seen+"\nexec "+helmProgram(t)+" \"$@\"\n")
	if err := os.Chmod(filepath.Join(spy, "helm"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", spy+":"+os.Getenv("PATH"))
	t.Setenv("HELM_KUBETOKEN", "stranger")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "stranger")
	succeeds(t, r.install("x", params{"release": "app", "chart": r.chart("greeting", chartFiles(nil)), "values": params{"text": "plain-value"}, "set_secrets": params{"password": "correct-horse"}}).run())
	raw, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, secret := range []string{"correct-horse", "plain-value", r.cluster.Token, "stranger"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is to be seen", secret)
		}
	}
	if !strings.Contains(text, "-rw------- ") || !strings.Contains(text, " kubeconfig\n") {
		t.Errorf("the kubeconfig is not a private file:\n%s", text)
	}
	at := text[strings.Index(text, "--kubeconfig ")+len("--kubeconfig "):]
	if _, err := os.Stat(strings.Fields(at)[0]); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig has stayed: %v", err)
	}
}

// TestAnothersLock: a release that somebody else's helm has left unfinished is waited for, without a worker, then the step
// fails; with take_over it is repaired once that helm has had its time.
func TestAnothersLock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chart("greeting", chartFiles(files{"templates/hook.yaml": hookPod}))
	stranger := r.helm("upgrade", "app", "greeting", "--install")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	r.eventually("the stranger's work", func() bool { return len(r.revisions("app")) == 1 })
	_ = stranger.Process.Kill()
	_ = stranger.Wait() // killed
	r.wantRevisions("app", "1 pending-install")

	r.chart("greeting", files{"templates/hook.yaml": "", "Chart.yaml": chartFiles(nil)["Chart.yaml"]})
	for _, s := range []*step{r.install("x", params{"release": "app", "chart": "greeting", "timeout_seconds": 1}), r.step(helm.Uninstall, "y", params{"release": "app", "timeout_seconds": 1})} {
		got := s.run()
		if got.Wait == nil || !strings.HasPrefix(got.Wait.ExternalID, "helm:here/"+r.namespace+"/app") {
			t.Fatalf("%s does not wait: %+v", s.name, got)
		}
		state := got.Wait.State
		r.eventually("the end of the wait", func() bool {
			s.call.State = state
			got = s.run()
			return got.Wait == nil
		})
		fails(t, got, stepwell.CodeConflict, true, "revision 1 of the release app is pending-install since ")
	}
	r.wantRevisions("app", "1 pending-install")

	over := r.install("z", params{"release": "app", "chart": "greeting", "timeout_seconds": 5, "take_over": true})
	var got actiontest.Result
	r.eventually("the stranger's time", func() bool { got = over.run(); return got.Wait == nil })
	has(t, succeeds(t, got), params{"revision": 1, "status": "deployed", "changed": true})
	r.wantRevisions("app", "1 deployed")
}

// TestTurns: steps of one process take turns at a release.
func TestTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chart("greeting", chartFiles(files{"templates/hook.yaml": hookPod}))
	one, two := r.install("one", params{"release": "app", "chart": "greeting"}), r.install("two", params{"release": "app", "chart": "greeting"})
	ended := make(chan params, 1)
	go func() {
		got := one.run()
		if got.Err != nil {
			t.Error(got.Err)
		}
		ended <- got.Outputs
	}()
	r.eventually("the first one's work", func() bool { return len(r.revisions("app")) == 1 })
	if got := two.run(); got.Wait == nil {
		t.Fatalf("the second one does not wait: %+v", got)
	}
	r.endHook("app")
	has(t, <-ended, params{"revision": 1})
	go r.endHooks() // the first hook's pod is still there at first
	has(t, succeeds(t, two.run()), params{"revision": 2})
}

// notReady is a chart with a pod that never starts, if a value says so.
var notReady = files{"templates/pod.yaml": "{{ if .Values.pod }}\napiVersion: v1\nkind: Pod\nmetadata: {name: never}\nspec: {containers: [{name: one, image: example.org/x}]}\n{{ end }}"}

// TestNotReadyInstallation: what does not become ready fails the attempt; with rollback_on_failure nothing of it stays.
func TestNotReadyInstallation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad := params{"release": "app", "chart": r.chart("greeting", chartFiles(notReady)), "values": params{"pod": true}, "timeout_seconds": 4, "rollback_on_failure": true}
	fails(t, r.install("x", bad).run(), stepwell.CodeTimeout, false, "")
	r.wantRevisions("app")
}

// TestNotReadyUpgrade: with rollback_on_failure what was there before is there again; without wait nothing is waited for.
func TestNotReadyUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	succeeds(t, r.install("x", params{"release": "app", "chart": r.chart("greeting", chartFiles(notReady))}).run())
	bad := params{"release": "app", "chart": "greeting", "values": params{"pod": true}, "timeout_seconds": 4, "rollback_on_failure": true}
	fails(t, r.install("y", bad).run(), stepwell.CodeTimeout, false, "")
	r.wantRevisions("app", "1 superseded", "2 failed", "3 deployed")
	has(t, succeeds(t, r.install("z", params{"release": "app", "chart": "greeting", "values": params{"pod": true}, "wait": false}).run()), params{"revision": 4, "status": "deployed"})
}

// TestFailingHook: a hook's job that fails fails the attempt, and says so.
func TestFailingHook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cluster.Kubelet(t, r.namespace)
	r.chart("greeting", chartFiles(files{"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: one, image: example.org/x, command: [sh, -c, "exit {{ .Values.code }}"]}]}}
`}))
	s := r.install("x", params{"release": "app", "chart": "greeting", "values": params{"code": 3}})
	fails(t, s.run(), stepwell.CodeFailed, false, "pre-install")
	r.wantRevisions("app", "1 failed")
	s.call.Params["values"] = params{"code": 0}
	has(t, succeeds(t, s.run()), params{"revision": 2, "status": "deployed"})
}

// TestCancel: helm is asked to end and marks the release as failed, which the next installation upgrades.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chart("greeting", chartFiles(files{"templates/hook.yaml": hookPod}))
	s := r.install("x", params{"release": "app", "chart": "greeting"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for t.Context().Err() == nil {
			if _, err := r.cluster.Do(t.Context(), "GET", "/api/v1/namespaces/"+r.namespace+"/pods/app-hook", nil); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	fails(t, attempt(ctx, t, s.actions, s.name, s.call, s.memory), stepwell.CodeCancelled, false, "stopped")
	r.wantRevisions("app", "1 failed")
	r.chart("greeting", files{"templates/hook.yaml": ""})
	has(t, succeeds(t, s.run()), params{"revision": 2, "status": "deployed"})
}
