package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
)

// Bounds of what is read of a pipeline's past to judge a document.
const (
	lintRows = 1000 // steps of an execution
	lintJobs = 100  // schedules

	lintFresh = 30 * time.Second // how long it is kept: an editor asks after each key
	lintKept  = 1000             // pipelines
)

// pasts keeps for a while what is known of the past of pipelines, by name.
type pasts struct {
	mu   sync.Mutex
	kept map[string]pastOf
}

type pastOf struct {
	at    time.Time
	facts lint.Facts
}

// judged are the warnings that come of the schedules and the past executions of the pipeline that a document names, for a caller that may see
// them. A caller has one reading at a time, and what was read is kept for 30 seconds.
func (p *pipelines) judged(ctx context.Context, d *definition.Definition, document []byte) (definition.Problems, error) {
	if reading, ok := OperationOf("execution.list"); !ok || d.Name == "" || !access.Of(ctx).Role.May(reading.Role) {
		return nil, nil
	}
	facts, err := p.pastFacts(ctx, d.Name)
	if err != nil {
		return nil, err
	}
	return lint.Past(d, p.o.Catalog, document, facts), nil
}

func (p *pipelines) pastFacts(ctx context.Context, name string) (lint.Facts, error) {
	known := func() (lint.Facts, bool) {
		p.past.mu.Lock()
		defer p.past.mu.Unlock()
		k, ok := p.past.kept[name]
		return k.facts, ok && time.Since(k.at) < lintFresh
	}
	if facts, ok := known(); ok {
		return facts, nil
	}
	leave, err := p.judging.take(ctx, access.Of(ctx).Actor(), maxPlanWait)
	if err != nil {
		return lint.Facts{}, err
	}
	defer leave()
	if facts, ok := known(); ok {
		return facts, nil
	}
	facts, err := p.readPast(ctx, name)
	if err != nil {
		return lint.Facts{}, err
	}
	p.past.mu.Lock()
	defer p.past.mu.Unlock()
	if p.past.kept == nil || len(p.past.kept) >= lintKept {
		p.past.kept = map[string]pastOf{}
	}
	p.past.kept[name] = pastOf{time.Now(), facts}
	return facts, nil
}

// readPast reads what is stored of the pipeline with a name.
func (p *pipelines) readPast(ctx context.Context, name string) (lint.Facts, error) {
	facts := lint.Facts{Now: time.Now(), Retention: p.o.Retention}
	names := []string{name}
	if stored, err := p.o.Pipelines.Pipeline(ctx, name); err == nil {
		names = append(names, stored.ID)
	} else if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return facts, err
	}
	if p.o.Schedules != nil {
		for _, j := range p.o.Schedules.Timed(lintJobs, names...) {
			if one, timed := LintSchedule(&j); timed {
				facts.Schedules = append(facts.Schedules, one)
			}
		}
	}
	past, err := p.o.Store.Executions(ctx, store.Filter{Pipeline: name, Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures}, Limit: lint.PastExecutions})
	if err != nil {
		return facts, err
	}
	h := lint.History{}
	for i := range past {
		x := &past[i]
		if x.Parent != "" || x.Started.IsZero() || x.Ended.IsZero() || !h.Add(x.Ended.Sub(x.Started)) {
			continue
		}
		rows, err := p.o.Store.Steps(ctx, x.No, store.StepFilter{Statuses: []stepwell.StepStatus{stepwell.StepCompleted}, Limit: lintRows})
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return facts, err
		}
		for j := range rows {
			if s := &rows[j]; s.Ended > 0 && s.Started > 0 {
				h.AddStep(s.Key, time.Duration(s.Ended-s.Started)*time.Microsecond)
			}
		}
	}
	h.Into(&facts)
	return facts, nil
}

// LintSchedule is a schedule as lint judges it; false: it has no times of its own.
func LintSchedule(j *NewJob) (lint.Schedule, bool) {
	timing, timed := j.Spec()
	return lint.Schedule{Name: "the schedule " + cmp.Or(j.Name, j.ID), Timing: timing, CatchUp: j.CatchUp(), Overlaps: j.Overlap == schedule.OverlapAllow}, timed
}

// details are the problems of a document as answers show them, with those of its past.
func (p *pipelines) details(ctx context.Context, d *definition.Definition, document []byte, problems definition.Problems) ([]Detail, error) {
	if d != nil {
		denied, err := p.o.Pipelines.Denied(ctx, d, access.Of(ctx).Role.String())
		if err != nil {
			return nil, err
		}
		past, err := p.judged(ctx, d, document)
		if err != nil {
			return nil, err
		}
		problems = slices.Concat(problems, denied, past)
	}
	return pipeline.Details(problems), nil
}
