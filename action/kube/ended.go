package kube

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Ended is a job that a CronJob of this installation has started, and that has ended.
type Ended struct {
	Cluster, Namespace, CronJob string
	Job, UID                    string
	Status                      stepwell.ExecutionStatus // completed or failed
	Error                       string                   // of the failed one
	Started, At                 time.Time
}

// endedEvery is how often clusters are asked for jobs of CronJobs that have ended: one request for each namespace.
const endedEvery = 10 * time.Second

// Announce has Run pass each ended job of a CronJob to offer at least once, until that returns nil. It is called before Run.
func (o *Observer) Announce(offer func(context.Context, *Ended) error) { o.offer = offer }

// announce offers the ended jobs that no process has offered yet: the label says which these are.
func (o *Observer) announce(ctx context.Context) {
	for _, at := range o.places(ctx) {
		c, err := o.clusters.Find(at.cluster)
		if err == nil {
			err = o.announceAt(ctx, c, at.namespace)
		}
		if err != nil && ctx.Err() == nil {
			o.log.Debug("ended jobs of CronJobs are not announced for now", "cluster", at.cluster, "namespace", at.namespace, "error", err)
		}
	}
}

func (o *Observer) announceAt(ctx context.Context, c *Cluster, namespace string) error {
	k, err := c.connect(ctx)
	if err != nil {
		return err
	}
	jobs, _, err := listAll[job](ctx, k, jobPath(namespace, ""), labelInstance+"="+label(o.clusters.o.Instance())+","+labelEvent+"="+eventPending)
	if err != nil {
		return err
	}
	for i := range jobs {
		m := &jobs[i].Metadata
		e := endedJob(&jobs[i])
		if e == nil {
			continue
		}
		e.Cluster, e.Namespace = c.id, namespace
		if err := o.offer(ctx, e); err != nil {
			return err
		}
		err := k.do(ctx, request{method: http.MethodPatch, path: jobPath(namespace, m.Name), kind: mergePatch, body: object{"metadata": object{"uid": m.UID, "labels": object{labelEvent: eventSent}}}}, nil)
		if status := statusOf(err); err != nil && status != http.StatusNotFound && status != http.StatusConflict { // it is not there any more
			return err
		}
	}
	return nil
}

// endedJob describes a job that has ended; nil: it has not, or is not a CronJob's.
func endedJob(j *job) *Ended {
	e := &Ended{Job: j.Metadata.Name, UID: j.Metadata.UID, Started: j.Status.Started}
	for _, owner := range j.Metadata.Owners {
		if owner.Kind == "CronJob" {
			e.CronJob = owner.Name
		}
	}
	done, failed := has(j.Status.Conditions, "Complete"), has(j.Status.Conditions, "Failed")
	switch {
	case e.CronJob == "":
		return nil
	case failed != nil:
		e.Status, e.At, e.Error = stepwell.ExecutionFailed, failed.Since, stepwell.Clip(strings.TrimSpace(failed.Reason+": "+failed.Message), 2000)
	case done != nil:
		e.Status, e.At = stepwell.ExecutionCompleted, done.Since
	default:
		return nil
	}
	return e
}
