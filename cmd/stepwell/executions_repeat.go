package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

func (p *program) newRestartCommand() *cobra.Command {
	var failedOnly, dryRun bool
	cmd := &cobra.Command{
		Use:   "restart ID STEP",
		Short: "Runs a step and everything after it again, in the same execution",
		Args:  arguments(2, 2, "ID or STEP"),
	}
	cmd.Flags().BoolVar(&failedOnly, "failed-only", false, "of a for_each, only the iterations that failed")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would run again, and run nothing")
	there := func(c *connection, id string, args []string) error {
		if dryRun {
			return p.previewThere(c, id, "restart", url.Values{"step_id": args[:1]})
		}
		return p.changeThere(c, id, "restart", object{"step_id": args[0], "failed_only": failedOnly})
	}
	return p.changing(cmd, there, func(x *store.Execution, args []string, output string) error {
		step := args[0]
		err := p.reading(x.ID, func(ctx context.Context, s *sqlite.Store, x *store.Execution) error {
			if loop, _, inside := strings.Cut(step, "["); inside {
				return invalid("restart "+loop+", with --failed-only if only what failed should run again", "%s is an iteration, which is not restarted by itself", step)
			}
			return knownStep(ctx, s, x, step)
		})
		if err != nil {
			return err
		}
		if dryRun {
			return p.preview(x, step, output, func(ctx context.Context, s *session) ([]string, error) {
				return s.app.Conductor.Preview(ctx, x.ID, step)
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
func restarted(ctx context.Context, s *sqlite.Store, before, now *store.Execution) (bool, error) {
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
		Short: "Starts an execution that has ended again, keeping what completed",
		Long: "Starts a new execution of the same pipeline, as it was, with the same parameters. Results of\n" +
			"steps that completed are taken over, except from --from-step on. The new execution names the\n" +
			"old one as its parent.",
		Args: arguments(1, 1, "ID"),
	}
	cmd.Flags().StringVar(&from, "from-step", "", "also run this `step` and everything after it")
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
			return p.preview(x, from, output, func(ctx context.Context, s *session) ([]string, error) { return s.wouldRetry(ctx, x, from) })
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

// wouldRetry is what a retry runs: what has not completed, and from the given step on.
func (s *session) wouldRetry(ctx context.Context, x *store.Execution, from string) ([]string, error) {
	again := map[string]bool{}
	if from != "" {
		keys, err := s.app.Conductor.Preview(ctx, x.ID, from)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			again[key] = true
		}
	}
	d, err := snapshotOf(ctx, s.app, x)
	if err != nil {
		return nil, err
	}
	b := newBoard(d)
	var keys []string
	for step, err := range allSteps(ctx, s.app.Store, x.No, store.StepFilter{}) {
		if err != nil {
			return nil, err
		}
		l, is := b.find(step.Key)
		top := is == itself && l.depth == 0 && !l.hidden || is == child && !l.body
		if top && (step.Status != stepwell.StepCompleted || again[step.Key]) {
			keys = append(keys, step.Key)
		}
	}
	return keys, nil
}

// preview shows the steps that a restart or a retry would run.
func (p *program) preview(x *store.Execution, step, output string, find func(context.Context, *session) ([]string, error)) error {
	s, err := p.open(output, "")
	if err != nil {
		return err
	}
	keys, err := find(context.Background(), s)
	if err = s.abandon(err); err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(p.out, map[string]any{"execution_id": x.ID, "from_step": step, "steps": append([]string{}, keys...)})
	}
	if len(keys) == 0 {
		_, err = fmt.Fprintln(p.out, "nothing would run: every step has completed")
		return err
	}
	fmt.Fprintf(p.out, "%s would run:\n", plural(len(keys), "step"))
	for _, key := range keys {
		fmt.Fprintf(p.out, "  %s\n", printable(key))
	}
	return nil
}
