package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newSourceCommand() *cobra.Command {
	var step string
	cmd := p.askingOver(&connection{here: true, newest: newestExecution}, "source ID", "Show the document that an execution runs, as it was written", func(ctx context.Context, r *request) error {
		s, err := r.client.Source(ctx, r.args[0])
		if err == nil && step != "" {
			err = onlyStep(s, step)
		}
		if err != nil {
			return err
		}
		if s.Origin == "definition" {
			fmt.Fprintln(p.err, "hint: the text was not kept; this is the definition of the execution, written as YAML")
		}
		return r.show(s, func() error {
			_, err := fmt.Fprintln(p.out, view.Printable(strings.TrimRight(s.Document, "\n")))
			return err
		})
	})
	cmd.Flags().StringVar(&step, "step", "", "only the lines of the step with this `key`")
	return cmd
}

// onlyStep leaves the lines of a step, or of what it is an iteration of.
func onlyStep(s *api.ExecutionSource, step string) error {
	key := stepwell.Unnumbered(step)
	for _, l := range s.Steps {
		if l.Step == key {
			lines := strings.Split(s.Document, "\n")
			s.Document = strings.Join(lines[l.From-1:min(l.To, len(lines))], "\n") + "\n"
			s.Steps = []api.SourceLines{l}
			return nil
		}
	}
	return notFound("executions source without --step shows all of it", "the document has no step %s", step)
}
