package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/kube/kubetest"
)

// remove deletes an object as somebody else does.
func (r *rig) remove(path string) {
	r.Helper()
	if _, err := r.cluster.Do(r.Context(), "DELETE", path+"?propagationPolicy=Background", nil); err != nil {
		r.Fatal(err)
	}
}

// jobNamed is the only job, once there is one.
func (r *rig) onlyJob() string {
	r.Helper()
	r.await("one job", func() bool { return len(r.jobs()) == 1 })
	return r.jobs()[0].Text("metadata", "name")
}

// TestDeletedJobFailsAndIsNotMadeAgain: also when it is deleted while no process runs.
func TestDeletedJobFailsAndIsNotMadeAgain(t *testing.T) {
	for what, away := range map[string]bool{"while it is watched": false, "while no process runs": true} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t).open()
			id := r.begin(kube.JobAction, "image: any\ncommand: [sh, -c, 'echo up; sleep 60']")
			r.await("it runs", func() bool { return slices.Contains(r.lines(id), "up") })
			name := r.onlyJob()
			if away {
				r.stop()
			}
			r.remove(r.jobsPath() + "/" + name)
			if away {
				r.open()
			}
			r.failed(r.ended(id), stepwell.StepFailed, stepwell.CodeFailed, name, "deleted by somebody")
			if n := len(r.jobs()); n != 0 {
				t.Errorf("%d jobs", n)
			}
		})
	}
}

// TestRestartMakesANewJob: the first one is untouched, unless the step says the name.
func TestRestartMakesANewJob(t *testing.T) {
	for params, jobs := range map[string]int{"image: any\ncommand: [sh, -c, 'exit 1']\nbackoff_limit: 0": 2, "image: any\ncommand: [sh, -c, 'exit 1']\nbackoff_limit: 0\njob_name: mine": 1} {
		t.Run(params, func(t *testing.T) {
			r := newRig(t).open()
			id := r.begin(kube.JobAction, params)
			r.failed(r.ended(id), stepwell.StepFailed, stepwell.CodeFailed, "exit code 1")
			first := r.jobs()[0].Text("metadata", "uid")
			if err := r.app.Conductor.Restart(t.Context(), id, "job", false); err != nil {
				t.Fatal(err)
			}
			r.failed(r.ended(id), stepwell.StepFailed, stepwell.CodeFailed, "exit code 1")
			now := r.jobs()
			untouched := slices.ContainsFunc(now, func(o kubetest.Object) bool { return o.Text("metadata", "uid") == first })
			if len(now) != jobs || untouched != (jobs == 2) {
				t.Errorf("%d jobs, the first is there: %v", len(now), untouched)
			}
		})
	}
}

// TestStrangersAreLeftAlone: a job and a CronJob of the name that are not this installation's.
func TestStrangersAreLeftAlone(t *testing.T) {
	r := newRig(t).open()
	r.cluster.Post(t, r.jobsPath(), kubetest.Object{"metadata": kubetest.Object{"name": "mine"}, "spec": kubetest.Object{"suspend": true, "template": kubetest.Object{"spec": kubetest.Object{
		"restartPolicy": "Never", "containers": []kubetest.Object{{"name": "main", "image": "any"}}}}}})
	r.failed(r.ended(r.begin(kube.JobAction, "image: any\njob_name: mine")), stepwell.StepFailed, stepwell.CodeConflict, "mine", "not this step's")
	cron := strings.TrimSuffix(r.jobsPath(), "jobs") + "cronjobs"
	r.cluster.Post(t, cron, kubetest.Object{"metadata": kubetest.Object{"name": "mine"}, "spec": kubetest.Object{"schedule": "0 0 * * *", "jobTemplate": kubetest.Object{"spec": kubetest.Object{"template": kubetest.Object{
		"spec": kubetest.Object{"restartPolicy": "Never", "containers": []kubetest.Object{{"name": "main", "image": "any"}}}}}}}})
	r.failed(r.ended(r.begin(kube.CronJobAction, "name: mine\nimage: any\nschedule: '0 1 * * *'")), stepwell.StepFailed, stepwell.CodeConflict, "mine")
	r.failed(r.ended(r.begin(kube.CronJobAction, "name: mine\nstate: absent")), stepwell.StepFailed, stepwell.CodeConflict, "mine")
}

func TestCronJobIsAppliedAndDeleted(t *testing.T) {
	r := newRig(t).open()
	path := strings.TrimSuffix(r.jobsPath(), "jobs") + "cronjobs/nightly"
	params := "name: nightly\nimage: any\nschedule: '0 3 * * *'\nenv_from_secrets: {TOKEN: geheim}"
	first := r.outputs(r.ended(r.begin(kube.CronJobAction, params)))
	again := r.outputs(r.ended(r.begin(kube.CronJobAction, strings.Replace(params, "0 3", "0 4", 1))))
	if next, err := time.Parse(time.RFC3339, again["next_schedule_time"].(string)); err != nil || next.Hour() != 4 || next.Minute() != 0 || !next.After(time.Now()) || time.Until(next) > 24*time.Hour {
		t.Errorf("the next job is due %v: %v", again["next_schedule_time"], err)
	}
	if first["uid"] != again["uid"] || first["uid"] == nil {
		t.Errorf("applied twice: %v, %v", first, again)
	}
	made := r.cluster.Get(t, path)
	if made.Text("spec", "schedule") != "0 4 * * *" || made.Text("spec", "concurrencyPolicy") != "Forbid" {
		t.Errorf("the CronJob is %v", made)
	}
	secret := r.cluster.Get(t, "/api/v1/namespaces/"+r.namespace+"/secrets/sw-env-nightly")
	if owners := secret.At("metadata", "ownerReferences"); owners == nil {
		t.Errorf("the Secret is nobody's: %v", secret)
	}
	if rests := r.outputs(r.ended(r.begin(kube.CronJobAction, params+"\nsuspend: true"))); rests["next_schedule_time"] != nil {
		t.Errorf("suspended: %v", rests)
	}
	if gone := r.outputs(r.ended(r.begin(kube.CronJobAction, "name: nightly\nstate: absent"))); gone["deleted"] != true {
		t.Errorf("deleted: %v", gone)
	}
	r.cluster.Await(t, path, "gone", func(o kubetest.Object) bool { return o == nil })
	if gone := r.outputs(r.ended(r.begin(kube.CronJobAction, "name: nightly\nstate: absent"))); gone["deleted"] != false {
		t.Errorf("deleted again: %v", gone)
	}
}

// TestSecretVariables: they are in a Secret that goes with the job, in no manifest, and not in what Stepwell records.
func TestSecretVariables(t *testing.T) {
	r := newRig(t).open()
	if _, err := r.app.Secrets.Vault.Set(t.Context(), "token", "s3cr3t-value", 0, "test"); err != nil {
		t.Fatal(err)
	}
	id := r.begin(kube.JobAction, "image: any\ncommand: [sh, -c, 'echo \"got $TOKEN\"']\nenv_from_secrets: {TOKEN: '{{ secrets.token }}'}")
	out := r.outputs(r.ended(id))
	step := r.step(id)
	if strings.Contains(string(step.Output), "s3cr3t") || strings.Contains(string(step.Input), "s3cr3t") {
		t.Errorf("the secret is in the records: %s %s", step.Input, step.Output)
	}
	r.await("the line", func() bool {
		return slices.ContainsFunc(r.lines(id), func(l string) bool { return strings.HasPrefix(l, "got ") })
	})
	for _, line := range r.lines(id) {
		if strings.Contains(line, "s3cr3t") {
			t.Errorf("the secret is in the log: %s", line)
		}
	}
	name, _ := out["job_name"].(string)
	job := r.cluster.Get(t, r.jobsPath()+"/"+name)
	secret := "/api/v1/namespaces/" + r.namespace + "/secrets/" + name
	if env := job.At("spec", "template", "spec", "containers").([]any)[0].(map[string]any)["env"]; strings.Contains(strings.TrimSpace(text(env)), "s3cr3t") {
		t.Errorf("the secret is in the job: %v", env)
	}
	r.cluster.Get(t, secret)
	r.remove(r.jobsPath() + "/" + name)
	r.cluster.Await(t, secret, "gone", func(o kubetest.Object) bool { return o == nil })
}

// TestManyPodsOfAJob: an indexed job; the outputs are those of the pod that ended last.
func TestManyPodsOfAJob(t *testing.T) {
	r := newRig(t).open()
	id := r.begin(kube.JobAction, "image: any\ncommand: [sh, -c, 'echo \"{\\\"ok\\\": true}\"']\ncompletions: 3\nparallelism: 2\noutputs_from: last_line")
	if out := r.outputs(r.ended(id)); out["ok"] != true {
		t.Errorf("outputs %v", out)
	}
	r.await("three lines", func() bool {
		return len(slices.DeleteFunc(r.lines(id), func(l string) bool { return l != `{"ok": true}` })) == 3
	})
}

// TestKeptJobIsSuspended: a cancelled job with keep: always stays as a record, without pods.
func TestKeptJobIsSuspended(t *testing.T) {
	r := newRig(t).open()
	id := r.begin(kube.JobAction, "image: any\ncommand: [sh, -c, 'echo up; sleep 60']\nkeep: always")
	r.await("it runs", func() bool { return slices.Contains(r.lines(id), "up") })
	if err := r.app.Conductor.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	r.ended(id)
	r.cluster.Await(t, r.jobsPath()+"/"+r.onlyJob(), "suspended", func(o kubetest.Object) bool { return o.At("spec", "suspend") == true })
	r.await("no pods", func() bool { return len(r.cluster.Items(t, "/api/v1/namespaces/"+r.namespace+"/pods")) == 0 })
}

// TestQuotaIsTold: a namespace without room for pods; the log says so at once, the step fails after pending_seconds.
func TestQuotaIsTold(t *testing.T) {
	r := newRig(t).open()
	r.cluster.Post(t, "/api/v1/namespaces/"+r.namespace+"/limitranges", kubetest.Object{"metadata": kubetest.Object{"name": "none"},
		"spec": kubetest.Object{"limits": []kubetest.Object{{"type": "Container", "max": kubetest.Object{"cpu": "1m"}}}}})
	id := r.begin(kube.JobAction, "image: any\npending_seconds: 4\nresources: {requests: {cpu: 2}, limits: {cpu: 2}}")
	r.failed(r.ended(id), stepwell.StepFailed, stepwell.CodeUnavailable, "FailedCreate", "cpu")
	if !slices.ContainsFunc(r.lines(id), func(l string) bool { return strings.Contains(l, "does not start: FailedCreate") }) {
		t.Errorf("the log is %q", r.lines(id))
	}
}
