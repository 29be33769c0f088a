package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/view"
)

func (p *program) newQueueCommand() *cobra.Command {
	var limit int
	cmd := p.askingOver(&connection{served: true}, "queue", "Show what waits, and why", func(ctx context.Context, r *request) error {
		q, err := r.client.Queue(ctx, limit)
		if err != nil {
			return err
		}
		return r.show(q, func() error { return view.WriteQueue(p.out, q) })
	})
	cmd.Long = "Show what waits, and why: the queues of steps with their limits, and the executions that have not been admitted."
	cmd.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("how many executions, up to %d", 200))
	return cmd
}
