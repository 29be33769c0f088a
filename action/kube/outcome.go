package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

type meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Version     string            `json:"resourceVersion"`
	Created     time.Time         `json:"creationTimestamp"`
	Deleted     string            `json:"deletionTimestamp"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Owners      []struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"ownerReferences"`
}

type condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"lastTransitionTime"`
}

// job is the part of a Job that is used.
type job struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Suspend bool `json:"suspend"`
		TTL     *int `json:"ttlSecondsAfterFinished"`
	} `json:"spec"`
	Status struct {
		Started    time.Time   `json:"startTime"`
		Active     int         `json:"active"`
		Succeeded  int         `json:"succeeded"`
		Failed     int         `json:"failed"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// has finds a condition that is true.
func has(list []condition, kind string) *condition {
	for i := range list {
		if list[i].Type == kind && list[i].Status == "True" {
			return &list[i]
		}
	}
	return nil
}

func (j *job) ended() bool {
	return has(j.Status.Conditions, "Complete") != nil || has(j.Status.Conditions, "Failed") != nil
}

// pod is the part of a Pod that is used.
type pod struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Containers []struct {
			Name string `json:"name"`
		} `json:"containers"`
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		Reason     string            `json:"reason"`
		Message    string            `json:"message"`
		Conditions []condition       `json:"conditions"`
		Init       []containerStatus `json:"initContainerStatuses"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name  string `json:"name"`
	State struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running    *struct{}   `json:"running"`
		Terminated *terminated `json:"terminated"`
	} `json:"state"`
}

type terminated struct {
	ExitCode int       `json:"exitCode"`
	Signal   int       `json:"signal"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Finished time.Time `json:"finishedAt"`
}

// list is a page of a collection.
type list[T any] struct {
	Metadata struct {
		Version  string `json:"resourceVersion"`
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// listAll reads a collection in pages, and the version that a watch goes on from.
func listAll[T any](ctx context.Context, k *client, path, selector string) (items []T, version string, err error) {
	next := ""
	for {
		var page list[T]
		query := url.Values{"labelSelector": {selector}, "limit": {"500"}}
		if next != "" {
			query.Set("continue", next)
		}
		if err := k.do(ctx, request{method: http.MethodGet, path: path, query: query}, &page); err != nil {
			return nil, "", err
		}
		items, version, next = append(items, page.Items...), page.Metadata.Version, page.Metadata.Continue
		if next == "" {
			return items, version, nil
		}
	}
}

func (k *client) podsOf(ctx context.Context, namespace, uid string) ([]pod, error) {
	pods, _, err := listAll[pod](ctx, k, corePath(namespace, "pods", ""), "batch.kubernetes.io/controller-uid="+uid)
	return pods, err
}

// first is the container that the step is about.
func (p *pod) first() *containerStatus {
	name := containerName
	if len(p.Spec.Containers) > 0 && !slices.ContainsFunc(p.Spec.Containers, func(c struct {
		Name string `json:"name"`
	}) bool {
		return c.Name == containerName
	}) {
		name = p.Spec.Containers[0].Name
	}
	for i := range p.Status.Containers {
		if p.Status.Containers[i].Name == name {
			return &p.Status.Containers[i]
		}
	}
	return &containerStatus{Name: name}
}

// latest is the pod that ended last, of those that have ended; else the youngest.
func latest(pods []pod) *pod {
	var found *pod
	at := func(p *pod) time.Time {
		if t := p.first().State.Terminated; t != nil {
			return t.Finished
		}
		return time.Time{}
	}
	for i := range pods {
		p := &pods[i]
		if found == nil || at(p).After(at(found)) || at(p).Equal(at(found)) && p.Metadata.Created.After(found.Metadata.Created) {
			found = p
		}
	}
	return found
}

// The sizes of what is kept of a log.
const (
	maxLogs = 64 << 10
	maxLine = 16 << 10
)

// logTail is the end of a container's log.
func (k *client) logTail(ctx context.Context, namespace string, p *pod, lines int) (string, error) {
	ctx, end := context.WithTimeout(ctx, requestTimeout)
	defer end()
	body, err := k.open(ctx, corePath(namespace, "pods", p.Metadata.Name)+"/log", url.Values{"container": {p.first().Name}, "tailLines": {strconv.Itoa(lines)}})
	if err != nil {
		return "", err
	}
	defer body.Close()
	var kept []byte
	part := make([]byte, 32<<10)
	for read := 0; read < maxBody; {
		n, err := body.Read(part)
		read += n
		if kept = append(kept, part[:n]...); len(kept) > 4*maxLogs {
			kept = append(kept[:0], kept[len(kept)-maxLogs:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
	}
	return endOf(string(kept)), nil
}

// endOf is the end of a log, in whole lines.
func endOf(log string) string {
	if len(log) > maxLogs {
		log = log[len(log)-maxLogs:]
		if _, rest, ok := strings.Cut(log, "\n"); ok {
			log = rest
		}
	}
	return strings.ToValidUTF8(log, "�")
}

// outcome is how an ended job has ended: its outputs, or the failure.
func (k *client) outcome(ctx context.Context, c *Cluster, w *work, j *job) (out map[string]any, logs string, err error) {
	pods, err := k.podsOf(ctx, w.Namespace, w.UID)
	if err != nil {
		return nil, "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the job's pods", Err: err}
	}
	return k.outcomeOf(ctx, c, w, j, pods)
}

// outcomeOf is outcome with the job's pods.
func (k *client) outcomeOf(ctx context.Context, c *Cluster, w *work, j *job, pods []pod) (out map[string]any, logs string, err error) {
	out = map[string]any{"job_uid": w.UID, "job_name": w.Name, "namespace": w.Namespace, "cluster_id": c.id}
	last := latest(pods)
	if last != nil && w.Watch.Logs != "none" {
		if logs, err = k.logTail(ctx, w.Namespace, last, w.Watch.TailLines); err != nil {
			logs = "" // the node is lost, or the right to read it is missing: the outcome counts
		}
	}
	out["logs"] = logs
	ended := &terminated{}
	if last != nil && last.first().State.Terminated != nil {
		ended = last.first().State.Terminated
		out["exit_code"] = ended.ExitCode
	}
	if failed := has(j.Status.Conditions, "Failed"); failed != nil {
		return nil, logs, failure(failed, last, ended, logs)
	}
	switch w.Watch.OutputsFrom {
	case "termination_message":
		if values, ok := decodeObject(ended.Message); ok {
			addOutputs(out, values)
		}
	case "last_line":
		if err := addLastLine(out, logs); err != nil {
			return nil, logs, err
		}
	}
	return out, logs, nil
}

// addLastLine adds the outputs that are the last line of a log.
func addLastLine(out map[string]any, logs string) error {
	lines := strings.Split(strings.TrimRight(logs, "\r\n "), "\n")
	values, ok := decodeObject(lines[len(lines)-1])
	if !ok {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: "the last line of the log is not a JSON object", Hint: "print one, or set outputs_from"})
	}
	addOutputs(out, values)
	return nil
}

// addOutputs adds the container's own outputs; they do not replace the job's.
func addOutputs(out, values map[string]any) {
	for name, v := range values {
		if _, taken := out[name]; !taken {
			out[name] = v
		}
	}
}

// failure is the error of a failed job.
func failure(c *condition, last *pod, ended *terminated, logs string) error {
	e := &stepwell.Error{Code: stepwell.CodeFailed, Message: "the job failed: " + c.Reason}
	switch {
	case c.Reason == "DeadlineExceeded":
		e.Code, e.Message = stepwell.CodeTimeout, "the job took longer than its timeout_seconds"
		return e
	case c.Reason == "PodFailurePolicy":
		e.Code, e.Message = stepwell.CodeInvalid, "the job was ended by its pod failure policy: "+stepwell.Clip(c.Message, 1000)
		return action.Fail(e)
	case last == nil:
		e.Message = "the job failed: " + stepwell.Clip(c.Reason+": "+c.Message, 1000)
		return e
	}
	if lost := has(last.Status.Conditions, "DisruptionTarget"); lost != nil {
		e.Code, e.Message = stepwell.CodeUnavailable, "the job's pod was taken away: "+stepwell.Clip(lost.Reason+": "+lost.Message, 1000)
		return &markedError{e, errTaken}
	}
	how := fmt.Sprintf("exit code %d", ended.ExitCode)
	if ended.Reason != "" && ended.Reason != "Error" {
		how += " (" + ended.Reason + ")"
	}
	e.Message = "the job failed with " + how
	said := strings.TrimSpace(ended.Message)
	if said == "" {
		said = lastLines(logs, 5)
	}
	if said != "" {
		e.Message += ": " + stepwell.Clip(said, 2000)
	}
	return e
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-n):], "\n"))
}

// Marks of failures of the job itself, though their code is that of a cluster that is away.
var (
	errTaken   = errors.New("its last pod was taken away")
	errPending = errors.New("its pods do not start")
)

// markedError is an error with a mark that errors.Is finds and people do not see.
type markedError struct {
	error
	mark error
}

func (e *markedError) Is(target error) bool { return target == e.mark }
func (e *markedError) Unwrap() error        { return e.error }

// ofJob reports whether an error is an outcome of the job, rather than a failure to look at it.
func ofJob(err error) bool {
	return action.IsFail(err) || stepwell.CodeOf(err) != stepwell.CodeUnavailable || errors.Is(err, errPending) || errors.Is(err, errTaken)
}

// waitingReasons are those of containers that do not start by themselves.
var waitingReasons = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// stuck is why a pod does not start, and since when; "" when nothing is wrong.
func (p *pod) stuck() (why string, since time.Time) {
	since = p.Metadata.Created
	for _, c := range slices.Concat(p.Status.Init, p.Status.Containers) {
		if w := c.State.Waiting; w != nil && slices.Contains(waitingReasons, w.Reason) {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": "), since
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" && c.Reason == "Unschedulable" {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": "), since
		}
	}
	return "", since
}

// pending is the failure of a job that does not start for too long: no node, no image, no quota. Nil: it starts, or may yet.
func (k *client) pending(ctx context.Context, w *work, j *job, pods []pod, now time.Time) error {
	limit := time.Duration(w.Watch.Pending) * time.Second
	for i := range pods {
		if why, since := pods[i].stuck(); why != "" && now.Sub(since) > limit {
			return doesNotStart(why)
		}
	}
	if j.Status.Active+j.Status.Succeeded+j.Status.Failed > 0 || len(pods) > 0 || j.Spec.Suspend || now.Sub(j.Metadata.Created) <= limit {
		return nil
	}
	why, err := k.refusedPods(ctx, w.Namespace, w.UID)
	if err != nil || why == "" {
		return nil // the controller is late, or the right to read events is missing: the job has its own limit
	}
	return doesNotStart(why)
}

func doesNotStart(why string) error {
	return &markedError{&stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the job did not start within pending_seconds: " + stepwell.Clip(why, 1500)}, errPending}
}

// refusedPods is why the controller could not create pods.
func (k *client) refusedPods(ctx context.Context, namespace, uid string) (string, error) {
	var page list[struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}]
	err := k.do(ctx, request{method: http.MethodGet, path: corePath(namespace, "events", ""), query: url.Values{"fieldSelector": {"involvedObject.uid=" + uid}, "limit": {"50"}}}, &page)
	for _, e := range page.Items {
		if e.Reason == "FailedCreate" {
			return "FailedCreate: " + e.Message, err
		}
	}
	return "", err
}

// steer turns a request's error into what happens to the step.
func steer(err error) error {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok {
		return err
	}
	e := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the API server refuses", Err: err}
	switch s := refused.Status; {
	case s == http.StatusTooManyRequests:
		return action.Defer(max(refused.After, time.Second), e)
	case s == http.StatusForbidden && strings.Contains(refused.Message, "exceeded quota"):
		e.Code = stepwell.CodeLimit
		return e
	case s == http.StatusForbidden:
		e.Code, e.Hint = stepwell.CodeDenied, "docs/kubernetes.md has the Role that is needed; `stepwell doctor` says what is missing"
		return action.Fail(e)
	case s == http.StatusUnauthorized:
		e.Code, e.Hint = stepwell.CodeDenied, "check the credentials of the cluster's kubeconfig"
		return e
	case s == http.StatusConflict:
		e.Code = stepwell.CodeConflict
		return e
	case s == http.StatusNotFound:
		e.Code = stepwell.CodeNotFound
		return action.Fail(e)
	case s >= 400 && s < 500:
		e.Code = stepwell.CodeInvalid
		return action.Fail(e)
	}
	return e
}

// lines calls do with each line of a log, as long as it returns true. Long lines are cut.
func lines(r io.Reader, do func(line string) bool) error {
	buffered := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := buffered.ReadLine()
		if err != nil {
			return err
		}
		if !do(string(line)) {
			return nil
		}
		for more && err == nil {
			_, more, err = buffered.ReadLine()
		}
		if err != nil {
			return err
		}
	}
}
