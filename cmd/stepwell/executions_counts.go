package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newStreamsCommand() *cobra.Command {
	f := api.ListStreams{}
	cmd := p.askingOver(&connection{here: true}, "streams ID", "Show the streams of an execution: items, rates, bottleneck", func(ctx context.Context, r *request) error {
		f.ID = r.args[0]
		l, err := r.client.Streams(ctx, f)
		if err != nil {
			return err
		}
		return r.show(l, func() error { return view.WriteStreams(p.out, l) })
	})
	cmd.Flags().IntVar(&f.Limit, "limit", 200, "at most about so many modules, from 1 to 1000")
	return cmd
}

func (p *program) newStatsCommand() *cobra.Command {
	f := api.AskStats{}
	bucket, by := choice{"day", []string{"day", "hour", "minute", "all"}}, choice{"none", []string{"none", "pipeline"}}
	var last time.Duration
	cmd := p.asking("stats", "Count how executions ended, by day, hour or minute", func(ctx context.Context, r *request) error {
		if last < 0 {
			return stepwell.Invalid("give a duration such as 72h", "last: %s is not before now", last)
		}
		if f.Bucket, f.Group = bucket.value, by.value; last > 0 {
			f.From = time.Now().Add(-last)
		}
		s, err := r.client.Stats(ctx, f)
		if err != nil {
			return err
		}
		return r.show(s, func() error { return view.WriteStats(p.out, s) })
	})
	flags := cmd.Flags()
	flags.Var(&bucket, "bucket", "a line for each day, each hour or each minute, in UTC; all: for the whole time")
	flags.Var(&by, "by", "pipeline: a line for each stored pipeline")
	flags.StringVar(&f.Pipeline, "pipeline-id", "", "only executions of the stored pipeline with this `id`")
	flags.DurationVar(&last, "last", 0, "the time before now, such as 72h; 14 days, 24 hours or an hour when it is not given")
	return cmd
}

func (p *program) newMatrixCommand() *cobra.Command {
	f := api.GetMatrix{}
	cmd := p.asking("matrix ID", "Show the steps of a pipeline in its last executions", func(ctx context.Context, r *request) error {
		f.ID = r.args[0]
		m, err := r.client.Matrix(ctx, f)
		if err != nil {
			return err
		}
		return r.show(m, func() error { return view.WriteMatrix(p.out, m) })
	})
	cmd.Flags().IntVar(&f.Executions, "executions", 25, "at most so many executions, from 1 to 100")
	cmd.Flags().IntVar(&f.Steps, "steps", 200, "at most so many steps, from 1 to 500")
	return cmd
}

func (p *program) newDeliveriesCommand(r *resource) *cobra.Command {
	return p.asking("deliveries ID", "List the last deliveries of a webhook with their verdicts", func(ctx context.Context, q *request) error {
		rows, _, err := q.client.Page(ctx, r.at(q.args[0], "deliveries"), "deliveries", nil)
		if err != nil {
			return err
		}
		return q.table(rows, []view.Column{{"RECEIVED", "received_at"}, {"VERDICT", "verdict"}, {"FROM", "from"}, {"BYTES", "bytes"}, {"EXECUTION", "execution_id"}, {"MESSAGE", "message"}}, "no deliveries")
	})
}
