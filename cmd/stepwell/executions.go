package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newExecutionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "executions",
		Aliases: []string{"execution", "ex"},
		Short:   "Show, steer and repeat executions",
		Long: "Show, steer and repeat executions. An ID may be shortened to a beginning that no other has.\n\n" +
			"While another process runs executions on the database, cancel, pause, resume and restart ask\n" +
			"that process; otherwise they do it here, and run the execution on to its end.\n\n" +
			"With --server, or STEPWELL_SERVER, they ask a server instead of the database; the API key is that\n" +
			"of STEPWELL_API_KEY.",
		Args: p.unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newListCommand(), p.newShowCommand(), p.newLogsCommand(), p.newEventsCommand(), p.newRetryCommand(),
		p.newRestartCommand(), p.newWhyCommand(), p.newCancelCommand(), p.newPauseCommand(), p.newResumeCommand())
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
		return r.show(list, func() error { return p.list(list) })
	})
	f := cmd.Flags()
	f.StringSliceVar(&filter.Status, "status", nil, "only those with one of these `statuses`")
	f.StringVar(&filter.Pipeline, "pipeline", "", "only those of the pipeline of this `name`")
	f.StringVar(&filter.Before, "before", "", "only those older than the execution with this `id`: the next page")
	f.IntVar(&most, "limit", 50, "at most so many")
	return cmd
}

func (p *program) list(list []api.Execution) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(p.out, "no executions")
		return err
	}
	t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tPIPELINE\tSTATUS\tCREATED\tDURATION\tSTEPS\tTRIGGER\tBY")
	for i := range list {
		x := &list[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", x.ID, view.OneLine(x.Pipeline, 40), x.Status, x.Created.Local().Format(cellTime),
			milliseconds(x.DurationMS), x.Progress.Completed, x.Progress.Total, x.TriggerType, view.OneLine(string(x.TriggeredBy), maxCell))
	}
	return t.Flush()
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

// milliseconds are so many milliseconds for people, "" for none.
func milliseconds(ms *int64) string {
	if ms == nil {
		return ""
	}
	return view.Short(time.Duration(*ms) * time.Millisecond)
}

func (p *program) newShowCommand() *cobra.Command {
	filter := api.ListSteps{Limit: 1000}
	var all, follow bool
	c := &connection{here: true}
	cmd := p.askingOver(c, "show ID", "Show an execution with its steps", func(ctx context.Context, r *request) error {
		if err := statuses[stepwell.StepStatus](filter.Status); err != nil {
			return err
		}
		x, err := r.client.Execution(ctx, r.args[0])
		if err != nil {
			return err
		}
		if follow {
			s := &session{program: p, output: r.output.value, client: r.client, where: r.where()}
			s.resume = "stepwell executions show " + x.ID + " --follow" + s.where
			return s.watch(ctx, x.ID)
		}
		filtered := filter.Outputs || filter.Step != "" || len(filter.Status) > 0
		if filter.ID, filter.Cursor = x.ID, x.MoreSteps; filtered {
			x.Steps, filter.Cursor = []api.Step{}, ""
		}
		if filtered || filter.Cursor != "" {
			more, err := allSteps(ctx, r.client, filter)
			if err != nil {
				return err
			}
			x.Steps, x.MoreSteps = append(x.Steps, more...), ""
		}
		return p.showExecution(r.connection, x, all)
	})
	cmd.PreRun = func(*cobra.Command, []string) { c.lasts = follow }
	flags := cmd.Flags()
	flags.BoolVar(&filter.Outputs, "outputs", false, "show the steps' outputs too")
	flags.BoolVarP(&follow, "follow", "f", false, "show how it goes until it has ended, as run does; the exit code is that of run")
	flags.BoolVar(&all, "all", false, "show each iteration of for_each, also those that completed")
	flags.StringSliceVar(&filter.Status, "status", nil, "only steps with one of these `statuses`")
	flags.StringVar(&filter.Step, "step", "", "only the step with this `key`")
	return cmd
}

// allSteps lists an execution's steps, page by page.
func allSteps(ctx context.Context, client *api.Client, filter api.ListSteps) ([]api.Step, error) {
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

func (p *program) showExecution(c *connection, x *api.ExecutionDetail, all bool) error {
	if c.output.value == "json" {
		return writeJSON(p.out, x)
	}
	w := p.out
	by := x.TriggerType
	if x.TriggeredBy != "" {
		by += " by " + view.OneLine(string(x.TriggeredBy), maxCell)
	}
	fmt.Fprintf(w, "execution  %s\npipeline   %s\nstatus     %s\ncreated    %s, %s\n", x.ID, view.Printable(x.Pipeline), x.Status, x.Created.Local().Format(cellTime), by)
	for _, line := range []struct{ name, value string }{{"duration", milliseconds(x.DurationMS)}, {"retry of", string(x.Parent)}, {"stored as", string(x.Workflow)}, {"job", string(x.Job)},
		{"cost", costText(x.Cost)}, {"late", x.Breached}} {
		if line.value != "" {
			fmt.Fprintf(w, "%-9s  %s\n", line.name, view.Printable(line.value))
		}
	}
	if text := valueText(x.Params); len(x.Params) > 0 && text != "{}" {
		fmt.Fprintf(w, "params     %s\n", text)
	}
	if x.Error != nil {
		writeFailure(w, "", "error", x.Error)
	}
	if x.Abandoned > 0 {
		fmt.Fprintf(w, "outside    stopping outside: the work of %d ended steps is still to be stopped\n", x.Abandoned)
	}
	if err := p.showSteps(x.Steps, all); err != nil {
		return err
	}
	writeOutputs(w, x.Result)
	return nil
}

func costText(m api.Money) string {
	if m == 0 {
		return ""
	}
	text, _ := m.MarshalText() // never fails
	return string(text)
}

// showSteps is the table of the steps. Iterations that have nothing to tell are only counted.
func (p *program) showSteps(steps []api.Step, all bool) error {
	t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "\nSTEP\tSTATUS\tATTEMPT\tDURATION\t")
	completed, queued := 0, 0
	for i := range steps {
		s := &steps[i]
		switch {
		case !all && iteration(s.ID) && s.Status == stepwell.StepCompleted.String():
			completed++
			continue
		case !all && unnamed(s.ID):
			queued++
			continue
		}
		attempt := ""
		if s.Attempt > 0 {
			attempt = fmt.Sprint(s.Attempt)
		}
		took := ""
		if !s.Completed.IsZero() {
			took = milliseconds(s.DurationMS)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", view.OneLine(s.ID, 60), s.Status, attempt, took, remark(s))
		if len(s.Outputs) > 0 {
			fmt.Fprintf(t, "  %s\n", view.OneLine(string(s.Outputs), 2000))
		}
	}
	if completed > 0 {
		fmt.Fprintf(t, "and %s that completed (--all shows them)\n", plural(completed, "iteration"))
	}
	if queued > 0 {
		fmt.Fprintf(t, "and %s queued and not begun\n", plural(queued, "iteration"))
	}
	return t.Flush()
}

// iteration reports whether a key is that of an iteration, or of a step inside one. Keys of spawned
// steps end with anything after a colon.
func iteration(key string) bool {
	name, _, _ := strings.Cut(key, ":")
	return strings.Contains(name, "[")
}

// unnamed reports whether a step is known by its number alone: it has been queued, and nothing more.
func unnamed(key string) bool { return strings.HasPrefix(key, "#") }

// remark is what else there is to say about a step, in one line.
func remark(s *api.Step) string {
	var parts []string
	if s.Until != nil && s.Completed.IsZero() {
		parts = append(parts, "until "+s.Until.Local().Format(cellTime))
	}
	if s.Error != nil {
		text := view.OneLine(s.Error.Message, 300)
		if s.Error.Hint != "" {
			text += " (" + view.OneLine(s.Error.Hint, 200) + ")"
		}
		parts = append(parts, text)
	}
	if s.Items != nil {
		parts = append(parts, view.CountsText(action.Counts{In: s.Items.In, Out: s.Items.Out, Failed: s.Items.Failed, Dropped: s.Items.Dropped, Skipped: s.Items.Skipped}))
	}
	return strings.Join(parts, " ")
}

func (p *program) newWhyCommand() *cobra.Command {
	var step string
	cmd := p.askingOver(&connection{here: true}, "why ID", "Say why an execution, or one of its steps, is in its state", func(ctx context.Context, r *request) error {
		reasons, err := r.client.Why(ctx, r.args[0], step)
		if err != nil {
			return err
		}
		return r.show(api.WhyAnswer{Reasons: reasons}, func() (err error) {
			for _, reason := range reasons {
				_, err = fmt.Fprintln(p.out, reasonLine(reason))
			}
			return err
		})
	})
	cmd.Flags().StringVar(&step, "step", "", "the step with this `key`")
	return cmd
}

// reasonLine is a reason with the steps that it does not name itself: one that begins with "steps" speaks of all.
func reasonLine(r api.Reason) string {
	text := view.OneLine(r.Message, 2000)
	var more []string
	for _, name := range r.Steps {
		if strings.HasPrefix(text, "steps ") || !strings.Contains(text, name) {
			more = append(more, name)
		}
	}
	if len(more) == 0 {
		return text
	}
	return text + ": " + view.OneLine(strings.Join(more, ", "), 2000)
}
