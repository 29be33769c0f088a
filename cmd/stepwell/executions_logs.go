package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// followInterval is how often the database is asked for more.
const followInterval = 250 * time.Millisecond

// page is how many lines or events are read at once.
const page = 1000

// logFlags are the flags of `executions logs`.
type logFlags struct {
	filter store.LogFilter
	level  choice
	since  time.Duration
	follow bool
	output *choice
}

func (p *program) newLogsCommand() *cobra.Command {
	var c connection
	f := logFlags{level: choice{"debug", []string{"debug", "info", "warning", "error"}}}
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Shows the lines that steps have logged",
		Args:  arguments(1, 1, "ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.filter.Tail < 0 || f.filter.Tail > 10_000 {
				return stepwell.Invalid("give a number from 0 to 10000", "tail: %d is out of range", f.filter.Tail)
			}
			if p.elsewhere(&c) {
				return p.logsThere(&c, args[0], &f)
			}
			return p.reading(args[0], func(ctx context.Context, s store.Store, x *store.Execution) error {
				return p.logs(ctx, s, x, &f)
			})
		},
	}
	flags := cmd.Flags()
	p.settings.addDB(flags)
	flags.StringVar(&f.filter.StepKey, "step", "", "only lines of the step with this `key`")
	flags.Var(&f.level, "level", "lines of this level and above")
	flags.IntVar(&f.filter.Tail, "tail", 0, "only the last so many lines")
	flags.DurationVar(&f.since, "since", 0, "only lines of the last so long, such as 10m")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on until the execution has ended")
	f.output = format(flags, "text", "json")
	c.addServer(flags, f.output)
	return cmd
}

func (p *program) logs(ctx context.Context, s store.Store, x *store.Execution, f *logFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	filter := f.filter
	filter.Level, filter.Limit = f.level.value, page
	if f.since > 0 {
		filter.Since = time.Now().Add(-f.since)
	}
	if f.filter.StepKey != "" {
		if err := knownStep(ctx, s, x, f.filter.StepKey); err != nil {
			return err
		}
	}
	for {
		over := x.Status.Terminal() // before reading: all lines are there when the end is
		if err := p.logPages(ctx, s, x.No, &filter, f.output.value); err != nil || !f.follow || over {
			return err
		}
		filter.Tail = 0
		select {
		case <-ctx.Done():
			return exitError(exitInterrupted)
		case <-time.After(followInterval):
		}
		var err error
		if x, err = s.Execution(ctx, x.ID); err != nil {
			return err
		}
	}
}

// logPages writes what there is, and moves the filter behind it.
func (p *program) logPages(ctx context.Context, s store.Store, no int64, filter *store.LogFilter, output string) error {
	for {
		if filter.Tail > 0 {
			filter.Limit = filter.Tail
		}
		lines, err := s.Logs(ctx, no, *filter)
		if err != nil {
			return err
		}
		for i := range lines {
			l := &lines[i]
			filter.After = l.Seq
			err = p.logLine(l, output)
			if err != nil {
				return err
			}
		}
		if len(lines) < page || filter.Tail > 0 {
			filter.Limit = page
			return nil
		}
	}
}

// logLine writes one line.
func (p *program) logLine(l *store.LogLine, output string) error {
	if output == "json" {
		l.At = l.At.UTC().Truncate(time.Millisecond)
		return lineEncoder(p.out).Encode(l)
	}
	_, err := fmt.Fprintf(p.out, "%s %-7s %s: %s%s\n", l.At.Local().Format("2006-01-02 15:04:05.000"), l.Level, printable(l.StepKey), oneLine(l.Message, 16<<10), attributes(l.Attrs))
	return err
}

// knownStep refuses a step that the execution does not have: no lines would be a misleading answer.
func knownStep(ctx context.Context, s store.Store, x *store.Execution, key string) error {
	found, err := s.Steps(ctx, x.No, store.StepFilter{Key: key, Limit: 1})
	if err == nil && len(found) == 0 {
		err = notFound("`stepwell executions show "+x.ID+"` lists the steps", "the execution has no step %q", key)
	}
	return err
}

func (p *program) newEventsCommand() *cobra.Command {
	var after int64
	var most int
	var output *choice
	cmd := &cobra.Command{
		Use:   "events ID",
		Short: "Shows everything that happened in an execution, in order",
		Args:  arguments(1, 1, "ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			if most < 0 {
				return stepwell.Invalid("", "limit: %d is less than nothing", most)
			}
			return p.reading(args[0], func(ctx context.Context, s store.Store, x *store.Execution) error {
				return p.events(ctx, s, x, after, most, output.value)
			})
		},
	}
	flags := cmd.Flags()
	p.settings.addDB(flags)
	flags.Int64Var(&after, "after", 0, "only events after this `version`")
	flags.IntVar(&most, "limit", 0, "at most so many; 0 for all")
	output = format(flags, "text", "json")
	return cmd
}

func (p *program) events(ctx context.Context, s store.Store, x *store.Execution, after int64, most int, output string) error {
	enc := lineEncoder(p.out)
	written := 0
	for {
		events, err := s.Events(ctx, x.No, after, page)
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			e := &events[i]
			after = e.Version
			if most > 0 && written == most {
				return nil
			}
			written++
			if output == "json" {
				e.At = e.At.UTC().Truncate(time.Millisecond)
				err = enc.Encode(e)
			} else {
				_, err = fmt.Fprintf(p.out, "%5d  %s  %-10s %s  %s\n", e.Version, e.At.Local().Format("15:04:05.000"), e.Type, printable(e.StepKey), oneLine(e.Detail, 300))
			}
			if err != nil {
				return err
			}
		}
	}
}
