package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/view"
)

// change is what cancel, pause, resume, retry and restart do to an execution.
type change struct {
	verb string // of the path
	body any
	// check refuses what makes no sense in the execution's status; done: there is nothing to do.
	check func(ctx context.Context, client *client.Client, x *api.ExecutionDetail) (done bool, err error)
	// preview are the parameters of a preview, which is shown instead. Defaults to none.
	preview url.Values
	// goal is an end that counts as success beside completed.
	goal stepwell.ExecutionStatus
	// run runs the execution on when no other process does. Defaults to steer.
	run func(s *session, x *api.ExecutionDetail) error
}

// changing makes a command of a change, which flags and arguments describe.
func (p *program) changing(cmd *cobra.Command, describe func(args []string) *change) *cobra.Command {
	c := connection{here: true}
	p.settings.addRun(cmd.Flags())
	c.addServer(cmd.Flags(), format(cmd.Flags(), "text", "json"))
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		ch := describe(args[1:])
		var x *api.ExecutionDetail
		run := false
		err := p.calling(&c, func(ctx context.Context, client *client.Client) (err error) {
			if err := newestExecution.resolve(ctx, client, args); err != nil {
				return err
			}
			if x, err = client.Execution(ctx, args[0]); err != nil {
				return err
			}
			done, err := ch.check(ctx, client, x)
			switch {
			case err != nil:
				return err
			case done:
				return p.answered(&c, object{"execution_id": x.ID, "status": x.Status, "changed": false}, "nothing to do: the execution is %s", x.Status)
			case ch.preview != nil:
				return p.preview(ctx, client, &c, x.ID, ch)
			case p.elsewhere(&c):
				return p.apply(ctx, client, &c, x.ID, ch)
			}
			run = true
			return nil
		})
		if err != nil || !run {
			return err
		}
		s, err := p.open(c.output.value, "stepwell executions resume "+x.ID+p.dbFlag())
		if stepwell.CodeOf(err) == stepwell.CodeConflict && ch.verb != "retry" { // a retry is an execution of its own, which runs here
			return p.calling(&c, func(ctx context.Context, client *client.Client) error {
				err := p.apply(ctx, client, &c, x.ID, ch)
				if err == nil {
					fmt.Fprintf(p.err, takenElsewhere, ch.verb)
				}
				return err
			})
		}
		if err != nil {
			return err
		}
		s.goal = ch.goal
		if ch.run == nil {
			return s.steer(x.ID, ch)
		}
		return ch.run(s, x)
	}
	return cmd
}

// apply asks for a change, and tells the status that the execution has then.
func (p *program) apply(ctx context.Context, client *client.Client, c *connection, id string, ch *change) error {
	var answer api.ExecutionRef
	if err := client.Call(ctx, http.MethodPost, pathTo("executions", id, ch.verb), nil, ch.body, &answer); err != nil {
		return err
	}
	if answer.ID == "" {
		answer.ID = id
	}
	if ch.verb == "retry" {
		return p.answered(c, answer, "execution %s is %s", answer.ID, answer.Status)
	}
	return p.answered(c, answer, "the execution is %s", answer.Status)
}

// steer changes an execution in this process and runs it to its end.
func (s *session) steer(id string, ch *change) error {
	if err := s.showExisting(id); err != nil {
		return s.abandon(err)
	}
	return s.run(func(ctx context.Context, client *client.Client) (string, error) {
		return id, client.Call(ctx, http.MethodPost, pathTo("executions", id, ch.verb), nil, ch.body, nil)
	})
}

func over(x *api.ExecutionDetail) bool { return !x.Completed.IsZero() }

func hasEnded(x *api.ExecutionDetail, hint string) error {
	return stepwell.Errorf(stepwell.CodeConflict, hint, "the execution has ended: %s", x.Status)
}

func (p *program) newCancelCommand() *cobra.Command {
	var body api.CancelRequest
	cmd := &cobra.Command{
		Use:        "cancel ID",
		Short:      "Stop an execution; its finally steps still run",
		SuggestFor: []string{"stop"},
		Args:       arguments(1, 1, "ID"),
	}
	cmd.Flags().StringVar(&body.Reason, "reason", "", "`text` that says why")
	return p.changing(cmd, func([]string) *change {
		return &change{verb: "cancel", body: &body, goal: stepwell.ExecutionCancelled,
			check: func(_ context.Context, _ *client.Client, x *api.ExecutionDetail) (bool, error) { return over(x), nil }}
	})
}

func (p *program) newPauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause ID",
		Short: "Let the running steps finish and start no others",
		Args:  arguments(1, 1, "ID"),
	}
	return p.changing(cmd, func([]string) *change {
		return &change{verb: "pause", run: p.pauseHere, check: func(_ context.Context, _ *client.Client, x *api.ExecutionDetail) (bool, error) {
			if over(x) {
				return false, hasEnded(x, "")
			}
			return x.Status == stepwell.ExecutionPaused.String(), nil
		}}
	})
}

// pauseHere pauses an execution that no process runs. Only the conductor is needed: no step may start.
func (p *program) pauseHere(s *session, x *api.ExecutionDetail) error {
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.app.Conductor.Run(ctx) }()
	err := p.apply(ctx, s.client, &connection{output: &choice{value: s.output}}, x.ID, &change{verb: "pause"})
	stop()
	if err = errors.Join(err, <-ran); err == nil {
		fmt.Fprintf(p.err, "continue with: stepwell executions resume %s%s\n", x.ID, p.dbFlag())
	}
	return s.abandon(err)
}

func (p *program) newResumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume ID",
		Short: "Continue with an execution that is paused or was interrupted",
		Args:  arguments(1, 1, "ID"),
	}
	return p.changing(cmd, func([]string) *change {
		return &change{verb: "resume", check: func(_ context.Context, _ *client.Client, x *api.ExecutionDetail) (bool, error) {
			if over(x) {
				return false, hasEnded(x, "`stepwell executions retry` starts it again, keeping what completed")
			}
			return false, nil
		}}
	})
}

func (p *program) newRestartCommand() *cobra.Command {
	var body api.RestartRequest
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "restart ID STEP",
		Short: "Repeat a step and everything after it, in the same execution",
		Args:  arguments(2, 2, "ID or STEP"),
	}
	cmd.Flags().BoolVar(&body.FailedOnly, "failed-only", false, "repeat only what did not complete inside the step")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would run again, and run nothing")
	return p.changing(cmd, func(args []string) *change {
		body.Step = args[0]
		ch := &change{verb: "restart", body: &body, check: func(ctx context.Context, client *client.Client, x *api.ExecutionDetail) (bool, error) {
			if loop, _, inside := strings.Cut(body.Step, "["); inside {
				return false, stepwell.Invalid("restart "+loop+", with --failed-only if only what failed should run again", "%s is an iteration, which is not restarted by itself", body.Step)
			}
			return false, knownStep(ctx, client, x.ID, body.Step)
		}}
		if dryRun {
			ch.preview = url.Values{"step_id": {body.Step}, "failed_only": {strconv.FormatBool(body.FailedOnly)}}
		}
		return ch
	})
}

func (p *program) newRetryCommand() *cobra.Command {
	var body api.RetryRequest
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Repeat what did not complete, in a new execution",
		Long:  "Start a new execution of the same version of the pipeline, with the same parameters. It keeps completed work: steps, iterations of for_each, steps inside groups and sub-pipelines, items of streams. It repeats all other work and everything that depends on it. The new execution names the old one as its parent.",
		Args:  arguments(1, 1, "ID"),
	}
	cmd.Flags().StringVar(&body.From, "from-step", "", "also repeat this `step` whole, and everything after it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would run, and run nothing")
	return p.changing(cmd, func([]string) *change {
		ch := &change{verb: "retry", body: &body, check: func(_ context.Context, _ *client.Client, x *api.ExecutionDetail) (bool, error) {
			if !over(x) {
				return false, stepwell.Errorf(stepwell.CodeConflict, "`stepwell executions resume "+x.ID+"` continues it", "the execution has not ended: it is %s", x.Status)
			}
			return false, nil
		}}
		if dryRun {
			ch.preview = url.Values{"from_step": {body.From}}
		}
		ch.run = func(s *session, x *api.ExecutionDetail) error {
			s.resume = "stepwell executions list --status running" + p.dbFlag()
			return s.retry(x, &body)
		}
		return ch
	})
}

func (s *session) retry(x *api.ExecutionDetail, body *api.RetryRequest) error {
	d, err := s.definition(x.ID)
	if err != nil {
		return s.abandon(err)
	}
	since := s.app.Now()
	s.show(d, func(y *store.Execution) bool { return y.Parent == x.ID && !y.Created.Before(since) })
	return s.run(func(ctx context.Context, client *client.Client) (string, error) {
		again, err := client.Retry(ctx, x.ID, body.From, "")
		if err != nil {
			return "", err
		}
		return again.ID, nil
	})
}

// preview shows what a retry or a restart would do: what is repeated, what runs again because of that, and what is kept.
func (p *program) preview(ctx context.Context, client *client.Client, c *connection, id string, ch *change) error {
	var a api.PreviewAnswer
	if err := client.Call(ctx, http.MethodGet, pathTo("executions", id, ch.verb, "preview"), ch.preview, nil, &a); err != nil {
		return err
	}
	if c.output.value == "json" {
		return view.WriteJSON(p.out, a)
	}
	return view.WritePreview(p.out, &a)
}
