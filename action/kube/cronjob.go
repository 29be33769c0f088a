package kube

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/schedule"
)

// cronHandler is external.k8s.cronjob.
type cronHandler struct{ clusters *Clusters }

// Validate implements action.Validator.
func (h *cronHandler) Validate(values map[string]any) []error {
	return h.clusters.validate(values, &cronParams{}, false)
}

// ValidateWhole implements action.WholeValidator.
func (h *cronHandler) ValidateWhole(values map[string]any) []error {
	return h.clusters.validate(values, &cronParams{}, true)
}

func (p *cronParams) validate(given map[string]any) []error {
	if p.State == "absent" {
		return nil
	}
	problems := p.podParams.validate(given)
	if given["job_name"] != nil {
		problems = append(problems, action.Invalid("leave it out: jobs are named after the CronJob", "job_name: a CronJob names its jobs itself"))
	}
	return problems
}

func (p *cronParams) missing(given map[string]any) []error {
	if p.State == "absent" {
		return nil
	}
	problems := p.podParams.missing(given)
	if given["schedule"] == nil {
		problems = append(problems, action.Invalid("", "schedule is required"))
	}
	return problems
}

// Run applies the CronJob, or deletes it.
func (h *cronHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	p := cronParams{}
	cluster, namespace, err := h.clusters.bind(ctx, call, &p)
	if err != nil {
		return nil, err
	}
	k, err := cluster.connect(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"name": p.Name, "namespace": namespace, "cluster_id": cluster.id}
	path := "/apis/batch/v1/namespaces/" + url.PathEscape(namespace) + "/cronjobs/" + url.PathEscape(p.Name)
	var there cronJob
	err = k.do(ctx, request{method: http.MethodGet, path: path}, &there)
	found := err == nil
	if err != nil && statusOf(err) != http.StatusNotFound {
		return nil, steer(err)
	}
	if found && there.Metadata.Labels[labelInstance] != label(h.clusters.o.Instance()) {
		return nil, conflictWith("CronJob", p.Name, "is not one of this installation")
	}
	if p.State == "absent" {
		out["deleted"] = found
		if found {
			out["uid"] = there.Metadata.UID
			return out, steer(remove(ctx, k, path, there.Metadata.UID))
		}
		return out, nil
	}
	made, err := h.apply(ctx, call, k, &p, path, namespace, found)
	if err != nil {
		return nil, steer(err)
	}
	out["uid"] = made.Metadata.UID
	if next, ok := made.next(h.clusters.o.Now()); ok {
		out["next_schedule_time"] = next.UTC().Format(time.RFC3339)
	}
	return out, nil
}

// cronJob is the part of a CronJob that is used.
type cronJob struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Schedule string `json:"schedule"`
		TimeZone string `json:"timeZone"`
		Suspend  bool   `json:"suspend"`
	} `json:"spec"`
}

// next is when the controller starts the next job, which it does not tell; false: it starts none, or its notation is Kubernetes' alone.
func (c *cronJob) next(now time.Time) (time.Time, bool) {
	s, err := schedule.Parse(schedule.Spec{Cron: c.Spec.Schedule, Zone: c.Spec.TimeZone})
	if err != nil || c.Spec.Suspend {
		return time.Time{}, false
	}
	return s.Next(now)
}

// apply makes the CronJob what the parameters say, and its Secret.
func (h *cronHandler) apply(ctx context.Context, call *action.Call, k *client, p *cronParams, path, namespace string, ours bool) (made cronJob, err error) {
	id := &identity{instance: h.clusters.o.Instance(), execution: call.Execution, step: call.StepKey, key: call.IdempotencyKey()}
	manifest, err := cronManifest(p, id, namespace)
	if err != nil {
		return made, err
	}
	if err := h.clusters.allowImages(objectAt(manifest, "spec", "jobTemplate", "spec", "template", "spec")); err != nil {
		return made, err
	}
	query := url.Values{"fieldManager": {"stepwell"}, "fieldValidation": {"Strict"}}
	if ours {
		query.Set("force", "true")
	}
	if err := k.do(ctx, request{method: http.MethodPatch, path: path, query: query, kind: applyPatch, body: manifest}, &made); err != nil {
		return made, err
	}
	if len(p.EnvFromSecrets) == 0 {
		return made, nil
	}
	secret := secretManifest(p.EnvFromSecrets, id, cronSecret(p.Name), namespace, made.Metadata.UID)
	delete(secret, "immutable")
	owner := secret["metadata"].(object)["ownerReferences"].([]any)[0].(object)
	owner["kind"], owner["name"] = "CronJob", p.Name
	return made, h.applySecret(ctx, k, secret, corePath(namespace, "secrets", cronSecret(p.Name)), query)
}

// applySecret makes the Secret of a CronJob what it is to be, without reading it: that right is not needed.
func (h *cronHandler) applySecret(ctx context.Context, k *client, secret object, path string, query url.Values) error {
	query = url.Values{"fieldManager": query["fieldManager"], "fieldValidation": query["fieldValidation"]}
	err := k.do(ctx, request{method: http.MethodPatch, path: path, query: query, kind: applyPatch, body: secret}, nil)
	if statusOf(err) == http.StatusConflict {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeConflict, Message: "the Secret of the CronJob belongs to another owner", Err: err})
	}
	return err
}
