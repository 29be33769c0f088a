package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Promises are how long executions with an SLA (settings.sla) took and may take.
type Promises struct {
	From      Time          `json:"from" doc:"Where the first day begins, in UTC."`
	To        Time          `json:"to" doc:"Where the last one ends."`
	Pipelines []PromisedRow `json:"pipelines" nullable:"false" doc:"Those that promise something and ended within the range; the most broken promises first. A pipeline whose SLA was changed has a row for each."`
	Breaches  []BreachedRow `json:"breaches" nullable:"false" doc:"Executions that took longer than promised, the newest first."`
	Running   []ForecastRow `json:"running" nullable:"false" doc:"Running executions with an SLA, those that have broken it or will first."`
	Complete  bool          `json:"complete" doc:"False: there are more sums, breaches (200) or running executions (1,000) than are read here."`
}

// Promise is how long executions of a pipeline may take.
type Promise struct {
	Workflow string   `json:"pipeline_id" doc:"Empty for a pipeline that is not stored."`
	Pipeline string   `json:"pipeline"`
	Expected *float64 `json:"expected_seconds,omitempty" doc:"settings.sla.expected_seconds"`
	Maximum  *float64 `json:"max_seconds,omitempty" doc:"settings.sla.max_seconds"`
}

// promiseOf is a promise of seconds; 0 promises nothing.
func promiseOf(workflow, pipeline string, expected, maximum float64) Promise {
	seconds := func(n float64) *float64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	return Promise{Workflow: workflow, Pipeline: pipeline, Expected: seconds(expected), Maximum: seconds(maximum)}
}

// PromisedRow is executions with the same SLA.
type PromisedRow struct {
	Promise
	Ended    int64   `json:"ended"`
	Breached int64   `json:"breached" doc:"Those that took longer than expected, or than the maximum."`
	Beyond   int64   `json:"breached_maximum" doc:"Those that took longer than the maximum."`
	Mean     float64 `json:"mean_seconds" doc:"How long they took on average, from their admission."`
}

// BreachedRow is an execution that took longer than promised.
type BreachedRow struct {
	Execution string `json:"execution_id" doc:"It may have been deleted since."`
	Promise
	Status string  `json:"status"`
	Ended  Time    `json:"ended_at"`
	Took   float64 `json:"took_seconds"`
}

// ForecastRow is a running execution and how long it will take.
type ForecastRow struct {
	Execution string `json:"execution_id"`
	Promise
	Started  Time     `json:"started_at"`
	Elapsed  float64  `json:"elapsed_seconds"`
	ETA      *float64 `json:"eta_seconds" doc:"How long it still takes, from the newest completed executions of its pipeline; null: there are none."`
	Forecast string   `json:"forecast" enum:"breached,late,in_time,unknown" doc:"breached: it takes longer than promised already. late: it will, by its estimate. in_time: it will not. unknown: there is no estimate yet."`
}

// AskPromises says which executions are counted.
type AskPromises struct {
	Pipeline string    `query:"pipeline_id" maxLength:"100" doc:"Only executions of this stored pipeline."`
	From     time.Time `query:"from" doc:"Defaults to 30 days before to. Days are whole, in UTC."`
	To       time.Time `query:"to" doc:"Defaults to now."`
}

// Bounds of one request.
const (
	mostBreaches  = 200
	mostBroken    = 5000 // that are read at once
	mostForecasts = 1000 // running executions that are looked at
	mostSLAs      = 1000 // definitions whose SLA is kept in memory
)

func (s *server) promises(ctx context.Context, in *AskPromises) (*answer[Promises], error) {
	from, to, err := days(in.From, in.To, 30)
	if err != nil {
		return nil, err
	}
	out := Promises{From: resource.At(from), To: resource.At(to), Pipelines: []PromisedRow{}, Breaches: []BreachedRow{}, Running: []ForecastRow{}, Complete: true}
	if err := s.promised(ctx, in, from, to, &out); err != nil {
		return nil, err
	}
	if err := s.breaches(ctx, in, from, to, &out); err != nil {
		return nil, err
	}
	return reply(out, s.forecasts(ctx, in, &out))
}

// promised sums the executions with an SLA that ended.
func (s *server) promised(ctx context.Context, in *AskPromises, from, to time.Time, out *Promises) error {
	sums, all, err := s.sums(ctx, store.UsageOfPromises, store.DaysFrom(from), store.DaysFrom(to))
	if err != nil {
		return err
	}
	out.Complete = all
	at := map[store.PromiseGroup]int{}
	for _, u := range sums {
		g, err := store.ReadPromises(u.ID)
		if err != nil {
			return err
		}
		if in.Pipeline != "" && g.Workflow != in.Pipeline {
			continue
		}
		key := g
		if key.Day = (time.Time{}); g.Workflow != "" {
			key.Pipeline = "" // it may have been renamed
		}
		n, there := at[key]
		if !there {
			n = len(out.Pipelines)
			at[key] = n
			out.Pipelines = append(out.Pipelines, PromisedRow{Promise: promiseOf(g.Workflow, "", float64(g.Expected)/1e6, float64(g.Maximum)/1e6)})
		}
		row := &out.Pipelines[n]
		row.Pipeline = g.Pipeline
		row.Mean = (row.Mean*float64(row.Ended) + float64(u.Cost)/1e6) / float64(max(1, row.Ended+u.InputTokens))
		row.Ended += u.InputTokens
		row.Breached += u.OutputTokens
		row.Beyond += u.AudioMillis
	}
	slices.SortStableFunc(out.Pipelines, func(a, b PromisedRow) int {
		return cmp.Or(cmp.Compare(b.Breached, a.Breached), cmp.Compare(b.Ended, a.Ended), cmp.Compare(a.Pipeline, b.Pipeline))
	})
	return nil
}

// breaches lists the newest executions that broke their SLA: of a time before the end that is doubled until it has enough.
func (s *server) breaches(ctx context.Context, in *AskPromises, from, to time.Time, out *Promises) error {
	var newest []BreachedRow // of the time before
	for span := time.Hour; ; span *= 2 {
		begin := to.Add(-span)
		last := !from.Before(begin)
		if last {
			begin = from
		}
		sums, err := s.o.Store.UsageIn(ctx, store.UsageOfBreaches, store.MomentsFrom(begin), store.MomentsFrom(to), mostBroken)
		if err != nil {
			return err
		}
		var found []BreachedRow
		for i := range sums {
			b, err := store.ReadBreach(&sums[i])
			if err != nil {
				return err
			}
			if in.Pipeline == "" || b.Workflow == in.Pipeline {
				found = append(found, BreachedRow{Execution: b.Execution, Promise: promiseOf(b.Workflow, b.Pipeline, float64(b.Expected)/1e6, float64(b.Maximum)/1e6),
					Status: b.Status.String(), Ended: resource.At(b.Ended), Took: float64(b.Took) / 1e6})
			}
		}
		slices.Reverse(found)
		switch {
		case len(sums) == mostBroken: // the newest of the longer time were not read
			out.Complete = false
			if newest != nil {
				found = newest
			}
		case !last && len(found) < mostBreaches:
			newest = found
			continue
		case len(found) > mostBreaches:
			out.Complete = false
		}
		out.Breaches = append(out.Breaches, found[:min(len(found), mostBreaches)]...)
		return nil
	}
}

// forecasts tells of the running executions which ones will break their SLA.
func (s *server) forecasts(ctx context.Context, in *AskPromises, out *Promises) error {
	rows, err := s.o.Store.Executions(ctx, store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionRunning}, Workflow: in.Pipeline, Limit: mostForecasts})
	if err != nil {
		return err
	}
	out.Complete = out.Complete && len(rows) < mostForecasts
	with := rows[:0]
	slas := map[string]definition.SLA{} // of the rows, by their ids
	for i := range rows {
		sla, err := s.slas.of(ctx, s.o.Store, rows[i].Definition)
		if err != nil {
			return err
		}
		if sla != (definition.SLA{}) && !rows[i].Started.IsZero() {
			slas[rows[i].ID] = sla
			with = append(with, rows[i])
		}
	}
	if err := s.learn(ctx, with); err != nil {
		return err
	}
	for i := range with {
		x := &with[i]
		sla := slas[x.ID]
		p := s.o.Estimates.Progress(x, &x.Progress)
		f := ForecastRow{Execution: x.ID, Promise: promiseOf(x.Workflow, x.Pipeline, sla.ExpectedSeconds, sla.MaxSeconds),
			Started: resource.At(x.Started), ETA: p.ETA, Elapsed: max(0, time.Since(x.Started).Seconds()), Forecast: "unknown"}
		limit := cmp.Or(sla.ExpectedSeconds, sla.MaxSeconds)
		switch {
		case x.Progress.Breached != "" || f.Elapsed > limit:
			f.Forecast = "breached"
		case p.ETA != nil && f.Elapsed+*p.ETA > limit:
			f.Forecast = "late"
		case p.ETA != nil:
			f.Forecast = "in_time"
		}
		out.Running = append(out.Running, f)
	}
	order := []string{"breached", "late", "unknown", "in_time"}
	slices.SortStableFunc(out.Running, func(a, b ForecastRow) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Forecast), slices.Index(order, b.Forecast)), cmp.Compare(b.Elapsed, a.Elapsed))
	})
	return nil
}

// slas keeps the SLAs of definitions by their hashes: a definition is read once.
type slas struct {
	mu   sync.Mutex
	kept map[string]definition.SLA
}

func (c *slas) of(ctx context.Context, definitions interface {
	Definition(ctx context.Context, hash []byte) ([]byte, error)
}, hash []byte) (definition.SLA, error) {
	c.mu.Lock()
	sla, known := c.kept[string(hash)]
	c.mu.Unlock()
	if known {
		return sla, nil
	}
	body, err := definitions.Definition(ctx, hash)
	if err != nil {
		return sla, err
	}
	d, err := definition.Decode(body)
	if err != nil {
		return sla, err
	}
	if d.Settings.SLA != nil {
		sla = *d.Settings.SLA
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= mostSLAs {
		c.kept = map[string]definition.SLA{}
	}
	c.kept[string(hash)] = sla
	return sla, nil
}
