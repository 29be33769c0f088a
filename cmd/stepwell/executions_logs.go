package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
	level        choice
	since, until moment
	attempt      string
	follow       bool
}

// moment is a flag: a time, or how long ago it was. Empty: none.
type moment string

func (m moment) at(flag string, now time.Time) (time.Time, error) {
	if m == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(string(m)); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, string(m))
	if err != nil {
		return at, stepwell.Invalid("such as 10m, or 2026-11-29T08:00:00Z", "%s: %q is no time, and not how long ago it was", flag, stepwell.Clip(string(m), 40))
	}
	return at, nil
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
		switch {
		case f.attempt != "" && f.Step == "":
			return stepwell.Invalid("say of which step: --step KEY", "--attempt is given without --step")
		case f.attempt != "" && f.since+f.until != "":
			return stepwell.Invalid("leave out one of them", "--attempt has a time of its own, beside --since or --until")
		case f.follow && f.attempt+string(f.until) != "":
			return stepwell.Invalid("leave out one of them", "--follow goes on to the end, --attempt and --until do not")
		}
		c.lasts = f.follow
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Step, "step", "", "only lines of the step with this `key`")
	flags.Var(&f.level, "level", "lines of this level and above")
	flags.IntVar(&f.Tail, "tail", 0, "only the last so many lines")
	flags.StringVar((*string)(&f.since), "since", "", "only lines from this `time` on: 2026-11-29T08:00:00Z, or so long ago, such as 10m")
	flags.StringVar((*string)(&f.until), "until", "", "only lines before this `time`, given as with --since")
	flags.StringVar(&f.attempt, "attempt", "", "only lines of this attempt of --step, by its `number`; of one that waited and went on, 2.2 is what came after")
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue until the execution has ended")
	return cmd
}

// logs writes the lines that there are and then, if they are followed, those that come.
func (p *program) logs(ctx context.Context, server *client.Client, c *connection, f *logFlags) error {
	if f.level.value != "debug" { // the lowest
		f.Level = f.level.value
	}
	now := time.Now()
	var err error
	if f.Since, err = f.since.at("--since", now); err != nil {
		return err
	}
	if f.Until, err = f.until.at("--until", now); err != nil {
		return err
	}
	if f.Step != "" {
		if err := knownStep(ctx, server, f.ID, f.Step); err != nil {
			return err
		}
	}
	begun := true
	if f.attempt != "" {
		if begun, err = f.during(ctx, server); err != nil {
			return err
		}
	}
	last := int64(0)
	for more := begun; more; {
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
			_, err = fmt.Fprintln(p.err, view.NoLogs(x, f.Step+f.Level+string(f.since+f.until) != ""))
		}
		return err
	}
	if !f.follow {
		return nil
	}
	o := client.StreamOptions{Step: f.Step, Level: f.Level, Since: feed.Cursor{Log: last}.String()}
	return follow(ctx, server, f.ID, o, func(m *client.StreamMessage) (ended bool, err error) { return p.followed(m, c.output.value) })
}

// during sets the time to that in which the attempt ran. False: it has not begun. The numbers that lines have themselves are others where
// attempts did not count, or the step was restarted.
func (f *logFlags) during(ctx context.Context, server *client.Client) (bool, error) {
	number, part, _ := strings.Cut(f.attempt, ".")
	n, err := strconv.Atoi(number)
	nth, err2 := strconv.Atoi(cmp.Or(part, "1"))
	if err != nil || err2 != nil || n < 1 || nth < 1 {
		return false, stepwell.Invalid("such as 2, or 2.2", "--attempt: %q is no number of an attempt", stepwell.Clip(f.attempt, 40))
	}
	in := api.ListAttempts{ExecutionPath: f.ExecutionPath, Step: f.Step, Limit: 1000}
	for {
		page, err := server.Attempts(ctx, in)
		if err != nil {
			return false, err
		}
		for i := range page.Attempts {
			a := &page.Attempts[i]
			if a.Number == n {
				nth--
			}
			if a.Number != n || nth > 0 {
				continue
			}
			if f.Since = a.Started.Time; !a.Ended.IsZero() {
				f.Until = a.Ended.Add(time.Millisecond) // they are told in milliseconds
			}
			return !f.Since.IsZero(), nil
		}
		if in.Cursor = page.Next; page.Next == "" {
			return false, notFound("`stepwell executions show "+f.ID+"` shows how many there were", "the step %q has no attempt %s", f.Step, f.attempt)
		}
	}
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
