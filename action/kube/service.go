package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
)

// The operations of a service that runs jobs on clusters (budpipeline §6.2).
const (
	serviceJobs   = "/api/v1/k8s/jobs"
	serviceJob    = serviceJobs + "/{job_name}"
	serviceStatus = serviceJob + "/status"
	serviceLogs   = serviceJob + "/logs"
)

// Times of a job that a service runs.
const (
	askFirst   = time.Second      // between two questions, growing with the age of the job
	askMost    = 10 * time.Second // budpipeline's poll_interval
	askFailing = 5 * time.Minute  // between two questions that fail
	unseenFor  = 10 * time.Second // a job that was submitted may not be there yet for that long
	logsTries  = 5                // questions for the log of an ended job
)

// serviceAnswer is what such a service answers to all of them.
type serviceAnswer struct {
	UID      string          `json:"job_uid"`
	Status   string          `json:"status"`
	Error    any             `json:"error"`
	ExitCode json.RawMessage `json:"exit_code"`
	Logs     string          `json:"logs"`
}

// notOfServices are the parameters of jobs that budpipeline §6.2 does not have, and their values that ask for nothing.
var notOfServices = map[string]string{"env_from_secrets": "", "service_account": "", "pull_secrets": "", "manifest": "", "completions": "1", "parallelism": "1", "keep": "never", "pending_seconds": "600"}

// beyond are the parameters that the service of a cluster does not take; written says that the values are as the document has them, without
// defaults.
func (c *Cluster) beyond(given map[string]any, p params, written bool) (problems []error) {
	if c.access.Service == "" {
		return nil
	}
	if _, ok := p.(*jobParams); !ok {
		return []error{action.Invalid("name a cluster with a kubeconfig", "the cluster %s is behind the service %s, which runs no CronJobs", c.id, c.access.Service)}
	}
	for _, name := range slices.Sorted(maps.Keys(notOfServices)) {
		if value := given[name]; value != nil && fmt.Sprint(value) != notOfServices[name] {
			problems = append(problems, action.Invalid("leave it out, or name a cluster with a kubeconfig", "%s: the cluster %s is behind the service %s, which does not take it", name, c.id, c.access.Service))
		}
	}
	if written && given["outputs_from"] == "termination_message" {
		problems = append(problems, action.Invalid("set last_line", "outputs_from: the service %s of the cluster %s does not tell the termination message", c.access.Service, c.id))
	}
	if written && given["logs"] == "follow" {
		problems = append(problems, action.Invalid("set end", "logs: the service %s of the cluster %s tells them when the job has ended", c.access.Service, c.id))
	}
	return problems
}

// request calls the cluster's service about a job. An error is a *outbound.Failure when something was sent.
func (c *Cluster) request(ctx context.Context, call *action.Call, w *work, method, path string, more object) (answer serviceAnswer, err error) {
	if c.clusters.o.Services == nil {
		return answer, action.Fail(stepwell.Invalid("", "services cannot be called in this process"))
	}
	body := object{"cluster_id": cmp.Or(c.access.ServiceID, c.id), "namespace": w.Namespace}
	for name, value := range more {
		body[name] = value
	}
	r := service.Request{App: c.access.Service, Method: method, Path: path, Values: map[string]any{"job_name": w.Name}, Body: body, Timeout: requestTimeout,
		Header: http.Header{"X-Execution-Id": {call.Execution}, "X-Step-Id": {call.StepKey}}}
	if method == http.MethodPost { // the step's key is that of all its attempts
		r.Header.Set("Idempotency-Key", call.IdempotencyKey()+"/"+w.Nonce)
	}
	if trace := call.Traceparent(); trace != "" {
		r.Header.Set("Traceparent", trace)
	}
	raw, err := c.clusters.o.Services.Call(ctx, r)
	c.seenService(err)
	if err != nil || len(raw) == 0 {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, &outbound.Failure{Kind: outbound.KindContent, Err: &stepwell.Error{Code: stepwell.CodeFailed,
			Message: fmt.Sprintf("the service %s did not answer %s %s as budpipeline says", c.access.Service, method, path), Err: err}}
	}
	return answer, nil
}

// seenService notes how a call of the service has ended.
func (c *Cluster) seenService(err error) {
	now := c.clusters.o.Now()
	switch f, ok := errors.AsType[*outbound.Failure](err); {
	case err == nil, ok && f.Status != 0 && f.Status < 500 && f.Status != http.StatusUnauthorized:
		c.health.set(StateOK, "", now)
	case ok:
		c.health.failed(now, err)
	}
}

// answered reports whether a service has answered with one of the statuses.
func answered(err error, statuses ...int) bool {
	f, ok := errors.AsType[*outbound.Failure](err)
	return ok && slices.Contains(statuses, f.Status)
}

func isGone(err error) bool { return answered(err, http.StatusNotFound, http.StatusGone) }

// submit has the service run the attempt's job, or finds the one that an earlier call has submitted, and awaits its end.
func (h *jobHandler) submit(ctx context.Context, call *action.Call, c *Cluster, p *jobParams, w *work) error {
	if err := h.clusters.AllowImage(p.Image); err != nil {
		return action.Fail(err)
	}
	uid, err := action.Once(ctx, call, fmt.Sprintf("kube.made.%d", call.Attempt), func(ctx context.Context) (string, error) { return h.submitOnce(ctx, call, c, p, w) })
	if f, ok := errors.AsType[*outbound.Failure](err); ok {
		return outbound.Steer(ctx, call, f, outbound.Policy{})
	}
	if err != nil {
		return err
	}
	w.UID = uid
	return c.awaitService(w)
}

// submitOnce submits the job unless an earlier call has, which the service knows by the job's name.
func (h *jobHandler) submitOnce(ctx context.Context, call *action.Call, c *Cluster, p *jobParams, w *work) (uid string, err error) {
	sent := func(attempt int) string { return fmt.Sprintf("kube.sent.%d", attempt) }
	_, before, err := call.Host.Recall(ctx, sent(call.Attempt))
	if err != nil {
		return "", err
	}
	if !before && p.JobName != "" {
		if err := c.vacate(ctx, call, w, sent); err != nil {
			return "", err
		}
	}
	if !before {
		if err := call.Host.Record(ctx, sent(call.Attempt), json.RawMessage("true")); err != nil {
			return "", err
		}
	}
	state, err := json.Marshal(w)
	if err != nil {
		return "", action.Fail(err)
	}
	if err := call.Host.Own(ctx, state); err != nil {
		return "", err
	}
	if before {
		there, err := c.request(ctx, call, w, http.MethodGet, serviceStatus, nil)
		if !isGone(err) {
			return there.UID, err
		}
	}
	id := h.identity(call, w.Nonce)
	made, err := c.request(ctx, call, w, http.MethodPost, serviceJobs, object{
		"job_name": w.Name, "image": p.Image, "command": p.Command, "args": p.Args, "env_vars": p.EnvVars, "resources": p.Resources, "gpu_count": p.GPUs, "node_selector": p.NodeSelector,
		"tolerations": p.Tolerations, "backoff_limit": p.BackoffLimit, "active_deadline_seconds": p.Timeout, "ttl_seconds_after_finished": p.TTL, "labels": id.labels(p.Labels)})
	if answered(err, http.StatusConflict) {
		if p.JobName != "" && !before {
			return "", conflictWith("job", w.Name, "is not this step's")
		}
		made, err = c.request(ctx, call, w, http.MethodGet, serviceStatus, nil)
	}
	if err != nil {
		return "", err
	}
	call.Log(fmt.Sprintf("submitted the job %s to the service %s for the cluster %s", w.Name, c.access.Service, c.id))
	return made.UID, nil
}

// vacate makes room for a job whose name the step says: one of an earlier attempt that has ended is deleted, another is left alone.
func (c *Cluster) vacate(ctx context.Context, call *action.Call, w *work, sent func(attempt int) string) error {
	there, err := c.request(ctx, call, w, http.MethodGet, serviceStatus, nil)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for attempt := call.Attempt - 1; attempt > 0; attempt-- {
		_, ours, err := call.Host.Recall(ctx, sent(attempt))
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		if _, ended := there.ended(); !ended {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the job " + w.Name + " of an earlier attempt has not ended yet"}
		}
		if _, err := c.request(ctx, call, w, http.MethodDelete, serviceJob, nil); err != nil && !isGone(err) {
			return err
		}
		return nil
	}
	return conflictWith("job", w.Name, "is not this step's")
}

// ended reports whether a status is that of a job that has ended, and whether it has completed.
func (a *serviceAnswer) ended() (completed, ended bool) {
	status := strings.ToLower(a.Status)
	return status == "completed", slices.Contains([]string{"completed", "failed", "cancelled"}, status)
}

// awaitService gives the worker back until the next question.
func (c *Cluster) awaitService(w *work) error {
	now := c.clusters.o.Now()
	pause := min(max(now.Sub(w.Since)/4, askFirst), askMost)
	if w.Failures > 0 {
		pause = min(askMost<<min(w.Failures-1, 10), askFailing)
	}
	return action.Poll(now.Add(pause), cmp.Or(w.UID, w.Name), w)
}

// ask asks the service for the job once. A question that fails is asked again: the job goes on regardless.
func (h *jobHandler) ask(ctx context.Context, call *action.Call, c *Cluster, w *work) (any, error) {
	now := h.clusters.o.Now()
	status, err := c.request(ctx, call, w, http.MethodGet, serviceStatus, nil)
	completed, ended := status.ended()
	switch {
	case ctx.Err() != nil:
		return nil, err
	case isGone(err) && now.Sub(w.Since) > unseenFor:
		return nil, errDeleted(w.Name)
	case err != nil:
		return nil, h.askAgain(call, c, w, err)
	case !ended && now.After(w.Deadline):
		if err := c.cancelAtService(ctx, call, w); err != nil {
			return nil, h.askAgain(call, c, w, err)
		}
		return nil, &stepwell.Error{Code: stepwell.CodeTimeout, Message: "the job took longer than its timeout_seconds"}
	case !ended:
		w.Failures = 0
		return nil, c.awaitService(w)
	}
	logs, err := c.serviceLog(ctx, call, w)
	if err != nil && ctx.Err() == nil && w.Failures < logsTries && !isGone(err) {
		return nil, h.askAgain(call, c, w, err)
	}
	if ctx.Err() != nil {
		return nil, err
	}
	out := map[string]any{"job_uid": cmp.Or(status.UID, w.UID), "job_name": w.Name, "namespace": w.Namespace, "cluster_id": c.id, "logs": logs}
	if len(status.ExitCode) > 0 && string(status.ExitCode) != "null" {
		out["exit_code"] = status.ExitCode
	}
	if !completed {
		said := strings.TrimSpace(text(status.Error))
		return nil, &stepwell.Error{Code: stepwell.CodeFailed, Message: "the job failed: " + stepwell.Clip(cmp.Or(said, lastLines(logs, 5), strings.ToLower(status.Status)), 2000)}
	}
	if w.Watch.OutputsFrom == "last_line" {
		if err := addLastLine(out, logs); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// askAgain waits after a question that has failed, until nothing is known of the job for too long.
func (h *jobHandler) askAgain(call *action.Call, c *Cluster, w *work, err error) error {
	if h.clusters.o.Now().After(w.Deadline.Add(overdue)) {
		return &stepwell.Error{Code: stepwell.CodeTimeout, Message: "nothing is known of the job for a day after its time limit", Err: err}
	}
	w.Failures++
	call.Host.Log(slog.LevelWarn, "the service cannot be asked for the job, asking again: "+err.Error())
	return c.awaitService(w)
}

// serviceLog returns the end of a job's log, and adds its lines to the step's.
func (c *Cluster) serviceLog(ctx context.Context, call *action.Call, w *work) (string, error) {
	if w.Watch.Logs == "none" {
		return "", nil
	}
	answer, err := c.request(ctx, call, w, http.MethodGet, serviceLogs, object{"tail_lines": w.Watch.TailLines})
	if err != nil {
		return "", err
	}
	logs := endOf(answer.Logs)
	for line := range strings.Lines(logs) {
		call.Log(strings.ToValidUTF8(stepwell.Clip(strings.TrimRight(line, "\r\n"), maxLine), "�"))
	}
	return logs, nil
}

// cancelAtService has the service delete a job; one that is gone is cancelled. Its last lines go into the step's log.
func (c *Cluster) cancelAtService(ctx context.Context, call *action.Call, w *work) error {
	_, _ = c.serviceLog(ctx, call, w) // they are a help, no more
	if _, err := c.request(ctx, call, w, http.MethodDelete, serviceJob, nil); err != nil && !isGone(err) {
		return err
	}
	return nil
}
