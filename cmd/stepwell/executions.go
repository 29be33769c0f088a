package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newExecutionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "executions",
		Aliases: []string{"execution", "ex"},
		Short:   "Show, control and repeat executions",
		Long: "Show, control and repeat executions. An ID may be shortened to a unique prefix; last is the newest execution.\n\n" +
			"If another process runs the executions of the database, cancel, pause, resume and restart ask that process (retry does with --server); otherwise they run the execution in this process until it ends.\n\n" +
			"With --server, or STEPWELL_SERVER, they ask a server instead of the database, with the API key in STEPWELL_API_KEY.",
		Args: p.unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newListCommand(), p.newShowCommand(), p.newLogsCommand(), p.newEventsCommand(), p.newRetryCommand(),
		p.newRestartCommand(), p.newWhyCommand(), p.newCompareCommand(), p.newReplayCommand(), p.newSourceCommand(), p.newStreamsCommand(), p.newStatsCommand(), p.newCostsCommand(), p.newSLACommand(), p.newCancelCommand(), p.newPauseCommand(), p.newResumeCommand())
	return cmd
}

func (p *program) newListCommand() *cobra.Command {
	var filter api.ListExecutions
	var most int
	cmd := p.askingOver(&connection{here: true}, "list", "List executions, newest first", func(ctx context.Context, r *request) error {
		if err := statuses[stepwell.ExecutionStatus](filter.Status); err != nil {
			return err
		}
		if most < 1 || most > 1000 {
			return stepwell.Invalid("give a number from 1 to 1000", "limit: %d is out of range", most)
		}
		list := []api.Execution{}
		for more := true; more && len(list) < most; {
			filter.Limit = min(500, most-len(list))
			page, err := r.client.Executions(ctx, filter)
			if err != nil {
				return err
			}
			list = append(list, page.Executions...)
			filter.Cursor, more = page.Next, page.Next != ""
		}
		return r.show(list, func() error { return view.WriteExecutions(p.out, list) })
	})
	f := cmd.Flags()
	f.StringSliceVar(&filter.Status, "status", nil, "only those with one of these `statuses`")
	f.StringVar(&filter.Pipeline, "pipeline", "", "only those of the pipeline of this `name`")
	f.StringVar(&filter.Project, "project", "", "only those that were started for the `project`, and retries of them")
	f.StringVar(&filter.Lesson, "lesson", "", "only those that were started for the `lesson`, and retries of them")
	f.BoolVar(&filter.Footprints, "footprints", false, "only those whose streams have items with a bbox, which a map shows")
	f.BoolVar(&filter.Warned, "warnings", false, "only those with warnings in their log, and how many")
	f.StringVar(&filter.Before, "before", "", "only those older than the execution with this `id`: the next page")
	f.IntVar(&most, "limit", 50, "at most so many")
	return cmd
}

// statuses checks names of statuses before anybody is asked.
func statuses[T ~uint8, P interface {
	*T
	UnmarshalText([]byte) error
}](names []string) error {
	for _, name := range names {
		var s T
		if err := P(&s).UnmarshalText([]byte(name)); err != nil {
			var all []string
			for s = 0; !strings.HasPrefix(fmt.Sprint(s), "status("); s++ {
				all = append(all, fmt.Sprint(s))
			}
			return stepwell.Invalid("the statuses are "+strings.Join(all, ", "), "%s", err.Error())
		}
	}
	return nil
}

func (p *program) newShowCommand() *cobra.Command {
	filter := api.ListSteps{Limit: 1000}
	var all, follow bool
	var at string
	c := &connection{here: true, newest: newestExecution}
	cmd := p.askingOver(c, "show ID", "Show an execution with its steps", func(ctx context.Context, r *request) error {
		if err := statuses[stepwell.StepStatus](filter.Status); err != nil {
			return err
		}
		var err error
		if filter.Version, filter.At, err = momentOf(at); err != nil {
			return err
		}
		if at != "" && (follow || filter.Outputs) {
			return stepwell.Invalid("leave out --at, or the others", "--at goes neither with --outputs, which are those of now, nor with --follow")
		}
		x, err := r.client.Execution(ctx, r.args[0])
		if err != nil {
			return err
		}
		if at != "" {
			filter.ID = x.ID
			return p.showThen(ctx, r, x, filter, all)
		}
		if follow {
			return p.followHere(ctx, r, x.ID)
		}
		filtered := filter.Outputs || filter.Step != "" || len(filter.Status) > 0
		if filter.ID, filter.Cursor = x.ID, x.MoreSteps; filtered {
			x.Steps, filter.Cursor = []api.Step{}, ""
		}
		if filtered || filter.Cursor != "" {
			more, err := allSteps(ctx, r.client, filter)
			if err == nil && len(more) == 0 && filter.Step != "" {
				err = knownStep(ctx, r.client, x.ID, filter.Step)
			}
			if err != nil {
				return err
			}
			x.Steps, x.MoreSteps = append(x.Steps, more...), ""
		}
		return view.WriteExecution(p.out, x, r.output.value, all)
	})
	cmd.PreRun = func(*cobra.Command, []string) { c.lasts = follow }
	flags := cmd.Flags()
	flags.BoolVar(&filter.Outputs, "outputs", false, "show the steps' outputs too")
	flags.BoolVarP(&follow, "follow", "f", false, "show how it goes until it has ended, as run does; the exit code is that of run")
	flags.BoolVar(&all, "all", false, "show each iteration of for_each, also those that completed")
	flags.StringSliceVar(&filter.Status, "status", nil, "only steps with one of these `statuses`")
	flags.StringVar(&filter.Step, "step", "", "only the step with this `key`")
	flags.StringVar(&at, "at", "", "as it was after this `version`, which events -o json names, or at this time (2026-11-28T09:30:00Z)")
	return cmd
}

// showThen shows the steps of an execution as they were.
func (p *program) showThen(ctx context.Context, r *request, x *api.ExecutionDetail, filter api.ListSteps, all bool) error {
	list, err := r.client.Steps(ctx, filter)
	if err != nil {
		return err
	}
	if filter.Cursor = list.Next; list.Next != "" {
		filter.Version, filter.At = list.As.Version, time.Time{}
		more, err := allSteps(ctx, r.client, filter)
		if err != nil {
			return err
		}
		list.Steps, list.Next = append(list.Steps, more...), ""
	}
	if len(list.Steps) == 0 && filter.Step != "" {
		if err := knownStep(ctx, r.client, x.ID, filter.Step); err != nil {
			return err
		}
	}
	return r.show(list, func() error { return view.WriteStepsAt(p.out, x, list, all) })
}

// allSteps lists an execution's steps, page by page.
func allSteps(ctx context.Context, client *client.Client, filter api.ListSteps) ([]api.Step, error) {
	steps := []api.Step{}
	for {
		page, err := client.Steps(ctx, filter)
		if err != nil {
			return nil, err
		}
		steps = append(steps, page.Steps...)
		if filter.Cursor = page.Next; page.Next == "" {
			return steps, nil
		}
	}
}

func (p *program) newWhyCommand() *cobra.Command {
	var step, at, whatIf string
	cmd := p.askingOver(&connection{here: true, newest: newestExecution}, "why ID", "Say why an execution, or one of its steps, is in its state", func(ctx context.Context, r *request) error {
		version, moment, err := momentOf(at)
		if err != nil {
			return err
		}
		if whatIf != "" {
			would, err := r.client.WhatIf(ctx, r.args[0], whatIf, version, moment)
			if err != nil {
				return err
			}
			return r.show(would, func() error { return view.WriteWhatIf(p.out, would) })
		}
		answer := &api.WhyAnswer{}
		if at != "" {
			answer, err = r.client.WhyAt(ctx, r.args[0], step, version, moment)
		} else {
			answer.Reasons, err = r.client.Why(ctx, r.args[0], step)
		}
		if step != "" && stepwell.CodeOf(err) == stepwell.CodeNotFound {
			err = cmp.Or(knownStep(ctx, r.client, r.args[0], step), err)
		}
		if err != nil {
			return err
		}
		return r.show(answer, func() error { return view.WriteReasons(p.out, answer.Reasons) })
	})
	cmd.Flags().StringVar(&step, "step", "", "the step with this `key`")
	cmd.Flags().StringVar(&at, "at", "", "as it was after this `version`, which events -o json names, or at this time (2026-11-28T09:30:00Z)")
	cmd.Flags().StringVar(&whatIf, "what-if", "", "tell what would come of an `assumption`, and do nothing: restart STEP, retry, fail STEP, complete STEP, cancel …")
	cmd.MarkFlagsMutuallyExclusive("step", "what-if")
	cmd.Long = "Say why an execution, or one of its steps, is in its state.\n\n" +
		"--what-if tells what would come of something that might happen to it, now or at --at: which steps would be\n" +
		"dispatched, with their rendered parameters, which would be skipped and why, and which that must not run twice\n" +
		"(idempotent: false) would run again. Nothing is changed. It can assume:\n" +
		"  restart STEP [failed-only]     retry [STEP]        cancel, pause, resume\n" +
		"and of a step that is queued, running, or waits for an answer:\n" +
		"  fail STEP [permanently]        complete STEP [OUTPUTS, a JSON object]\n" +
		"  skip STEP                      lose STEP: its worker dies"
	return cmd
}

// momentOf reads a version or a time; "" is neither.
func momentOf(text string) (version int64, at time.Time, err error) {
	if text == "" {
		return 0, at, nil
	}
	if version, err = strconv.ParseInt(text, 10, 64); err == nil && version > 0 {
		return version, at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		err = stepwell.Invalid("a version from 1, such as 17, or a time such as 2026-11-28T09:30:00Z", "--at %q is neither a version nor a time", text)
	}
	return 0, at, err
}
