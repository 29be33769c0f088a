package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

func (p *program) newRestartCommand() *cobra.Command {
	var failedOnly, dryRun bool
	cmd := &cobra.Command{
		Use:   "restart ID STEP",
		Short: "Repeat a step and everything after it, in the same execution",
		Args:  arguments(2, 2, "ID or STEP"),
	}
	cmd.Flags().BoolVar(&failedOnly, "failed-only", false, "repeat only what did not complete inside the step")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would run again, and run nothing")
	there := func(c *connection, id string, args []string) error {
		if dryRun {
			return p.previewThere(c, id, "restart", url.Values{"step_id": args[:1], "failed_only": {strconv.FormatBool(failedOnly)}})
		}
		return p.changeThere(c, id, "restart", object{"step_id": args[0], "failed_only": failedOnly})
	}
	return p.changing(cmd, there, func(x *store.Execution, args []string, output string) error {
		step := args[0]
		err := p.reading(x.ID, func(ctx context.Context, s store.Store, x *store.Execution) error {
			if loop, _, inside := strings.Cut(step, "["); inside {
				return stepwell.Invalid("restart "+loop+", with --failed-only if only what failed should run again", "%s is an iteration, which is not restarted by itself", step)
			}
			return knownStep(ctx, s, x, step)
		})
		if err != nil {
			return err
		}
		if dryRun {
			return p.preview(x, output, func(ctx context.Context, c *conductor.Conductor) (*engine.Forecast, error) {
				return c.PreviewRestart(ctx, x.ID, step, failedOnly)
			})
		}
		return p.apply(x, &change{kind: conductor.RequestRestart, body: conductor.RequestBody{Step: step, FailedOnly: failedOnly},
			here: func(ctx context.Context, s *session, x *store.Execution) error {
				return s.steer(ctx, x, func(ctx context.Context, c *conductor.Conductor) error {
					return c.Restart(ctx, x.ID, step, failedOnly)
				})
			},
			seen: restarted,
		}, output)
	})
}

// restarted looks for the restart among what has happened since.
func restarted(ctx context.Context, s store.Store, before, now *store.Execution) (bool, error) {
	if now.Version == before.Version {
		return false, nil
	}
	for after := before.Version; ; {
		events, err := s.Events(ctx, before.No, after, page)
		if err != nil || len(events) == 0 {
			return false, err
		}
		for i := range events {
			if after = events[i].Version; events[i].Type == "restart" {
				return true, nil
			}
		}
	}
}

func (p *program) newRetryCommand() *cobra.Command {
	var from string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Repeat what did not complete, in a new execution",
		Long: "Starts a new execution of the same pipeline, as it was, with the same parameters. What completed\n" +
			"is taken over: steps, iterations of for_each, steps inside groups and sub-pipelines, items of\n" +
			"streams. What did not complete is repeated, and what depends on that. The new execution names\n" +
			"the old one as its parent.",
		Args: arguments(1, 1, "ID"),
	}
	cmd.Flags().StringVar(&from, "from-step", "", "also repeat this `step` whole, and everything after it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would run, and run nothing")
	there := func(c *connection, id string, _ []string) error {
		if dryRun {
			return p.previewThere(c, id, "retry", url.Values{"from_step": {from}})
		}
		body := object{}
		put(body, "from_step", from)
		return p.changeThere(c, id, "retry", body)
	}
	return p.changing(cmd, there, func(x *store.Execution, _ []string, output string) error {
		if !x.Status.Terminal() {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has not ended: it is " + x.Status.String(),
				Hint: "`stepwell executions resume " + x.ID + "` goes on with it"}
		}
		if dryRun {
			return p.preview(x, output, func(ctx context.Context, c *conductor.Conductor) (*engine.Forecast, error) {
				return c.PreviewRetry(ctx, x.ID, from)
			})
		}
		return p.retry(x, from, output)
	})
}

func (p *program) retry(x *store.Execution, from, output string) error {
	s, err := p.open(output, "stepwell executions list --status running"+p.dbFlag())
	if err != nil {
		return err
	}
	d, err := snapshotOf(context.Background(), s.app, x)
	if err != nil {
		return s.abandon(err)
	}
	since := time.Now()
	s.show(d, func(y *store.Execution) bool { return y.Parent == x.ID && !y.Created.Before(since) })
	return s.run(func(ctx context.Context, a *app.App) (string, error) { return a.Conductor.Retry(ctx, x.ID, from) })
}

// preview shows what a restart or a retry would do.
func (p *program) preview(x *store.Execution, output string, find func(context.Context, *conductor.Conductor) (*engine.Forecast, error)) error {
	s, err := p.open(output, "")
	if err != nil {
		return err
	}
	fc, err := find(context.Background(), s.app.Conductor)
	if err = s.abandon(err); err != nil {
		return err
	}
	answer := api.Preview(fc)
	if output == "json" {
		return writeJSON(p.out, struct {
			Execution string `json:"execution_id"`
			api.PreviewAnswer
		}{x.ID, answer})
	}
	return p.foretell(&answer)
}

// foretell writes a preview: what is repeated, what runs again because of that, and what is kept.
func (p *program) foretell(a *api.PreviewAnswer) error {
	tries := func(step string) string {
		if n := a.Items[step]; n > 0 {
			return plural(int(n), "failed item")
		}
		return ""
	}
	var repeated, again []string
	for _, step := range a.Repeated {
		if items := tries(step); items != "" {
			step += " (" + items + ")"
		}
		repeated = append(repeated, step)
	}
	for _, step := range a.Again {
		why := "at the end of every execution"
		if step.Because != "" {
			why = "because of " + string(step.Because)
		}
		if items := tries(step.Step); items != "" {
			why = items + ", " + why
		}
		again = append(again, step.Step+" ("+why+")")
	}
	for _, part := range []struct {
		title string
		n     int
		list  []string
	}{{"repeated", a.Counts.Repeated, repeated}, {"again", a.Counts.Again, again}, {"kept", a.Counts.Kept, a.Kept}} {
		if _, err := fmt.Fprintf(p.out, "%s: %d\n", part.title, part.n); err != nil {
			return err
		}
		for _, line := range part.list {
			fmt.Fprintf(p.out, "  %s\n", printable(line))
		}
		if more := part.n - len(part.list); more > 0 {
			fmt.Fprintf(p.out, "  … and %d more\n", more)
		}
	}
	return nil
}
