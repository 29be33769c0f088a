package kube

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// sweep deletes what ended executions have left in the clusters, and lets ended jobs go after their time. What belongs to executions that
// are not known stays: the database may be an older copy.
func (o *Observer) sweep(ctx context.Context) {
	for _, at := range o.places(ctx) {
		c, err := o.clusters.Find(at.cluster)
		if err != nil {
			continue
		}
		if err := o.sweepPlace(ctx, c, at.namespace); err != nil && ctx.Err() == nil {
			o.log.Debug("jobs that are left over could not be looked for", "cluster", at.cluster, "namespace", at.namespace, "error", err)
		}
	}
}

// places are the namespaces that are watched, the clusters' own, and those that the clusters name in full.
func (o *Observer) places(ctx context.Context) (list []place) {
	seen := map[place]bool{}
	for id, c := range o.clusters.all() {
		if c.access.Service != "" {
			continue
		}
		if namespace, err := c.defaultNamespace(ctx); err == nil {
			seen[place{id, namespace}] = true
		}
		for _, named := range c.access.Namespaces {
			if dnsLabel().MatchString(named) && c.allowed(named) {
				seen[place{id, named}] = true
			}
		}
	}
	o.mu.Lock()
	for at := range o.watchers {
		seen[at] = true
	}
	o.mu.Unlock()
	for at := range seen {
		list = append(list, at)
	}
	return list
}

func (o *Observer) sweepPlace(ctx context.Context, c *Cluster, namespace string) error {
	k, err := c.connect(ctx)
	if err != nil {
		return err
	}
	jobs, err := c.ownJobs(ctx, k, namespace)
	if err != nil {
		return err
	}
	unknown := 0
	for i := range jobs {
		known, err := o.sweepJob(ctx, k, namespace, &jobs[i])
		if err != nil {
			return err
		}
		if !known {
			unknown++
		}
	}
	c.health.mu.Lock()
	c.health.unknown = unknown
	c.health.mu.Unlock()
	if unknown > 0 {
		o.log.Warn("jobs of this installation belong to executions that the database does not know; they are left alone", "cluster", c.id, "namespace", namespace, "jobs", unknown)
	}
	return nil
}

// ownJobs are the jobs of this installation in a namespace.
func (c *Cluster) ownJobs(ctx context.Context, k *client, namespace string) ([]job, error) {
	jobs, _, err := listAll[job](ctx, k, jobPath(namespace, ""), labelInstance+"="+label(c.clusters.o.Instance()))
	return jobs, err
}

// Unknown lists the names of jobs of this installation in a namespace whose executions known does not know.
func (c *Cluster) Unknown(ctx context.Context, namespace string, known func(ctx context.Context, execution string) (bool, error)) (names []string, err error) {
	k, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := c.ownJobs(ctx, k, namespace)
	if err != nil {
		return nil, atCluster(c.id, err)
	}
	for i := range jobs {
		execution, _, ok := strings.Cut(jobs[i].Metadata.Annotations[noteKey], "/")
		if !ok { // of a CronJob
			continue
		}
		is, err := known(ctx, execution)
		if err != nil {
			return nil, err
		}
		if !is {
			names = append(names, jobs[i].Metadata.Name)
		}
	}
	return names, nil
}

func (o *Observer) sweepJob(ctx context.Context, k *client, namespace string, j *job) (known bool, err error) {
	m := &j.Metadata
	execution, _, ok := strings.Cut(m.Annotations[noteKey], "/")
	if !ok { // of a CronJob
		return true, nil
	}
	known, ended, err := o.steps.Ended(ctx, execution)
	if err != nil || !known || !ended {
		return known, err
	}
	var watch watchOptions
	if json.Unmarshal([]byte(m.Annotations[noteWatch]), &watch) != nil {
		return true, nil
	}
	due, err := time.Parse(time.RFC3339, m.Annotations[noteDelete])
	switch {
	case err == nil && o.clusters.o.Now().Before(due):
		return true, nil
	case err == nil, !j.ended():
		return true, remove(ctx, k, jobPath(namespace, m.Name), m.UID)
	}
	return true, k.limitLife(ctx, namespace, j, watch)
}
