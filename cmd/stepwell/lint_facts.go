package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/lint"
)

// lintJobs bounds the schedules of a server that lint looks at.
const lintJobs = 5000

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
		one, timed := api.LintSchedule(&j.Job)
		if !timed || j.Target == nil || j.Target.Workflow != name && j.Target.Workflow != id || j.Status != "active" {
			continue
		}
		facts.Schedules = append(facts.Schedules, one)
	}
	filter := api.ListExecutions{Status: []string{"completed", "completed_with_failures"}, Limit: lint.PastExecutions}
	filter.Pipeline = name
	past, err := h.client.Executions(ctx, filter)
	if err != nil {
		return err
	}
	seen := lint.History{}
	for i := range past.Executions {
		x := &past.Executions[i]
		if x.Parent != "" || x.DurationMS == nil || !seen.Add(time.Duration(*x.DurationMS)*time.Millisecond) {
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
			if s := &detail.Steps[j]; s.Status == "completed" && s.DurationMS != nil {
				seen.AddStep(s.ID, time.Duration(*s.DurationMS)*time.Millisecond)
			}
		}
	}
	seen.Into(facts)
	return nil
}
