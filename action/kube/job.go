package kube

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// pollEvery is the time between two looks at a job of which the observer has told nothing.
const pollEvery = 5 * time.Minute

// overdue is how long after its own limit a job is awaited that the API server tells nothing of.
const overdue = 24 * time.Hour

// Register adds the actions. Started is told of each job that a step begins to await; nil: nobody is.
func Register(r *action.Registry, c *Clusters, started func(key string)) error {
	if started == nil {
		started = func(string) {}
	}
	return r.Add(action.Action{Spec: jobSpec(), Handler: &jobHandler{clusters: c, started: started}}, action.Action{Spec: cronSpec(), Handler: &cronHandler{clusters: c}})
}

// jobHandler is external.k8s.job.
type jobHandler struct {
	clusters *Clusters
	started  func(key string)
}

// work is a job that a step has created, or is about to.
type work struct {
	Cluster   string       `json:"cluster"`
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Nonce     string       `json:"nonce"`
	UID       string       `json:"uid,omitempty"`
	Since     time.Time    `json:"since"`
	Deadline  time.Time    `json:"deadline"`
	Watch     watchOptions `json:"watch"`
	Failures  int          `json:"failures,omitempty"` // questions to a service in a row that were not answered
}

// SignalPrefix begins the keys of the signals that end steps of jobs.
const SignalPrefix = "kube:"

// key names the job to the observer: the execution stands first, for its secrets.
func (w *work) key(execution string) string {
	return SignalPrefix + execution + "/" + w.Cluster + "/" + w.Namespace + "/" + w.Name + "/" + w.UID
}

func (w *work) path() string { return jobPath(w.Namespace, w.Name) }

func jobPath(namespace, name string) string {
	path := "/apis/batch/v1/namespaces/" + url.PathEscape(namespace) + "/jobs"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

func corePath(namespace, kind, name string) string {
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/" + kind
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// Validate implements action.Validator.
func (h *jobHandler) Validate(values map[string]any) []error {
	return h.clusters.validate(values, &jobParams{}, false)
}

// ValidateWhole implements action.WholeValidator.
func (h *jobHandler) ValidateWhole(values map[string]any) []error {
	return h.clusters.validate(values, &jobParams{}, true)
}

func (p *jobParams) validate(given map[string]any) []error {
	return p.podParams.validate(given)
}

func (p *jobParams) missing(given map[string]any) []error {
	problems := p.podParams.missing(given)
	if p.Parallelism > 1 && given["completions"] == nil {
		problems = append(problems, action.Invalid("give completions too", "parallelism: one completion is one pod"))
	}
	return problems
}

// Run creates the job, or finds the one that an earlier call has created, and awaits its end.
func (h *jobHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	p := jobParams{}
	cluster, namespace, err := h.clusters.bind(ctx, call, &p)
	if err != nil {
		return nil, err
	}
	w, err := action.Once(ctx, call, fmt.Sprintf("kube.job.%d", call.Attempt), func(context.Context) (*work, error) {
		return h.plan(call, &p, cluster, namespace), nil
	})
	if err != nil {
		return nil, err
	}
	if cluster.access.Service != "" {
		return nil, h.submit(ctx, call, cluster, &p, w)
	}
	state, err := json.Marshal(w)
	if err != nil {
		return nil, action.Fail(err)
	}
	if err := call.Host.Own(ctx, state); err != nil { // before it exists: a cancel finds it by its name
		return nil, err
	}
	k, err := cluster.connect(ctx)
	if err != nil {
		return nil, err
	}
	if w.UID, err = h.create(ctx, call, k, &p, w); err != nil {
		return nil, steer(err)
	}
	h.started(w.key(call.Execution))
	return nil, h.await(call, w)
}

// params are the parameters of one of the actions.
type params interface {
	// validate finds what the fields cannot say; given are the values without defaults.
	validate(given map[string]any) []error
	// missing finds which values are missing beside those given.
	missing(given map[string]any) []error
	pod() *podParams
}

// validate finds what is wrong with parameters whose values with templates are missing; whole: there are none.
func (c *Clusters) validate(values map[string]any, p params, whole bool) []error {
	if err := spec.BindTemplated(values, p); err != nil {
		return []error{action.Fail(err)}
	}
	problems := p.validate(values)
	if whole {
		problems = append(problems, p.missing(values)...)
	}
	if cluster, err := c.Find(p.pod().ClusterID); err == nil && (values["cluster_id"] != nil || len(c.all()) == 1) {
		problems = append(problems, cluster.beyond(values, p, true)...)
	}
	if c.o.Online && len(problems) == 0 {
		if err := c.online(values, p); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// bind fills in the parameters of a call, and returns the cluster and the namespace of its step, if it may work there.
func (c *Clusters) bind(ctx context.Context, call *action.Call, p params) (*Cluster, string, error) {
	if err := call.Bind(p); err != nil {
		return nil, "", err
	}
	if err := errors.Join(append(p.validate(call.Params), p.missing(call.Params)...)...); err != nil {
		return nil, "", action.Fail(err)
	}
	cluster, err := c.Find(p.pod().ClusterID)
	if err == nil {
		err = errors.Join(cluster.beyond(call.Params, p, false)...)
	}
	if err != nil {
		return nil, "", action.Fail(err)
	}
	namespace, err := cluster.Namespace(ctx, p.pod().Namespace)
	if code := stepwell.CodeOf(err); code == stepwell.CodeDenied || code == stepwell.CodeInvalid {
		err = action.Fail(err)
	}
	return cluster, namespace, err
}

// plan names the job of an attempt.
func (h *jobHandler) plan(call *action.Call, p *jobParams, cluster *Cluster, namespace string) *work {
	nonce := strings.ToLower(rand.Text())[:13]
	now := h.clusters.o.Now()
	w := &work{Cluster: cluster.id, Namespace: namespace, Name: p.JobName, Nonce: nonce, Since: now, Deadline: now.Add(time.Duration(p.Timeout+30) * time.Second), Watch: p.watch()}
	if w.Name == "" {
		w.Name = "sw-" + strings.TrimLeft(slug(call.StepKey, 30)+"-"+nonce, "-")
	}
	return w
}

func (h *jobHandler) identity(call *action.Call, nonce string) *identity {
	return &identity{instance: h.clusters.o.Instance(), execution: call.Execution, step: call.StepKey, key: call.IdempotencyKey(), nonce: nonce, trace: call.Traceparent()}
}

// create returns the uid of the attempt's job, which exists then and runs. A job that was there once is not created again.
func (h *jobHandler) create(ctx context.Context, call *action.Call, k *client, p *jobParams, w *work) (uid string, err error) {
	memo := fmt.Sprintf("kube.made.%d", call.Attempt)
	made, ok, err := call.Host.Recall(ctx, memo)
	if err != nil {
		return "", err
	}
	if ok && json.Unmarshal(made, &uid) == nil {
		return uid, h.release(ctx, call, k, p, w, uid)
	}
	id := h.identity(call, w.Nonce)
	manifest, err := jobManifest(p, id, w.Name, w.Namespace)
	if err != nil {
		return "", err
	}
	if err := h.clusters.allowImages(objectAt(manifest, "spec", "template", "spec")); err != nil {
		return "", err
	}
	uid, fresh, err := h.post(ctx, k, manifest, id, w)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(uid)
	if err != nil {
		return "", err
	}
	if err := call.Host.Record(ctx, memo, raw); err != nil {
		return "", err
	}
	if fresh {
		call.Log(fmt.Sprintf("created the job %s in the namespace %s of the cluster %s", w.Name, w.Namespace, w.Cluster))
	}
	return uid, h.release(ctx, call, k, p, w, uid)
}

// post creates the job, or finds it where an earlier call has.
func (h *jobHandler) post(ctx context.Context, k *client, manifest object, id *identity, w *work) (uid string, fresh bool, err error) {
	for range 3 {
		var made job
		err = k.do(ctx, request{method: http.MethodPost, path: jobPath(w.Namespace, ""), query: url.Values{"fieldValidation": {"Strict"}, "fieldManager": {"stepwell"}}, body: manifest}, &made)
		if err == nil {
			return made.Metadata.UID, true, nil
		}
		if statusOf(err) != http.StatusConflict {
			return "", false, err
		}
		var there job
		switch err := k.do(ctx, request{method: http.MethodGet, path: w.path()}, &there); {
		case statusOf(err) == http.StatusNotFound:
			continue
		case err != nil:
			return "", false, err
		}
		switch m := &there.Metadata; {
		case m.Labels[labelInstance] != label(id.instance) || m.Annotations[noteKey] != id.key:
			return "", false, conflictWith("job", w.Name, "is not this step's")
		case m.Annotations[noteNonce] == id.nonce && m.Deleted == "":
			return m.UID, false, nil
		case m.Deleted != "" || !there.ended():
			return "", false, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the job " + w.Name + " of an earlier attempt has not ended yet"}
		default:
			if err := remove(ctx, k, w.path(), m.UID); err != nil {
				return "", false, err
			}
		}
	}
	return "", false, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the job " + w.Name + " of an earlier attempt is not gone yet"}
}

// release starts a job that waits for its Secret.
func (h *jobHandler) release(ctx context.Context, call *action.Call, k *client, p *jobParams, w *work, uid string) error {
	if len(p.EnvFromSecrets) == 0 {
		return nil
	}
	var there job
	err := k.do(ctx, request{method: http.MethodGet, path: w.path()}, &there)
	if statusOf(err) == http.StatusNotFound || err == nil && (there.Metadata.UID != uid || !there.Spec.Suspend) {
		return nil // it is gone, which the next look tells, or runs
	}
	if err != nil {
		return err
	}
	secret := secretManifest(p.EnvFromSecrets, h.identity(call, w.Nonce), w.Name, w.Namespace, uid)
	if err := k.do(ctx, request{method: http.MethodPost, path: corePath(w.Namespace, "secrets", ""), body: secret}, nil); err != nil && statusOf(err) != http.StatusConflict {
		return err
	}
	return k.do(ctx, request{method: http.MethodPatch, path: w.path(), kind: mergePatch, body: object{"metadata": object{"uid": uid}, "spec": object{"suspend": false}}}, nil)
}

// await gives the worker back until the observer tells of the job's end, or the next look.
func (h *jobHandler) await(call *action.Call, w *work) error {
	raw, err := json.Marshal(w)
	if err != nil {
		return action.Fail(err)
	}
	return &action.WaitError{Until: h.clusters.o.Now().Add(pollEvery), Resume: true, Await: true, Elsewhere: true, State: raw, ExternalID: w.key(call.Execution)}
}

func workOf(call *action.Call) (*work, error) {
	var w work
	if err := json.Unmarshal(call.State, &w); err != nil {
		return nil, action.Fail(fmt.Errorf("state of the wait: %w", err))
	}
	return &w, nil
}

// Poll looks at the job.
func (h *jobHandler) Poll(ctx context.Context, call *action.Call) (any, error) {
	w, err := workOf(call)
	if err != nil {
		return nil, err
	}
	if cluster, err := h.clusters.Find(w.Cluster); err == nil && cluster.access.Service != "" {
		return h.ask(ctx, call, cluster, w)
	}
	out, said, err := h.clusters.look(ctx, w)
	if err != errRuns && w.Watch.Logs == "end" {
		for line := range strings.Lines(said) {
			call.Log(strings.TrimRight(line, "\r\n"))
		}
	}
	switch {
	case err == errRuns:
		return nil, h.await(call, w)
	case err == nil || ctx.Err() != nil:
		return out, err
	}
	if ofJob(err) {
		return nil, err
	}
	if h.clusters.o.Now().After(w.Deadline.Add(overdue)) {
		return nil, &stepwell.Error{Code: stepwell.CodeTimeout, Message: "nothing is known of the job for a day after its time limit", Err: err}
	}
	call.Log("the job cannot be looked at, asking again: " + err.Error())
	return nil, h.await(call, w)
}

// errRuns says that a job has not ended.
var errRuns = errors.New("the job runs")

// look is the outcome of a job: its outputs and the end of its log, or why it has failed; errRuns.
func (c *Clusters) look(ctx context.Context, w *work) (out map[string]any, said string, err error) {
	cluster, err := c.Find(w.Cluster)
	if err != nil {
		return nil, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the job's cluster", Err: err}
	}
	k, err := cluster.connect(ctx)
	if err != nil {
		return nil, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Err: err}
	}
	var there job
	err = k.do(ctx, request{method: http.MethodGet, path: w.path()}, &there)
	if statusOf(err) == http.StatusNotFound || err == nil && there.Metadata.UID != w.UID {
		return nil, "", errDeleted(w.Name)
	}
	if err != nil {
		return nil, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Err: err}
	}
	if there.ended() {
		return k.outcome(ctx, cluster, w, &there)
	}
	pods, err := k.podsOf(ctx, w.Namespace, w.UID)
	if err != nil {
		return nil, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Err: err}
	}
	if err := k.pending(ctx, w, &there, pods, c.o.Now()); err != nil {
		if failed := remove(ctx, k, w.path(), w.UID); failed != nil {
			return nil, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "delete the job that does not start", Err: failed}
		}
		return nil, "", err
	}
	return nil, "", errRuns
}

// errDeleted is the failure of a job that is gone.
func errDeleted(name string) error {
	return action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: "the job " + name + " was deleted by somebody", Hint: "it is not created again: restart the step"})
}

// Cancel deletes the job of a step, or suspends it if it is to be kept.
func (h *jobHandler) Cancel(ctx context.Context, call *action.Call) error {
	w, err := workOf(call)
	if err != nil {
		return err
	}
	cluster, err := h.clusters.Find(w.Cluster)
	if err != nil {
		return err
	}
	if cluster.access.Service != "" {
		return cluster.cancelAtService(ctx, call, w)
	}
	k, err := cluster.connect(ctx)
	if err != nil {
		return err
	}
	var there job
	err = k.do(ctx, request{method: http.MethodGet, path: w.path()}, &there)
	switch m := &there.Metadata; {
	case statusOf(err) == http.StatusNotFound:
		return nil
	case err != nil:
		return err
	case w.UID != "" && m.UID != w.UID, m.Labels[labelInstance] != label(h.clusters.o.Instance()) || m.Annotations[noteKey] != call.IdempotencyKey() || m.Annotations[noteNonce] != w.Nonce:
		return nil // not this one
	case there.ended():
		return nil // its time to live is the observer's
	}
	if w.Watch.Logs == "end" {
		h.lastLines(ctx, call, k, w, there.Metadata.UID)
	}
	if w.Watch.Keep == "always" {
		until := h.clusters.o.Now().Add(time.Duration(w.Watch.TTL) * time.Second)
		err = k.do(ctx, request{method: http.MethodPatch, path: w.path(), kind: mergePatch, body: object{
			"metadata": object{"uid": there.Metadata.UID, "annotations": object{noteDelete: until.UTC().Format(time.RFC3339)}}, "spec": object{"suspend": true}}}, nil)
	} else {
		err = remove(ctx, k, w.path(), there.Metadata.UID)
	}
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusConflict {
		return nil
	}
	return err
}

// lastLines puts the last lines of a job that is about to go into the step's log.
func (h *jobHandler) lastLines(ctx context.Context, call *action.Call, k *client, w *work, uid string) {
	pods, err := k.podsOf(ctx, w.Namespace, uid)
	if err != nil || len(pods) == 0 {
		return // they are a help, no more
	}
	if text, err := k.logTail(ctx, w.Namespace, latest(pods), w.Watch.TailLines); err == nil {
		for line := range strings.Lines(text) {
			call.Log(strings.TrimRight(line, "\r\n"))
		}
	}
}

// remove deletes an object and what it owns, if it is still the one with the uid.
func remove(ctx context.Context, k *client, path, uid string) error {
	err := k.do(ctx, request{method: http.MethodDelete, path: path, body: object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": object{"uid": uid}}}, nil)
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusConflict {
		return nil
	}
	return err
}
