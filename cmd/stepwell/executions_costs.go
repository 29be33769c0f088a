package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/view"
)

// since is the time so long ago; zero for none.
func since(last time.Duration) (at time.Time, err error) {
	if last < 0 {
		return at, stepwell.Invalid("give a duration such as 72h", "last: %s is not before now", last)
	}
	if last > 0 {
		at = time.Now().Add(-last)
	}
	return at, nil
}

func (p *program) newCostsCommand() *cobra.Command {
	f := api.AskCosts{}
	var last time.Duration
	var csv bool
	cmd := p.asking("costs", "Sum what executions cost by pipeline, step, project and day, retries apart", func(ctx context.Context, r *request) (err error) {
		if csv && r.output.value == "json" {
			return stepwell.Invalid("leave out one of them", "--csv and --output json are two formats")
		}
		if f.From, err = since(last); err != nil {
			return err
		}
		c, err := r.client.Costs(ctx, f)
		switch {
		case err != nil:
			return err
		case csv:
			if told := view.CostsCut(c); told != "" {
				fmt.Fprintln(p.err, told)
			}
			return view.WriteCostsCSV(p.out, c)
		}
		return r.show(c, func() error { return view.WriteCosts(p.out, c) })
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&f.By, "by", []string{"pipeline"}, "a line for each of `these`: day, pipeline, project, step; or for each combination of several")
	flags.StringVar(&f.Pipeline, "pipeline-id", "", "only executions of the stored pipeline with this `id`")
	flags.StringVar(&f.Project, "project", "", "only executions for this `project`")
	flags.IntVar(&f.Limit, "limit", 1000, "at most so many lines, from 1 to 5000")
	flags.DurationVar(&last, "last", 0, "the time before now, such as 72h, in whole days (UTC); 30 days when it is not given")
	flags.BoolVar(&csv, "csv", false, "as comma-separated values, for spreadsheets")
	return cmd
}

func (p *program) newSLACommand() *cobra.Command {
	f := api.AskPromises{}
	var last time.Duration
	cmd := p.asking("sla", "Show promised and real durations, and which executions break their SLA", func(ctx context.Context, r *request) (err error) {
		if f.From, err = since(last); err != nil {
			return err
		}
		s, err := r.client.Promises(ctx, f)
		if err != nil {
			return err
		}
		return r.show(s, func() error { return view.WritePromises(p.out, s) })
	})
	cmd.Flags().StringVar(&f.Pipeline, "pipeline-id", "", "only executions of the stored pipeline with this `id`")
	cmd.Flags().DurationVar(&last, "last", 0, "the time before now, such as 72h, in whole days (UTC); 30 days when it is not given")
	return cmd
}
