package kube

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

var update = flag.Bool("update", false, "write testdata/*.json anew")

// bound sets parameters as a step's call has them, defaults included.
func bound(t *testing.T, into any, fields []spec.Field, params map[string]any) {
	t.Helper()
	checker, err := spec.Compile(fields, false)
	if err != nil {
		t.Fatal(err)
	}
	if problems := checker.Check(params); len(problems) > 0 {
		t.Fatal(problems)
	}
	if err := spec.Bind(checker.Apply(params), into); err != nil {
		t.Fatal(err)
	}
}

func TestManifests(t *testing.T) {
	id := &identity{instance: "5f2c/ä x", execution: "0198-x", step: "train[3]", key: "0198-x/train[3]", nonce: "abc", trace: "00-1-2-01"}
	for name, params := range map[string]map[string]any{
		"plain": {"image": "busybox"},
		"full": {"image": "registry.example/train:7", "command": []any{"python"}, "args": []any{"train.py", "--epochs", "3"}, "env_vars": map[string]any{"B": 2.5, "A": "x", "C": map[string]any{"k": true}},
			"env_from_secrets": map[string]any{"TOKEN": "geheim"}, "resources": map[string]any{"requests": map[string]any{"cpu": int64(2)}, "limits": map[string]any{"memory": "1Gi"}}, "gpu_count": int64(1),
			"node_selector": map[string]any{"gpu": "a100"}, "tolerations": []any{map[string]any{"key": "gpu", "operator": "Exists"}}, "backoff_limit": int64(0), "timeout_seconds": int64(60),
			"labels": map[string]any{"team": "ml"}, "service_account": "trainer", "pull_secrets": []any{"registry"}, "completions": int64(8), "parallelism": int64(4), "keep": "failed"},
		"manifest": {"image": "busybox", "env_vars": map[string]any{"A": "x"}, "manifest": map[string]any{
			"metadata": map[string]any{"name": "mine", "namespace": "kube-system", "labels": map[string]any{"team": "ml", labelInstance: "other"}, "annotations": map[string]any{"note": "1", noteKey: "other"}},
			"spec": map[string]any{"ttlSecondsAfterFinished": int64(1), "suspend": true, "backoffLimitPerIndex": int64(1), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{labelInstance: "other"}},
				"spec": map[string]any{"restartPolicy": "OnFailure", "volumes": []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
					"containers": []any{map[string]any{"volumeMounts": []any{map[string]any{"name": "tmp", "mountPath": "/tmp"}}}, map[string]any{"name": "side", "image": "side:1"}}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var p jobParams
			bound(t, &p, jobSpec().Params, params)
			job, err := jobManifest(&p, id, "sw-train-3-abc", "bud-jobs")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, job)
		})
	}
	var c cronParams
	bound(t, &c, cronSpec().Params, map[string]any{"image": "busybox", "name": "nightly", "schedule": "0 3 * * *", "time_zone": "Europe/Berlin", "env_from_secrets": map[string]any{"TOKEN": "geheim"}})
	cron, err := cronManifest(&c, id, "bud-jobs")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cronjob", cron)
	golden(t, "secret", secretManifest(map[string]string{"TOKEN": "geheim"}, id, "sw-train-3-abc", "bud-jobs", "uid-1"))
}

func golden(t *testing.T, name string, o object) {
	t.Helper()
	got, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if name != "secret" && strings.Contains(string(got), "geheim") {
		t.Error("a secret variable is in the manifest")
	}
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s: go test ./action/kube -run Manifests -update\n%s", path, diff)
	}
}

func TestManifestsAreRefused(t *testing.T) {
	id := &identity{key: "k"}
	for want, manifest := range map[string]map[string]any{
		"not a Job of batch/v1": {"kind": "Pod"},
		"is not a Job":          {"spec": "x"},
		"no pod template":       {"spec": map[string]any{"template": "x"}},
		"not a Job of":          {"status": map[string]any{}},
	} {
		p := jobParams{podParams: podParams{Image: "x", Manifest: manifest}}
		if _, err := jobManifest(&p, id, "n", "ns"); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", manifest, err)
		}
	}
}

// TestImagesOfAllContainers: the policy of images holds for every container, whatever kind and wherever it was named.
func TestImagesOfAllContainers(t *testing.T) {
	c, err := NewClusters(Options{Images: []string{"ok/*"}})
	if err != nil {
		t.Fatal(err)
	}
	of := func(kind, image string) object {
		return object{"containers": []any{object{"image": "ok/a"}}, kind: []any{object{"image": image}}}
	}
	for _, kind := range []string{"containers", "initContainers", "ephemeralContainers"} {
		if err := c.allowImages(of(kind, "ok/b")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if err := c.allowImages(of(kind, "evil/b")); stepwell.CodeOf(err) != stepwell.CodeDenied {
			t.Errorf("%s: %v", kind, err)
		}
		if err := c.allowImages(of(kind, "")); err == nil {
			t.Errorf("%s without an image", kind)
		}
	}
	if err := c.allowImages(object{"containers": object{}}); err == nil {
		t.Error("containers that are not a list")
	}
	if err := c.allowImages(object{"volumes": []any{object{"image": object{"reference": "evil/v"}}}}); stepwell.CodeOf(err) != stepwell.CodeDenied {
		t.Errorf("the image of a volume: %v", err)
	}
}

func TestFailures(t *testing.T) {
	ended := func(reason string) *condition {
		return &condition{Type: "Failed", Status: "True", Reason: reason, Message: "said so"}
	}
	plain := &pod{}
	taken := &pod{}
	taken.Status.Conditions = []condition{{Type: "DisruptionTarget", Status: "True", Reason: "PreemptionByScheduler"}}
	for _, c := range []struct {
		cond  *condition
		last  *pod
		code  stepwell.Code
		final bool
		want  string
	}{
		{ended("BackoffLimitExceeded"), plain, stepwell.CodeFailed, false, "exit code 3 (OOMKilled): no memory"},
		{ended("DeadlineExceeded"), plain, stepwell.CodeTimeout, false, "timeout_seconds"},
		{ended("PodFailurePolicy"), plain, stepwell.CodeInvalid, true, "said so"},
		{ended("BackoffLimitExceeded"), taken, stepwell.CodeUnavailable, false, "PreemptionByScheduler"},
		{ended("BackoffLimitExceeded"), nil, stepwell.CodeFailed, false, "said so"},
	} {
		err := failure(c.cond, c.last, &terminated{ExitCode: 3, Reason: "OOMKilled", Message: "no memory"}, "")
		raw, merr := answerOf(nil, err)
		var a answer
		if merr != nil || json.Unmarshal(raw, &a) != nil {
			t.Fatal(merr)
		}
		if stepwell.CodeOf(err) != c.code || !ofJob(err) || a.Code != c.code || a.Final != c.final || !strings.Contains(a.Error, c.want) {
			t.Errorf("%s: %s", c.cond.Reason, raw)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{"a/b c": "a-b-c", "--x--": "x", strings.Repeat("ä", 100): "", strings.Repeat("y", 99): strings.Repeat("y", 63)} {
		if got := label(text); got != want || !labelValue().MatchString(got) {
			t.Errorf("label(%q) = %q", text, got)
		}
	}
	w := work{Cluster: "eu", Namespace: "ns", Name: "n", UID: "u"}
	if got, ok := parseKey(w.key("x")); !ok || got != w {
		t.Errorf("%+v", got)
	}
	for _, key := range []string{"kube:", "kube:a/b/c/d", "other:a/b/c/d/e", "kube:a/b//d/e", "kube:a/b/c/d/e/f"} {
		if _, ok := parseKey(key); ok {
			t.Errorf("%q is read", key)
		}
	}
	if time.Duration(safetyTTL) != 168*time.Hour {
		t.Error("docs say seven days")
	}
}
