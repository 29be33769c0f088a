package kube

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

type object = map[string]any

// Labels and annotations of what is created.
const (
	labelPrefix    = "stepwell.io/"
	labelInstance  = "stepwell.io/instance"
	labelExecution = "stepwell.io/execution"
	labelEvent     = "stepwell.io/event" // of a CronJob's job: whether its end has been announced
	eventPending   = "pending"
	eventSent      = "sent"
	noteKey        = "stepwell.io/key"   // the step's idempotency key
	noteNonce      = "stepwell.io/nonce" // the attempt's
	noteStep       = "stepwell.io/step"
	noteWatch      = "stepwell.io/watch"  // watchOptions
	noteDelete     = "stepwell.io/delete" // when a job that was suspended goes
	containerName  = "main"
	safetyTTL      = 7 * 24 * time.Hour
)

// identity is whose an object is.
type identity struct {
	instance, execution, step, key, nonce, trace string
}

// labels are the labels of everything that is created for a step.
func (id *identity) labels(more map[string]string) object {
	labels := object{}
	for key, value := range more {
		labels[key] = value
	}
	labels[labelInstance] = label(id.instance)
	labels[labelExecution], labels["bud-execution-id"], labels["bud-step-id"] = label(id.execution), label(id.execution), label(id.step)
	return labels
}

func (id *identity) annotations() object {
	notes := object{noteKey: id.key, noteNonce: id.nonce, noteStep: id.step}
	if id.trace != "" {
		notes["traceparent"] = id.trace
	}
	return notes
}

// label makes a label's value of any text.
func label(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.') {
			return r
		}
		return '-'
	}, text)
	return strings.Trim(text[:min(len(text), 63)], "-_.")
}

// slug is a beginning for names, of at most n characters.
func slug(text string, n int) string {
	s := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(s[:min(len(s), n)], "-")
}

// watchOptions are what the end of a job and its log are looked at with. They are in the job itself too, for the observer.
type watchOptions struct {
	watchParams
	TTL int `json:"ttl_seconds"`
}

func (p *jobParams) watch() watchOptions { return watchOptions{p.watchParams, p.TTL} }

// jobManifest is the Job of a step.
func jobManifest(p *jobParams, id *identity, name, namespace string) (object, error) {
	watch, err := json.Marshal(p.watch())
	if err != nil {
		return nil, err
	}
	notes := id.annotations()
	notes[noteWatch] = string(watch)
	job := object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{}, "spec": p.jobTemplate(id, name)}
	spec := job["spec"].(object)
	spec["ttlSecondsAfterFinished"] = int(safetyTTL / time.Second)
	if p.Completions > 1 {
		spec["completions"], spec["parallelism"], spec["completionMode"] = p.Completions, min(p.Parallelism, p.Completions), "Indexed"
	} else if p.Parallelism > 1 {
		return nil, action.Invalid("give completions too", "parallelism: one completion is one pod")
	}
	job = merge(job, p.Manifest)
	if err := checkKind(job, "Job", "batch/v1"); err != nil {
		return nil, err
	}
	spec = objectAt(job, "spec") // what follows is not the manifest's to say: the job must be found when it has ended
	spec["ttlSecondsAfterFinished"] = int(safetyTTL / time.Second)
	spec["suspend"] = len(p.EnvFromSecrets) > 0
	fitPolicy(spec)
	job["metadata"] = withMeta(job["metadata"], name, namespace, id.labels(p.Labels), notes)
	return job, labelPods(job, id.labels(p.Labels), "spec", "template")
}

// fitPolicy leaves the pod failure policy out where Kubernetes takes none: containers are started again in their pods.
func fitPolicy(spec object) {
	if objectAt(spec, "template", "spec")["restartPolicy"] == "OnFailure" {
		delete(spec, "podFailurePolicy")
	}
}

// jobTemplate is the spec of a Job.
func (p *podParams) jobTemplate(id *identity, secret string) object {
	return object{
		"backoffLimit": p.BackoffLimit, "activeDeadlineSeconds": p.Timeout,
		"podFailurePolicy": object{"rules": []any{object{"action": "Ignore", "onPodConditions": []any{object{"type": "DisruptionTarget", "status": "True"}}}}},
		"template":         object{"metadata": object{"labels": id.labels(p.Labels)}, "spec": p.podSpec(secret)},
	}
}

func (p *podParams) podSpec(secret string) object {
	c := object{"name": containerName, "image": p.Image, "terminationMessagePolicy": "FallbackToLogsOnError"}
	set := func(in object, key string, value any, given bool) {
		if given {
			in[key] = value
		}
	}
	set(c, "command", p.Command, len(p.Command) > 0)
	set(c, "args", p.Args, len(p.Args) > 0)
	env := []any{}
	for _, name := range slices.Sorted(maps.Keys(p.EnvVars)) {
		env = append(env, object{"name": name, "value": text(p.EnvVars[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(p.EnvFromSecrets)) {
		env = append(env, object{"name": name, "valueFrom": object{"secretKeyRef": object{"name": secret, "key": name}}})
	}
	set(c, "env", env, len(env) > 0)
	res := object{}
	limits := object{}
	if r := p.Resources; r != nil {
		maps.Copy(limits, r.Limits)
		set(res, "requests", r.Requests, len(r.Requests) > 0)
	}
	set(limits, "nvidia.com/gpu", p.GPUs, p.GPUs > 0)
	set(res, "limits", limits, len(limits) > 0)
	set(c, "resources", res, len(res) > 0)
	pod := object{"restartPolicy": "Never", "containers": []any{c}}
	set(pod, "nodeSelector", p.NodeSelector, len(p.NodeSelector) > 0)
	set(pod, "tolerations", p.Tolerations, len(p.Tolerations) > 0)
	set(pod, "serviceAccountName", p.ServiceAccount, p.ServiceAccount != "")
	set(pod, "automountServiceAccountToken", false, p.ServiceAccount == "")
	pulls := []any{}
	for _, name := range p.PullSecrets {
		pulls = append(pulls, object{"name": name})
	}
	set(pod, "imagePullSecrets", pulls, len(pulls) > 0)
	return pod
}

// cronSecret is the name of the Secret of a CronJob.
func cronSecret(name string) string { return "sw-env-" + name }

// cronManifest is the CronJob of a step.
func cronManifest(p *cronParams, id *identity, namespace string) (object, error) {
	spec := p.jobTemplate(id, cronSecret(p.Name))
	spec["ttlSecondsAfterFinished"] = p.TTL
	cron := object{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": object{}, "spec": object{"schedule": p.Schedule, "suspend": p.Suspend, "concurrencyPolicy": p.Concurrency,
		"jobTemplate": object{"metadata": object{}, "spec": spec}}}
	if p.TimeZone != "" {
		cron["spec"].(object)["timeZone"] = p.TimeZone
	}
	cron = merge(cron, p.Manifest)
	if err := checkKind(cron, "CronJob", "batch/v1"); err != nil {
		return nil, err
	}
	fitPolicy(objectAt(cron, "spec", "jobTemplate", "spec"))
	notes := object{noteKey: id.key, noteStep: id.step}
	labels := id.labels(p.Labels)
	cron["metadata"] = withMeta(cron["metadata"], p.Name, namespace, labels, notes)
	jobs := objectAt(cron, "spec", "jobTemplate")
	given := objectAt(jobs, "metadata")
	jobs["metadata"] = merge(given, object{"labels": merge(labels, object{labelEvent: eventPending})})
	return cron, nil
}

func checkKind(o object, kind, version string) error {
	_, spec := o["spec"].(object)
	if o["kind"] != kind || o["apiVersion"] != version || !spec || o["status"] != nil {
		return action.Invalid("", "manifest: it is not a %s of %s", kind, version)
	}
	return nil
}

// withMeta adds what Stepwell says of an object to what its manifest says, and wins.
func withMeta(of any, name, namespace string, labels, notes object) object {
	given, _ := of.(object)
	meta := object{"name": name, "namespace": namespace, "labels": merge(objectAt(given, "labels"), labels), "annotations": merge(objectAt(given, "annotations"), notes)}
	if list, ok := given["finalizers"]; ok {
		meta["finalizers"] = list
	}
	return meta
}

func objectAt(o object, path ...string) object {
	for _, key := range path {
		o, _ = o[key].(object)
	}
	return o
}

// labelPods labels the pods of a template, whatever the manifest says.
func labelPods(o object, labels object, path ...string) error {
	template := objectAt(o, path...)
	if template == nil {
		return action.Invalid("", "manifest: it has no pod template")
	}
	meta := merge(objectAt(template, "metadata"), object{"labels": labels})
	template["metadata"] = meta
	return nil
}

// merge returns base with over on top: objects are merged, lists of containers too, all else is replaced. Neither is changed.
func merge(base, over object) object {
	out := maps.Clone(base)
	if out == nil {
		out = object{}
	}
	for key, value := range over {
		below, isObject := value.(object)
		old, wasObject := out[key].(object)
		list, isList := value.([]any)
		switch {
		case isObject && wasObject:
			out[key] = merge(old, below)
		case isObject:
			out[key] = merge(nil, below)
		case isList && key == "containers":
			before, _ := out[key].([]any)
			out[key] = mergeContainers(before, list)
		default:
			out[key] = value
		}
	}
	return out
}

// mergeContainers merges containers by name; one without a name is the first.
func mergeContainers(base, over []any) []any {
	out := slices.Clone(base)
	for i, v := range over {
		c, ok := v.(object)
		if !ok {
			out = append(out, v) // the server says what is wrong with it
			continue
		}
		at := slices.IndexFunc(out, func(b any) bool {
			o, _ := b.(object)
			return c["name"] != nil && o["name"] == c["name"]
		})
		if at < 0 && c["name"] == nil && i < len(base) {
			at = i
		}
		if at < 0 {
			out = append(out, c)
		} else if b, ok := out[at].(object); ok {
			out[at] = merge(b, c)
		}
	}
	return out
}

// imagesOf lists the images of a pod template's containers of all kinds.
func imagesOf(pod object) (list []string, err error) {
	for _, kind := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, ok := pod[kind].([]any)
		if !ok && pod[kind] != nil {
			return nil, action.Invalid("", "manifest: %s is not a list", kind)
		}
		for _, v := range containers {
			c, _ := v.(object)
			image, ok := c["image"].(string)
			if !ok || image == "" {
				return nil, action.Invalid("", "a container of the manifest has no image")
			}
			list = append(list, image)
		}
	}
	if volumes, ok := pod["volumes"].([]any); ok { // a volume may be an image too
		for _, v := range volumes {
			o, _ := v.(object)
			if image, ok := objectAt(o, "image")["reference"].(string); ok {
				list = append(list, image)
			}
		}
	}
	return list, nil
}

// allowImages refuses a pod with an image that the settings do not allow.
func (c *Clusters) allowImages(pod object) error {
	images, err := imagesOf(pod)
	if err != nil {
		return err
	}
	for _, image := range images {
		if err := c.AllowImage(image); err != nil {
			return action.Fail(err)
		}
	}
	return nil
}

// secretManifest is the Secret with the variables of a job, which goes with it.
func secretManifest(values map[string]string, id *identity, name, namespace, uid string) object {
	data := object{}
	for key, value := range values {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data, "immutable": true,
		"metadata": object{"name": name, "namespace": namespace, "labels": id.labels(nil), "annotations": object{noteKey: id.key},
			"ownerReferences": []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}}}}
}

// decode reads JSON as an object.
func decodeObject(text string) (object, bool) {
	var o object
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &o) != nil {
		return nil, false
	}
	return o, true
}

// conflictWith is the failure of a name that is taken.
func conflictWith(kind, name string, why string) error {
	return action.Fail(&stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the %s %s exists already and %s", kind, name, why), Hint: "choose another name"})
}
