package kube

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Names of the actions.
const (
	JobAction     = "external.k8s.job"
	CronJobAction = "external.k8s.cronjob"
)

// podParams are the parameters of what is run; those up to Labels are budpipeline's (§6.2).
type podParams struct {
	ClusterID    string            `json:"cluster_id" spec:"ref" doc:"A cluster of the setting ´kubernetes.clusters´; the default one if there is none."`
	Image        string            `json:"image" minLength:"1" maxLength:"1000" doc:"The container's image; required without ´manifest´."`
	Command      []string          `json:"command" maxItems:"1000" doc:"Replaces the image's entrypoint."`
	Args         []string          `json:"args" maxItems:"1000" doc:"Replaces the image's arguments."`
	EnvVars      map[string]any    `json:"env_vars" doc:"Variables of the environment. Everybody who may read the job in the cluster sees them: secrets belong into ´env_from_secrets´."`
	Resources    *resources        `json:"resources" doc:"Requests and limits of the container."`
	GPUs         int               `json:"gpu_count" default:"0" minimum:"0" maximum:"1000" doc:"GPUs of the container (nvidia.com/gpu)."`
	NodeSelector map[string]string `json:"node_selector" doc:"Labels that the node must have."`
	Tolerations  []any             `json:"tolerations" maxItems:"100" doc:"Taints of nodes that are tolerated, as Kubernetes writes them."`
	BackoffLimit int               `json:"backoff_limit" default:"3" minimum:"0" maximum:"1000" doc:"How many of its pods may fail before the job has. A pod that is evicted, preempted or loses its node is replaced and does not count."`
	Timeout      int               `json:"timeout_seconds" default:"3600" minimum:"1" maximum:"31536000" doc:"How long the job may take; Kubernetes stops it then, whether Stepwell runs or not."`
	TTL          int               `json:"ttl_seconds" default:"86400" minimum:"0" maximum:"31536000" doc:"How long an ended job stays in the cluster. It counts once its outcome is recorded; until then a job stays for seven days."`
	Namespace    string            `json:"namespace" maxLength:"63" doc:"Its namespace, one of those that the settings of the cluster allow; by default the cluster's."`
	JobName      string            `json:"job_name" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" doc:"Its name; by default one that nothing else has."`
	Labels       map[string]string `json:"labels" doc:"Further labels of the job and its pods."`

	EnvFromSecrets map[string]string `json:"env_from_secrets" writeOnly:"true" doc:"Secret variables of the environment. They are put into a Kubernetes Secret that goes with the job."`
	ServiceAccount string            `json:"service_account" maxLength:"253" doc:"The pods' service account. Without it they get no token."`
	PullSecrets    []string          `json:"pull_secrets" maxItems:"20" doc:"Names of Secrets of the namespace for pulling the image."`
	Manifest       map[string]any    `json:"manifest" doc:"A Kubernetes manifest that is merged over the one made of the other parameters; lists of containers are merged by name, the first without one."`
}

type resources struct {
	Requests map[string]any `json:"requests" doc:"Such as ´cpu: 500m´, ´memory: 1Gi´."`
	Limits   map[string]any `json:"limits" doc:"The same for the end."`
}

type jobParams struct {
	podParams
	Parallelism int `json:"parallelism" default:"1" minimum:"1" maximum:"10000" doc:"How many pods run at once."`
	Completions int `json:"completions" default:"1" minimum:"1" maximum:"100000" doc:"How many pods have to succeed. ´JOB_COMPLETION_INDEX´ numbers them if there are several."`
	watchParams
}

// watchParams are what the end of a job and its log are looked at with.
type watchParams struct {
	Pending     int    `json:"pending_seconds" default:"600" minimum:"1" maximum:"604800" doc:"How long a pod may fail to start (no node, no image, no quota). Then the step fails with the reason."`
	Logs        string `json:"logs" default:"follow" enum:"follow,end,none" doc:"´follow´: the pods' lines are in the step's log as they come. ´end´: the last ones, when the job has ended."`
	TailLines   int    `json:"tail_lines" default:"1000" minimum:"1" maximum:"10000" doc:"How many of the last lines are read at the end."`
	OutputsFrom string `json:"outputs_from" default:"termination_message" enum:"termination_message,last_line,none" doc:"Where the container leaves outputs as a JSON object: in ´/dev/termination-log´ (4 KiB), or as its last line."`
	Keep        string `json:"keep" default:"never" enum:"never,failed,always" doc:"´failed´: a failed job stays for seven days, whatever ´ttl_seconds´ says. ´always´: every ended one does, and a cancelled one is suspended instead of deleted and stays for ´ttl_seconds´."`
}

type cronParams struct {
	podParams
	Name        string `json:"name" required:"true" maxLength:"52" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" doc:"Name of the CronJob."`
	Schedule    string `json:"schedule" maxLength:"200" doc:"Five cron fields; required unless ´state´ is absent."`
	TimeZone    string `json:"time_zone" maxLength:"100" doc:"Such as ´Europe/Berlin´; the cluster's by default."`
	Suspend     bool   `json:"suspend" doc:"It starts nothing while this is true."`
	Concurrency string `json:"concurrency_policy" default:"Forbid" enum:"Allow,Forbid,Replace" doc:"What happens when a job is due while the one before still runs."`
	State       string `json:"state" default:"present" enum:"present,absent" doc:"´absent´ deletes the CronJob and its jobs."`
}

func jobSpec() spec.Spec {
	return spec.Spec{
		Name: JobAction, Effect: spec.OnceEffect, Places: []string{"cluster_id+namespace+job_name"}, Summary: "Runs a Kubernetes Job and waits for its end without holding a worker.", Doc: jobDoc, Timeout: 2 * time.Minute, Stays: true, OpenOutputs: true,
		Params: spec.FieldsOf[jobParams](),
		Outputs: []spec.Field{
			{Name: "job_uid", Type: spec.String, Doc: "The job's uid."},
			{Name: "job_name", Type: spec.String, Doc: "Its name."},
			{Name: "namespace", Type: spec.String, Doc: "Its namespace."},
			{Name: "cluster_id", Type: spec.String, Doc: "The cluster."},
			{Name: "exit_code", Type: spec.Integer, Doc: "Of the container that ended last."},
			{Name: "logs", Type: spec.String, Doc: "The last 64 KiB of its log; empty with `logs: none`."},
		},
		Examples: []spec.Example{
			{Title: "train on a GPU", YAML: "id: train\naction: external.k8s.job\nparams:\n  cluster_id: eu\n  image: registry.example/train:7\n  args: [--epochs, \"{{ params.epochs }}\"]\n" +
				"  gpu_count: 1\n  resources: {requests: {cpu: 2, memory: 8Gi}}\n  env_from_secrets: {HF_TOKEN: \"{{ secrets.hf_token }}\"}\n  timeout_seconds: 14400"},
			{Title: "eight workers of one job", YAML: "id: shards\naction: external.k8s.job\nparams:\n  image: registry.example/shard:2\n  completions: 8\n  parallelism: 4\n  outputs_from: none"},
		},
	}
}

func cronSpec() spec.Spec {
	return spec.Spec{
		Name: CronJobAction, Effect: spec.OnceEffect, Places: []string{"cluster_id+namespace+name"}, Summary: "Creates, changes or deletes a Kubernetes CronJob.", Doc: cronDoc, Timeout: 2 * time.Minute, Stays: true,
		Params: spec.FieldsOf[cronParams](),
		Outputs: []spec.Field{
			{Name: "uid", Type: spec.String, Doc: "The CronJob's uid."},
			{Name: "name", Type: spec.String, Doc: "Its name."},
			{Name: "namespace", Type: spec.String, Doc: "Its namespace."},
			{Name: "cluster_id", Type: spec.String, Doc: "The cluster."},
			{Name: "next_schedule_time", Type: spec.Time, Doc: "When it starts its next job, in UTC: from `schedule` and `time_zone`, without which the cluster's clock is taken for UTC. Not while it is suspended."},
			{Name: "deleted", Type: spec.Boolean, Doc: "With `state: absent`: whether there was one."},
		},
		Examples: []spec.Example{{Title: "a nightly job in the cluster", YAML: "id: nightly\naction: external.k8s.cronjob\nparams:\n  name: cleanup\n  schedule: \"0 3 * * *\"\n  image: registry.example/cleanup:1"}},
	}
}

const jobDoc = "**Once.** The job gets a name that is recorded before it is created. An attempt creates exactly one job, across crashes: a later call finds the job by its name and continues with it if it belongs to the attempt. " +
	"A retry, and a restart of the step, create a new job. A job that is deleted from outside fails the step and is not created again.\n\n" +
	"**Waiting** holds no worker. The process that runs the execution watches the job's namespace; lines of the pods are in the step's log with their own times. A job that ends while no process runs is found afterwards.\n\n" +
	"**Cancel** deletes the job and its pods, also when the process dies in between.\n\n" +
	"| what happens | code | tried again |\n|---|---|---|\n" +
	"| more pods have failed than `backoff_limit` allows | `failed`, with the exit code | by the step's policy, as a new job |\n" +
	"| the job takes longer than `timeout_seconds` | `timeout` | by the policy |\n" +
	"| a pod failure policy ends it, the server finds the manifest invalid | `invalid` | no |\n" +
	"| the image or the namespace is not allowed by the settings, or the cluster does not allow the request (403) | `denied` | no |\n" +
	"| the API server is unavailable or answers 5xx | `unavailable` | by the policy; while a job is awaited it is asked again |\n" +
	"| it answers 429 | `unavailable` | later, which does not count |\n" +
	"| no pod starts within `pending_seconds`: no node, no image, no quota | `unavailable`, with the reason | by the policy, as a new job |\n" +
	"| a pod is evicted, preempted or loses its node | | Kubernetes replaces the pod, and does not count it |\n" +
	"| somebody deletes the job | `failed` | no |\n\n" +
	"[docs/kubernetes.md](kubernetes.md) has the settings and the rights that are needed."

const cronDoc = "Applied on the server side as the field manager `stepwell`: a repetition changes nothing. A CronJob of the same name that is not Stepwell's, or another installation's, is left alone (`conflict`). The step does not follow the jobs that it starts. [docs/kubernetes.md](kubernetes.md) has the settings."

func (p *podParams) pod() *podParams { return p }

var envName = action.Pattern(`^[-._A-Za-z][-._A-Za-z0-9]*$`)

// validate finds what the fields cannot say; values with templates are missing.
func (p *podParams) validate(map[string]any) (problems []error) {
	if len(p.Namespace) > 0 && !dnsLabel().MatchString(p.Namespace) {
		problems = append(problems, action.Invalid("lowercase letters, digits and -", "namespace: %q is not the name of one", p.Namespace))
	}
	for name := range p.EnvVars {
		if !envName().MatchString(name) {
			problems = append(problems, action.Invalid("", "env_vars: %q is not the name of a variable", name))
		}
	}
	for name := range p.EnvFromSecrets {
		if _, twice := p.EnvVars[name]; twice || !envName().MatchString(name) {
			problems = append(problems, action.Invalid("", "env_from_secrets: %q is not the name of a variable, or is in env_vars too", name))
		}
	}
	for key, value := range p.Labels {
		if !labelKey().MatchString(key) || strings.HasPrefix(key, labelPrefix) || !labelValue().MatchString(value) {
			problems = append(problems, action.Invalid("keys and values have at most 63 letters, digits, - _ and .", "labels: %q is not a label that may be given", key))
		}
	}
	return problems
}

func (p *podParams) missing(given map[string]any) []error {
	if given["image"] == nil && given["manifest"] == nil {
		return []error{action.Invalid("", "image is required")}
	}
	return nil
}

var (
	labelKey   = action.Pattern(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = action.Pattern(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// text writes a value of a parameter as a variable has it.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil { // values of a template are JSON
		return ""
	}
	return string(raw)
}
