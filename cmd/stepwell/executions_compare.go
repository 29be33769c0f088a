package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newCompareCommand() *cobra.Command {
	f := api.CompareExecutions{}
	sort := choice{"change", []string{"change", "moved", "key"}}
	cmd := p.askingOver(&connection{here: true}, "compare ID OTHER", "Compare the steps of two executions", func(ctx context.Context, r *request) error {
		f.ID, f.Other, f.Sort = r.args[0], r.args[1], sort.value
		c, err := r.client.Compare(ctx, f)
		if err != nil {
			return err
		}
		return r.show(c, func() error { return view.WriteComparison(p.out, c) })
	})
	flags := cmd.Flags()
	flags.Var(&sort, "sort", "first what is in one only or has another status (change), or what changed the sum of durations the most (moved)")
	flags.BoolVar(&f.All, "all", false, "also steps whose status and attempts are the same")
	flags.BoolVar(&f.Effects, "effects", false, "also steps in the same state whose outputs differ, or that changed the sum of durations by a hundredth")
	flags.IntVar(&f.Limit, "limit", 100, "at most so many steps, from 1 to 500")
	return cmd
}
