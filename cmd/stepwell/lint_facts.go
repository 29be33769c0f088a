package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/schedule"
)

// Bounds of what lint looks at.
const (
	lintPast  = 20   // executions, of which the median counts
	lintSteps = 5    // of them those whose steps are looked at
	lintJobs  = 5000 // schedules of a server
)

// historian fills in facts from what a server or a database has stored.
type historian struct {
	client    *client.Client
	retention time.Duration
	jobs      []api.Job
}

// newHistorian reads the schedules.
func newHistorian(ctx context.Context, c *client.Client, retention time.Duration) (*historian, error) {
	h := &historian{client: c, retention: retention}
	filter := api.ListJobs{}
	for filter.Limit = 100; len(h.jobs) < lintJobs; {
		page, err := c.Jobs().List(ctx, filter)
		if err != nil {
			return nil, err
		}
		h.jobs = append(h.jobs, page.Items...)
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	return h, nil
}

// fill adds what is known of the pipeline with a name.
func (h *historian) fill(ctx context.Context, name string, facts *lint.Facts) error {
	id := name
	if stored, _, err := h.client.Pipelines().Get(ctx, name); err == nil {
		id = stored.ID
	} else if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return err
	}
	facts.Retention = h.retention
	for i := range h.jobs {
		j := &h.jobs[i]
		timing, timed := j.Spec()
		if !timed || j.Target == nil || j.Target.Workflow != name && j.Target.Workflow != id || j.Status != "active" {
			continue
		}
		facts.Schedules = append(facts.Schedules, lint.Schedule{Name: "the schedule " + cmp.Or(j.Name, j.ID), Timing: timing, CatchUp: j.CatchUp(), Overlaps: j.Overlap == schedule.OverlapAllow})
	}
	filter := api.ListExecutions{Status: []string{"completed", "completed_with_failures"}, Limit: lintPast}
	filter.Pipeline = name
	past, err := h.client.Executions(ctx, filter)
	if err != nil {
		return err
	}
	var took []time.Duration
	steps := map[string][]time.Duration{}
	for i := range past.Executions {
		x := &past.Executions[i]
		if x.Parent != "" || x.DurationMS == nil { // retries take over results
			continue
		}
		took = append(took, time.Duration(*x.DurationMS)*time.Millisecond)
		if len(took) > lintSteps {
			continue
		}
		detail, err := h.client.Execution(ctx, x.ID)
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("execution %s: %w", x.ID, err)
		}
		for j := range detail.Steps {
			if s := &detail.Steps[j]; s.Status == "completed" && s.DurationMS != nil && !strings.ContainsAny(s.ID, "[:") {
				steps[s.ID] = append(steps[s.ID], time.Duration(*s.DurationMS)*time.Millisecond)
			}
		}
	}
	facts.Usual, facts.Steps = median(took), map[string]time.Duration{}
	for id, list := range steps {
		facts.Steps[id] = median(list)
	}
	return nil
}

// median is 0 of nothing.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
