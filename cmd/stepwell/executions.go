package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

func (p *program) newExecutionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "executions",
		Aliases: []string{"execution", "ex"},
		Short:   "Shows, steers and repeats executions",
		Long: "Shows, steers and repeats executions. An ID may be shortened to a beginning that no other has.\n\n" +
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

// reader opens the database for looking at it, beside whoever runs executions.
func (p *program) reader(ctx context.Context) (store.Store, error) {
	return app.OpenReader(ctx, p.settings.db, p.log())
}

// reading calls f with the database and the execution of the id.
func (p *program) reading(id string, f func(context.Context, store.Store, *store.Execution) error) (err error) {
	ctx := context.Background()
	s, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	x, err := s.Execution(ctx, id)
	if err != nil {
		return err
	}
	return f(ctx, s, x)
}

// execution is an execution in `-o json`.
type execution struct {
	ID       string                   `json:"id"`
	Pipeline string                   `json:"pipeline"`
	Status   stepwell.ExecutionStatus `json:"status"`
	Trigger  string                   `json:"trigger"`
	Parent   string                   `json:"parent,omitempty"`
	Params   json.RawMessage          `json:"params,omitempty"`
	Created  *time.Time               `json:"created_at"`
	Started  *time.Time               `json:"started_at"`
	Ended    *time.Time               `json:"ended_at"`
	Duration int64                    `json:"duration_ms"`
	Progress engine.Progress          `json:"progress"`
	Outputs  json.RawMessage          `json:"outputs,omitempty"`
	Error    *engine.Failure          `json:"error,omitempty"`
	Outside  int                      `json:"abandoned,omitempty"` // work outside that is still to be stopped
	Steps    []stepView               `json:"steps,omitempty"`
}

func executionOf(x *store.Execution) execution {
	return execution{ID: x.ID, Pipeline: x.Pipeline, Status: x.Status, Trigger: x.Trigger, Parent: x.Parent, Params: secret.Mask(x.Params), Created: moment(x.Created),
		Started: moment(x.Started), Ended: moment(x.Ended), Duration: elapsed(x).Milliseconds(), Progress: x.Progress, Outputs: secret.Mask(x.Outputs), Error: x.Failure}
}

// moment is a time as JSON shows it: UTC, milliseconds; null for none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

func (p *program) newListCommand() *cobra.Command {
	var filter store.Filter
	var statuses []string
	var output *choice
	var c connection
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Lists executions, newest first",
		Args:  arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) (err error) {
			if filter.Statuses, err = executionStatuses(statuses); err != nil {
				return err
			}
			if filter.Limit < 1 || filter.Limit > 1000 {
				return stepwell.Invalid("give a number from 1 to 1000", "limit: %d is out of range", filter.Limit)
			}
			if p.elsewhere(&c) {
				query := url.Values{}
				for key, v := range map[string]string{"status": strings.Join(statuses, ","), "pipeline": filter.Pipeline} {
					if v != "" {
						query.Set(key, v)
					}
				}
				return p.listThere(&c, query, filter.Limit)
			}
			return p.list(filter, output.value)
		},
	}
	f := cmd.Flags()
	p.settings.addDB(f)
	f.StringSliceVar(&statuses, "status", nil, "only those with one of these `statuses`")
	f.StringVar(&filter.Pipeline, "pipeline", "", "only those of the pipeline of this `name`")
	f.StringVar(&filter.Before, "before", "", "only those older than the execution with this `id`: the next page")
	f.IntVar(&filter.Limit, "limit", 50, "at most so many")
	output = format(f, "text", "json")
	c.addServer(f, output)
	return cmd
}

func executionStatuses(names []string) ([]stepwell.ExecutionStatus, error) {
	var out []stepwell.ExecutionStatus
	for _, name := range names {
		var s stepwell.ExecutionStatus
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return nil, stepwell.Invalid("the statuses are "+statusNames(func(i uint8) string { return stepwell.ExecutionStatus(i).String() }), "%s", err.Error())
		}
		out = append(out, s)
	}
	return out, nil
}

func stepStatuses(names []string) ([]stepwell.StepStatus, error) {
	var out []stepwell.StepStatus
	for _, name := range names {
		var s stepwell.StepStatus
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return nil, stepwell.Invalid("the statuses are "+statusNames(func(i uint8) string { return stepwell.StepStatus(i).String() }), "%s", err.Error())
		}
		out = append(out, s)
	}
	return out, nil
}

// statusNames lists the names of a kind of status.
func statusNames(name func(uint8) string) string {
	var names []string
	for i := uint8(0); ; i++ {
		if strings.HasPrefix(name(i), "status(") {
			return strings.Join(names, ", ")
		}
		names = append(names, name(i))
	}
}

func (p *program) list(filter store.Filter, output string) (err error) {
	ctx := context.Background()
	s, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	found, err := s.Executions(ctx, filter)
	if err != nil {
		return err
	}
	if output == "json" {
		list := make([]execution, len(found))
		for i := range found {
			list[i] = executionOf(&found[i])
			list[i].Params = nil // which of them are secret is in each pipeline's definition
		}
		return writeJSON(p.out, list)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(p.out, "no executions")
		return err
	}
	t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tPIPELINE\tSTATUS\tCREATED\tDURATION\tSTEPS")
	for i := range found {
		x := &found[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d/%d\n", x.ID, oneLine(x.Pipeline, 40), x.Status, x.Created.Local().Format(time.DateTime),
			short(elapsed(x)), x.Progress.Completed, x.Progress.Total)
	}
	return t.Flush()
}

// allSteps goes over an execution's steps page by page.
func allSteps(ctx context.Context, r stepReader, no int64, f store.StepFilter) iter.Seq2[*store.Step, error] {
	return func(yield func(*store.Step, error) bool) {
		f.From, f.Limit = 0, 1000
		for {
			page, err := r.Steps(ctx, no, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < f.Limit {
				return
			}
			f.From = page[len(page)-1].Idx + 1
		}
	}
}
