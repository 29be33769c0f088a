package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Costs are what executions that have ended have cost.
type Costs struct {
	From     Time      `json:"from" doc:"Where the first day begins, in UTC."`
	To       Time      `json:"to" doc:"Where the last one ends."`
	By       []string  `json:"by" nullable:"false"`
	Total    CostRow   `json:"total" doc:"Of all rows, those that limit leaves out included."`
	Rows     []CostRow `json:"rows" nullable:"false" doc:"By day, else the dearest first."`
	Rest     int       `json:"more_rows" doc:"How many rows limit has left out."`
	Complete bool      `json:"complete" doc:"False: there are more sums than one request reads, and the last days are missing, of rows and total or of earlier_cost. Ask for less time."`
	Since    *Time     `json:"counted_since" doc:"The first day for which costs are counted by step; null: there is none."`
	Earlier  Money     `json:"earlier_cost" doc:"What executions have cost that ended within the range before that day. It is in no row: it was not counted by step and project."`
}

// CostRow is a sum of costs.
type CostRow struct {
	Day      *Time   `json:"day,omitempty" doc:"On which the executions ended, in UTC; with by=day."`
	Workflow *string `json:"pipeline_id,omitempty" doc:"With by=pipeline; empty for pipelines that are not stored."`
	Pipeline *string `json:"pipeline,omitempty" doc:"Its name."`
	Project  *string `json:"project,omitempty" doc:"With by=project; empty for executions of none."`
	Step     *string `json:"step_id,omitempty" doc:"With by=step: its key, of an iteration without the number; empty for what comes after the first 200 steps of an execution that cost something."`
	Cost     Money   `json:"cost"`
	Attempts int64   `json:"attempts" doc:"Attempts of steps that cost something."`
	Repeated int64   `json:"repeated_attempts" doc:"Those of them that repeated something: attempts after the first of a step, and all of executions that retry another or were restarted."`
	Again    Money   `json:"repeated_cost" doc:"What these cost: the price of retries."`
}

// AskCosts says which costs are summed, and how.
type AskCosts struct {
	By       []string  `query:"by" maxItems:"4" enum:"day,pipeline,project,step" doc:"A row for each of these, or for each combination of several, with commas between them. Without it there is the total alone."`
	Pipeline string    `query:"pipeline_id" maxLength:"100" doc:"Only executions of this stored pipeline."`
	Project  string    `query:"project" maxLength:"200" doc:"Only executions for this project."`
	From     time.Time `query:"from" doc:"Defaults to 30 days before to. Days are whole, in UTC."`
	To       time.Time `query:"to" doc:"Defaults to now."`
	Limit    int       `query:"limit" minimum:"1" maximum:"5000" default:"1000"`
}

// days are whole days of a range that ends now, or when it says.
func days(from, to time.Time, back int) (time.Time, time.Time, error) {
	const day = 24 * time.Hour
	if to.IsZero() {
		to = time.Now()
	}
	if from.IsZero() {
		from = to.Add(-time.Duration(back-1) * day)
	}
	from, to = from.UTC().Truncate(day), to.UTC().Add(day-1).Truncate(day)
	if !from.Before(to) || to.Sub(from) > longestDays*day {
		return from, to, stepwell.Invalid("counts are kept for 400 days", "from has to be before to, by 400 days at most")
	}
	return from, to, nil
}

func (s *server) costs(ctx context.Context, in *AskCosts) (*answer[Costs], error) {
	from, to, err := days(in.From, in.To, 30)
	if err != nil {
		return nil, err
	}
	sums, all, err := s.sums(ctx, store.UsageOfCosts, store.DaysFrom(from), store.DaysFrom(to))
	if err != nil {
		return nil, err
	}
	out := Costs{From: resource.At(from), To: resource.At(to), By: append([]string{}, in.By...), Rows: []CostRow{}, Complete: all}
	if err := s.earlier(ctx, in, from, to, &out); err != nil {
		return nil, err
	}
	by := func(name string) bool { return slices.Contains(in.By, name) }
	at := map[store.CostGroup]int{}
	for _, u := range sums {
		g, err := store.ReadCosts(u.ID)
		if err != nil {
			return nil, err
		}
		if in.Pipeline != "" && g.Workflow != in.Pipeline || in.Project != "" && g.Project != in.Project {
			continue
		}
		out.Total.count(&u)
		if len(in.By) == 0 {
			continue
		}
		var row CostRow
		var key store.CostGroup
		if by("day") {
			day := resource.At(g.Day)
			row.Day, key.Day = &day, g.Day
		}
		if by("pipeline") {
			row.Workflow, row.Pipeline, key.Workflow = &g.Workflow, &g.Pipeline, g.Workflow
			if g.Workflow == "" { // it may have been renamed
				key.Pipeline = g.Pipeline
			}
		}
		if by("project") {
			row.Project, key.Project = &g.Project, g.Project
		}
		if by("step") {
			row.Step, key.Step = &g.Step, g.Step
		}
		n, there := at[key]
		if !there {
			n = len(out.Rows)
			at[key] = n
			out.Rows = append(out.Rows, row)
		}
		if row.Pipeline != nil {
			out.Rows[n].Pipeline = row.Pipeline // the newest name
		}
		out.Rows[n].count(&u)
	}
	slices.SortStableFunc(out.Rows, func(a, b CostRow) int {
		if a.Day != nil {
			if c := a.Day.Compare(b.Day.Time); c != 0 {
				return c
			}
		}
		return cmp.Compare(b.Cost, a.Cost)
	})
	shown := min(len(out.Rows), in.Limit)
	out.Rest, out.Rows = len(out.Rows)-shown, out.Rows[:shown]
	return reply(out, nil)
}

// count adds a sum.
func (r *CostRow) count(u *store.Used) {
	r.Cost += Money(u.Cost)
	r.Attempts += u.InputTokens
	r.Again += Money(u.OutputTokens)
	r.Repeated += u.AudioMillis
}

// earlier finds since when costs are counted by step, and sums what was counted before without steps.
func (s *server) earlier(ctx context.Context, in *AskCosts, from, to time.Time, out *Costs) error {
	first, err := s.o.Store.UsageIn(ctx, store.UsageOfCosts, "", "~", 1)
	if err != nil {
		return err
	}
	if len(first) > 0 {
		g, err := store.ReadCosts(first[0].ID)
		if err != nil {
			return err
		}
		since := resource.At(g.Day)
		out.Since = &since
		if to = g.Day; !from.Before(to) {
			return nil
		}
	}
	if in.Project != "" { // it was not counted by project
		return nil
	}
	sums, all, err := s.sums(ctx, store.UsageOfEnds, store.EndsFrom(from), store.EndsFrom(to))
	if err != nil {
		return err
	}
	out.Complete = out.Complete && all
	for _, u := range sums {
		g, err := store.ReadEnds(u.ID)
		if err != nil {
			return err
		}
		if in.Pipeline == "" || g.Workflow == in.Pipeline {
			out.Earlier += Money(u.Cost)
		}
	}
	return nil
}
