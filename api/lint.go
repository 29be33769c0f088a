package api

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
	lintPast  = 20   // executions, of which the median counts
	lintSteps = 5    // of them those whose steps are looked at
	lintRows  = 1000 // steps of each
	lintJobs  = 100  // schedules

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
	facts := lint.Facts{Now: time.Now(), Retention: p.o.Retention, Steps: map[string]time.Duration{}}
	names := []string{name}
	if stored, err := p.o.Pipelines.Pipeline(ctx, name); err == nil {
		names = append(names, stored.ID)
	} else if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return facts, err
	}
	if p.o.Schedules != nil {
		for _, j := range p.o.Schedules.Timed(lintJobs, names...) {
			if timing, timed := j.Spec(); timed {
				facts.Schedules = append(facts.Schedules, lint.Schedule{Name: "the schedule " + cmp.Or(j.Name, j.ID), Timing: timing, CatchUp: j.CatchUp(), Overlaps: j.Overlap == schedule.OverlapAllow})
			}
		}
	}
	past, err := p.o.Store.Executions(ctx, store.Filter{Pipeline: name, Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures}, Limit: lintPast})
	if err != nil {
		return facts, err
	}
	var took []time.Duration
	steps := map[string][]time.Duration{}
	for i := range past {
		x := &past[i]
		if x.Parent != "" || x.Started.IsZero() || x.Ended.IsZero() { // retries take over results
			continue
		}
		if took = append(took, x.Ended.Sub(x.Started)); len(took) > lintSteps {
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
			if s := &rows[j]; s.Ended > 0 && s.Started > 0 && !strings.ContainsAny(s.Key, "[:") {
				steps[s.Key] = append(steps[s.Key], time.Duration(s.Ended-s.Started)*time.Microsecond)
			}
		}
	}
	facts.Usual = middle(took)
	for key, list := range steps {
		facts.Steps[key] = middle(list)
	}
	return facts, nil
}

// middle is the median; 0 of nothing.
func middle(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
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
