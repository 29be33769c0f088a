package main

import (
	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newPlanCommand() *cobra.Command {
	var output *choice
	var state bool
	c := &connection{}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show the steps of a pipeline and their dependencies",
		Long:  "Show the steps of a pipeline by level: the steps of a level depend only on earlier levels. A step starts as soon as its own dependencies have ended, not when a level has.",
		Args:  arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if state {
				return p.showPartitions(c, args[0])
			}
			d, actions, err := p.loadWithActions(args[0])
			if err != nil {
				return err
			}
			if err := d.problems.Err(); err != nil {
				return err
			}
			p.warn(d.problems)
			return p.showPlan(d.def, actions, output.value)
		},
	}
	output = format(cmd.Flags(), "text", "mermaid", "dot", "json")
	cmd.Flags().BoolVar(&state, "state", false, "show instead which partitions of the stored pipeline (settings.partition) are done, stale by this file, failed or missing")
	p.settings.addDB(cmd.Flags())
	c.addServer(cmd.Flags(), output)
	p.settings.addLenient(cmd.Flags())
	return cmd
}

// showPlan compiles a checked pipeline and shows its graph.
func (p *program) showPlan(d *definition.Definition, actions *action.Registry, form string) error {
	compiled, err := plan.Compile(d, actions)
	if err != nil {
		return err
	}
	return view.WritePlan(p.out, compiled, d, form)
}
