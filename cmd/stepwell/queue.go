package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/view"
)

const mostHolders = 100 // of a queue

func (p *program) newQueueCommand() *cobra.Command {
	var limit, holders int
	cmd := p.askingOver(&connection{served: true}, "queue", "Show what waits, and why", func(ctx context.Context, r *request) error {
		if holders < 1 || holders > mostHolders {
			return stepwell.Invalid(fmt.Sprintf("give a number from 1 to %d", mostHolders), "holders: %d is out of range", holders)
		}
		q, err := r.client.Queue(ctx, limit, holders)
		if err != nil {
			return err
		}
		return r.show(q, func() error { return view.WriteQueue(p.out, q) })
	})
	cmd.Long = "Show what waits, and why: the queues of steps with their limits, the step that has waited the longest in each, the steps that take the places of queues with a limit, and the executions that have not been admitted.\n\n" +
		"Queues are shown as the server that is asked has them: its part of the limits, and the steps that it gives to workers and to lists in Redis. Executions are those of all servers."
	cmd.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("how many executions, up to %d", 200))
	cmd.Flags().IntVar(&holders, "holders", 5, fmt.Sprintf("how many of the steps that take the places of a queue, up to %d", mostHolders))
	return cmd
}
