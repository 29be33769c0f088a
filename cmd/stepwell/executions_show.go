package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// showFlags are the flags of `executions show`.
type showFlags struct {
	outputs, all bool
	statuses     []string
	step         string
	output       *choice
}

func (p *program) newShowCommand() *cobra.Command {
	var f showFlags
	var c connection
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Shows an execution with its steps",
		Args:  arguments(1, 1, "ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			if p.elsewhere(&c) {
				return p.showThere(&c, args[0])
			}
			statuses, err := stepStatuses(f.statuses)
			if err != nil {
				return err
			}
			return p.reading(args[0], func(ctx context.Context, s store.Store, x *store.Execution) error {
				if err := hideSecrets(ctx, s, x); err != nil {
					return err
				}
				filter := store.StepFilter{Statuses: statuses, Key: f.step}
				if f.output.value == "json" {
					return p.showJSON(ctx, s, x, filter, &f)
				}
				return p.showText(ctx, s, x, filter, &f)
			})
		},
	}
	flags := cmd.Flags()
	p.settings.addDB(flags)
	flags.BoolVar(&f.outputs, "outputs", false, "show the steps' outputs too")
	flags.BoolVar(&f.all, "all", false, "show each iteration of for_each, also those that completed")
	flags.StringSliceVar(&f.statuses, "status", nil, "only steps with one of these `statuses`")
	flags.StringVar(&f.step, "step", "", "only the step with this `key`")
	f.output = format(flags, "text", "json")
	c.addServer(flags, f.output)
	return cmd
}

// hideSecrets replaces the values of parameters that the pipeline declares secret.
func hideSecrets(ctx context.Context, s store.Store, x *store.Execution) error {
	var params map[string]json.RawMessage
	if len(x.Params) == 0 {
		return nil
	}
	if err := json.Unmarshal(x.Params, &params); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	body, err := s.Definition(ctx, x.Definition)
	if err != nil {
		return err
	}
	d, err := definition.Decode(body)
	if err != nil {
		return err
	}
	for i := range d.Parameters {
		if _, given := params[d.Parameters[i].Name]; given && d.Parameters[i].Secret {
			params[d.Parameters[i].Name] = json.RawMessage(`"***"`)
		}
	}
	x.Params, err = json.Marshal(params)
	return err
}

// stepView is a step in `-o json`.
type stepView struct {
	Key      string              `json:"step_id"`
	Name     string              `json:"name,omitempty"`
	Action   string              `json:"action,omitempty"`
	Status   stepwell.StepStatus `json:"status"`
	Attempt  int                 `json:"attempt"`
	Worker   string              `json:"worker_id,omitempty"`
	Queued   *time.Time          `json:"queued_at"`
	Started  *time.Time          `json:"started_at"`
	Ended    *time.Time          `json:"ended_at"`
	Duration *int64              `json:"duration_ms"`
	Wake     *time.Time          `json:"until,omitempty"`
	Input    json.RawMessage     `json:"params,omitempty"`
	Outputs  json.RawMessage     `json:"outputs,omitempty"`
	Error    *engine.Failure     `json:"error,omitempty"`
	Items    *engine.Items       `json:"items,omitempty"` // of a stream step
}

func stepViewOf(s *store.Step) stepView {
	v := stepView{Key: s.Key, Name: s.Name, Action: s.Action, Status: s.Status, Attempt: s.Attempt, Worker: s.Worker, Queued: micro(s.Queued),
		Started: micro(s.Started), Ended: micro(s.Ended), Wake: micro(s.Wake), Input: s.Input, Error: s.Error, Items: s.Items()}
	if s.Started > 0 && s.Ended > 0 {
		ms := (s.Ended - s.Started) / 1000
		v.Duration = &ms
	}
	return v
}

func micro(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	return moment(time.UnixMicro(us))
}

// outputsOf is a step's outputs, fetched from the blobs when they are large.
func outputsOf(ctx context.Context, s store.Store, step *store.Step) (json.RawMessage, error) {
	if engine.IsRef(step.Output) {
		raw, err := s.Blobs().Load(ctx, string(step.Output))
		return secret.Mask(raw), err
	}
	return secret.Mask(step.Output), nil
}

func (p *program) showJSON(ctx context.Context, s store.Store, x *store.Execution, filter store.StepFilter, f *showFlags) error {
	out := executionOf(x)
	var err error
	if out.Outside, err = abandoned(ctx, s, x.No); err != nil {
		return err
	}
	for step, err := range allSteps(ctx, s, x.No, filter) {
		if err != nil {
			return err
		}
		v := stepViewOf(step)
		if f.outputs {
			if v.Outputs, err = outputsOf(ctx, s, step); err != nil {
				return err
			}
		}
		out.Steps = append(out.Steps, v)
	}
	return writeJSON(p.out, out)
}

// abandoned counts the work outside that ended steps have left and that is still to be stopped; at most 1,000.
func abandoned(ctx context.Context, s store.Store, no int64) (n int, err error) {
	rows, err := s.OutsideWork(ctx, no, store.OutsideWork{}, 1000)
	for i := range rows {
		if !rows[i].Held {
			n++
		}
	}
	return n, err
}

func (p *program) showText(ctx context.Context, s store.Store, x *store.Execution, filter store.StepFilter, f *showFlags) error {
	w := p.out
	fmt.Fprintf(w, "execution  %s\npipeline   %s\nstatus     %s\ncreated    %s, %s\nduration   %s\n", x.ID, printable(x.Pipeline), x.Status,
		x.Created.Local().Format(time.DateTime), x.Trigger, short(elapsed(x)))
	if x.Parent != "" {
		fmt.Fprintf(w, "retry of   %s\n", x.Parent)
	}
	if text := valueText(x.Params); len(x.Params) > 0 && text != "{}" {
		fmt.Fprintf(w, "params     %s\n", text)
	}
	if x.Failure != nil {
		writeFailure(w, "", "error", x.Failure)
	}
	if n, err := abandoned(ctx, s, x.No); err != nil {
		return err
	} else if n > 0 {
		fmt.Fprintf(w, "outside    stopping outside: the work of %d ended steps is still to be stopped\n", n)
	}
	if err := p.showSteps(ctx, s, x, filter, f); err != nil {
		return err
	}
	writeOutputs(w, x.Outputs)
	return nil
}

// showSteps is the table of the steps. Iterations that have nothing to tell are only counted.
func (p *program) showSteps(ctx context.Context, s store.Store, x *store.Execution, filter store.StepFilter, f *showFlags) error {
	t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "\nSTEP\tSTATUS\tATTEMPT\tDURATION\t")
	completed, queued := 0, 0
	for step, err := range allSteps(ctx, s, x.No, filter) {
		switch {
		case err != nil:
			return err
		case !f.all && iteration(step.Key) && step.Status == stepwell.StepCompleted:
			completed++
			continue
		case !f.all && unnamed(step.Key):
			queued++
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", oneLine(step.Key, 60), step.Status, positive(step.Attempt), stepDuration(step), strings.TrimSpace(remark(step)+" "+itemsText(step)))
		if f.outputs {
			raw, err := outputsOf(ctx, s, step)
			if err != nil {
				return err
			}
			if len(raw) > 0 {
				fmt.Fprintf(t, "  %s\n", oneLine(string(raw), 2000))
			}
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

// iteration says whether a key is that of an iteration, or of a step inside one. Keys of spawned
// steps end with anything after a colon.
func iteration(key string) bool {
	name, _, _ := strings.Cut(key, ":")
	return strings.Contains(name, "[")
}

func positive(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func stepDuration(s *store.Step) string {
	if s.Started == 0 || s.Ended == 0 {
		return ""
	}
	return short(time.Duration(s.Ended-s.Started) * time.Microsecond)
}

// remark is what else there is to say about a step, in one line.
func remark(s *store.Step) string {
	text := ""
	if s.Wake > 0 && !s.Status.Terminal() {
		text = "until " + time.UnixMicro(s.Wake).Local().Format(time.DateTime) + " "
	}
	if s.Error != nil {
		text += oneLine(s.Error.Message, 300)
		if s.Error.Hint != "" {
			text += " (" + oneLine(s.Error.Hint, 200) + ")"
		}
	}
	return strings.TrimSpace(text)
}
