package kube_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/kube/kubetest"
)

// TestJobGivesOutputsAndLog: the step has the pod's lines in its log, its exit code and what it left as its termination message.
func TestJobGivesOutputsAndLog(t *testing.T) {
	r := newRig(t).open()
	id := r.begin(kube.JobAction, `
image: any
command: [sh, -c, 'echo "hello $WHO"; echo second; printf "{\"n\": 7, \"job_name\": \"lie\"}" > "$KUBETEST_TERMINATION_LOG"']
env_vars: {WHO: you}
ttl_seconds: 600
labels: {team: ml}`)
	out := r.outputs(r.ended(id))
	if out["n"] != 7.0 || out["exit_code"] != 0.0 || out["logs"] != "hello you\nsecond\n" || out["namespace"] != r.namespace || out["cluster_id"] != "eu" {
		t.Errorf("outputs %v", out)
	}
	name, _ := out["job_name"].(string)
	if !strings.HasPrefix(name, "sw-job-") {
		t.Errorf("the job is called %q", name)
	}
	r.await("the lines in the log", func() bool {
		lines := r.lines(id)
		return slices.Contains(lines, "hello you") && slices.Contains(lines, "second")
	})
	job := r.cluster.Await(t, r.jobsPath()+"/"+name, "its time to live", func(o kubetest.Object) bool { return o.At("spec", "ttlSecondsAfterFinished") == 600.0 })
	if job.Text("metadata", "uid") != out["job_uid"] || job.Text("metadata", "labels", "team") != "ml" || job.Text("metadata", "labels", "bud-step-id") != "job" {
		t.Errorf("the job is %v", job)
	}
}

func TestJobThatFails(t *testing.T) {
	for what, c := range map[string]struct {
		params string
		status stepwell.StepStatus
		code   stepwell.Code
		words  string
	}{
		"exit code":  {"image: any\ncommand: [sh, -c, 'echo no luck; exit 3']\nbackoff_limit: 0", stepwell.StepFailed, stepwell.CodeFailed, "exit code 3"},
		"time limit": {"image: any\ncommand: [sleep, '60']\ntimeout_seconds: 1", stepwell.StepTimedOut, stepwell.CodeTimeout, "timeout_seconds"},
		"no image":   {"image: " + kubetest.MissingImage + "\npending_seconds: 1", stepwell.StepFailed, stepwell.CodeUnavailable, "Pull"},
		"no node":    {"image: " + kubetest.NeverStarts + "\npending_seconds: 1", stepwell.StepFailed, stepwell.CodeUnavailable, "Unschedulable"},
		"invalid":    {"image: any\nmanifest: {spec: {nonsense: 1}}", stepwell.StepFailed, stepwell.CodeInvalid, "nonsense"},
		"namespace":  {"image: any\nnamespace: kube-system", stepwell.StepFailed, stepwell.CodeDenied, "kube-system"},
		"no cluster": {"image: any\ncluster_id: mars", stepwell.StepFailed, stepwell.CodeInvalid, "mars"},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t).open()
			id := r.begin(kube.JobAction, c.params)
			r.failed(r.ended(id), c.status, c.code, c.words)
			if strings.HasPrefix(what, "no ") {
				r.await("the job is gone", func() bool { return len(r.jobs()) == 0 })
			}
		})
	}
}

func TestCancelledJobIsDeleted(t *testing.T) {
	r := newRig(t).open()
	id := r.begin(kube.JobAction, "image: any\ncommand: [sh, -c, 'echo up; sleep 60']")
	r.await("it runs", func() bool { return slices.Contains(r.lines(id), "up") })
	if err := r.app.Conductor.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	r.ended(id)
	r.await("the job is gone", func() bool { return len(r.jobs()) == 0 })
}

// TestJobEndsWhileNoProcessRuns: the next process finds the outcome, and each line once.
func TestJobEndsWhileNoProcessRuns(t *testing.T) {
	r := newRig(t).open()
	id := r.begin(kube.JobAction, "image: any\ncommand: [sh, -c, 'echo one; sleep 1.5; echo two']")
	r.await("the first line", func() bool { return slices.Contains(r.lines(id), "one") })
	r.stop()
	name := r.jobs()[0].Text("metadata", "name")
	r.cluster.Await(t, r.jobsPath()+"/"+name, "complete", func(o kubetest.Object) bool { return o.At("status", "succeeded") == 1.0 })
	r.open()
	if out := r.outputs(r.ended(id)); out["job_name"] != name || out["logs"] != "one\ntwo\n" {
		t.Errorf("outputs %v", out)
	}
	r.await("the second line", func() bool { return slices.Contains(r.lines(id), "two") })
	lines := slices.DeleteFunc(r.lines(id), func(l string) bool { return l != "one" && l != "two" })
	if !slices.Equal(lines, []string{"one", "two"}) || len(r.jobs()) != 1 {
		t.Errorf("lines %q, %d jobs", lines, len(r.jobs()))
	}
}
