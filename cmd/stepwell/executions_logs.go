package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/view"
)

// logFlags are the flags of `executions logs`.
type logFlags struct {
	api.ListLogs
	level  choice
	since  time.Duration
	follow bool
}

func (p *program) newLogsCommand() *cobra.Command {
	c := &connection{here: true, newest: newestExecution}
	f := logFlags{level: choice{"debug", []string{"debug", "info", "warning", "error"}}}
	cmd := p.askingOver(c, "logs ID", "Show the lines that steps have logged", func(ctx context.Context, r *request) error {
		f.ID = r.args[0]
		return p.logs(ctx, r.client, c, &f)
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if f.Tail < 0 || f.Tail > 10_000 {
			return stepwell.Invalid("give a number from 0 to 10000", "tail: %d is out of range", f.Tail)
		}
		c.lasts = f.follow
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Step, "step", "", "only lines of the step with this `key`")
	flags.Var(&f.level, "level", "lines of this level and above")
	flags.IntVar(&f.Tail, "tail", 0, "only the last so many lines")
	flags.DurationVar(&f.since, "since", 0, "only lines of the last so long, such as 10m")
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue until the execution has ended")
	return cmd
}

// logs writes the lines that there are and then, if they are followed, those that come.
func (p *program) logs(ctx context.Context, server *client.Client, c *connection, f *logFlags) error {
	if f.level.value != "debug" { // the lowest
		f.Level = f.level.value
	}
	if f.since > 0 {
		f.Since = time.Now().Add(-f.since)
	}
	if f.Step != "" {
		if err := knownStep(ctx, server, f.ID, f.Step); err != nil {
			return err
		}
	}
	last := int64(0)
	for more := true; more; {
		page, err := server.Logs(ctx, f.ListLogs)
		if err != nil {
			return err
		}
		for i := range page.Logs {
			if err := p.logLine(&page.Logs[i], c.output.value); err != nil {
				return err
			}
			last = page.Logs[i].Seq
		}
		f.Cursor, more = page.Next, page.Next != ""
	}
	if !f.follow && last == 0 {
		x, err := server.Execution(ctx, f.ID)
		if err == nil {
			_, err = fmt.Fprintln(p.err, view.NoLogs(x, f.Step+f.Level != "" || f.since > 0))
		}
		return err
	}
	if !f.follow {
		return nil
	}
	o := client.StreamOptions{Step: f.Step, Level: f.Level, Since: feed.Cursor{Log: last}.String()}
	return follow(ctx, server, f.ID, o, func(m *client.StreamMessage) (ended bool, err error) { return p.followed(m, c.output.value) })
}

// logLine writes one line.
func (p *program) logLine(l *api.LogLine, output string) error {
	if output == "json" {
		return view.NewEncoder(p.out).Encode(l)
	}
	_, err := fmt.Fprintf(p.out, "%s %-7s %s: %s%s\n", l.Timestamp.Local().Format("2006-01-02 15:04:05.000 MST"), l.Level, view.Printable(l.Step), view.OneLine(l.Message, 16<<10), view.Attributes(l.Metadata))
	return err
}

// knownStep refuses a step that the execution does not have: no lines would be a misleading answer.
func knownStep(ctx context.Context, server *client.Client, id, key string) error {
	found, err := server.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Step: key, Limit: 1})
	if err != nil || len(found.Steps) > 0 {
		return err
	}
	hint := "`stepwell executions show " + id + "` lists the steps"
	all, err := server.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 1000})
	if err != nil {
		return err
	}
	var names []string
	for i := range all.Steps {
		names = append(names, all.Steps[i].ID)
	}
	return notFound(cmp.Or(spec.DidYouMean(key, names), hint), "the execution has no step %q", key)
}

// followed writes the log line of a message; ended says that it is the last message.
func (p *program) followed(m *client.StreamMessage, output string) (ended bool, err error) {
	switch m.Type {
	case feed.TypeComplete:
		return true, nil
	case feed.TypeLog:
		l := api.LogLine{Metadata: json.RawMessage("{}")}
		at, _ := feed.ParseCursor(m.Seq) // a line's place in the stream ends with its number
		if err := json.Unmarshal(m.Data, &l); err != nil {
			return false, fmt.Errorf("stream: %w", err)
		}
		l.Seq = at.Log
		return false, p.logLine(&l, output)
	}
	return false, nil
}

func (p *program) newEventsCommand() *cobra.Command {
	f := api.ListHistory{Limit: 1000}
	var most int
	cmd := p.askingOver(&connection{here: true, newest: newestExecution}, "events ID", "Show everything that happened in an execution, in order", func(ctx context.Context, r *request) error {
		if most < 0 {
			return stepwell.Invalid("", "limit: %d is less than nothing", most)
		}
		f.ID = r.args[0]
		return p.events(ctx, r.client, r.connection, f, most)
	})
	flags := cmd.Flags()
	flags.Int64Var(&f.After, "after", 0, "only events after this `version`")
	flags.IntVar(&most, "limit", 0, "at most so many; 0 for all")
	return cmd
}

func (p *program) events(ctx context.Context, server *client.Client, c *connection, f api.ListHistory, most int) error {
	enc := view.NewEncoder(p.out)
	written := 0
	for {
		page, err := server.History(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Events {
			e := &page.Events[i]
			if most > 0 && written == most {
				return nil
			}
			written++
			if c.output.value == "json" {
				err = enc.Encode(e)
			} else {
				_, err = fmt.Fprintf(p.out, "%5d  %s  %-10s %s  %s\n", e.Version, e.At.Local().Format("2006-01-02 15:04:05.000 MST"), e.Type, view.Printable(e.Step), view.OneLine(e.Detail, 300))
			}
			if err != nil {
				return err
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}
