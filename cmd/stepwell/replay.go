package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/rehearsal"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/spec"
)

// replayFlags are those of commands that play recorded executions with another definition.
type replayFlags struct {
	with    string
	unknown choice
	flags   *pflag.FlagSet
}

func (f *replayFlags) add(p *program, flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVar(&f.with, "with", "", "`file` of the definition to play with")
	f.unknown = choice{"empty", []string{"empty", "fail"}}
	flags.IntVar(&p.settings.workers, "workers", usualWorkers(), "how many steps run at once now, which durations depend on; if it is not given, as many as then")
	flags.Var(&f.unknown, "unknown", "what becomes of steps that did not run then: they complete without outputs, or fail")
}

func (p *program) newReplayCommand() *cobra.Command {
	var f replayFlags
	c := &connection{here: true, newest: newestExecution, own: func(flags *pflag.FlagSet) { f.add(p, flags) }}
	cmd := p.askingOver(c, "replay ID", "Show what would come of an execution with another definition", func(ctx context.Context, r *request) error {
		play, err := p.player(&f)
		if err != nil {
			return err
		}
		out, err := play.Replay(ctx, r.client, r.args[0])
		if err != nil {
			return err
		}
		return r.show(out, func() error { return out.WriteText(p.out) })
	})
	cmd.Long = "Play an execution that has ended with the definition in a file, in memory and in no time. Steps get the\n" +
		"outcomes and the durations that they had, by their keys; steps whose actions change nothing outside run. What nobody can know\n" +
		"is told: a step that would be called with other params is assumed to end as it did, and a step that did not\n" +
		"run then is unknown.\n\nNothing outside is called, and the execution stays as it is."
	cmd.Example = "  stepwell executions replay last --with nightly.yaml\n  stepwell executions replay 01a2 --with nightly.yaml --unknown fail"
	return cmd
}

// maxBacktest bounds the executions of a backtest.
const maxBacktest = 100_000

func (p *program) newBacktestCommand() *cobra.Command {
	var f replayFlags
	var last int
	var since string
	c := &connection{here: true, lasts: true, own: func(flags *pflag.FlagSet) {
		f.add(p, flags)
		flags.IntVar(&last, "last", 200, "play the newest `n` executions that have ended")
		flags.StringVar(&since, "since", "", "only those created since a `time`: 30d, 36h, or like 2026-11-01T00:00:00Z")
	}}
	cmd := p.askingOver(c, "backtest NAME", "Show which past executions another definition would have changed", func(ctx context.Context, r *request) error {
		if last < 1 || last > maxBacktest {
			return stepwell.Invalid(fmt.Sprintf("give a number from 1 to %d", maxBacktest), "--last is %d", last)
		}
		from, err := sinceOf(since, time.Now())
		if err != nil {
			return err
		}
		play, err := p.player(&f)
		if err != nil {
			return err
		}
		report, err := play.Backtest(ctx, r.client, r.args[0], last, from)
		if err != nil {
			return err
		}
		return r.show(report, func() error { return report.WriteText(p.out) })
	})
	cmd.Long = "Play the past executions of a pipeline with the definition in a file (see `stepwell executions replay`), and\n" +
		"tell which of them would have gone another way, and how long all would have taken."
	cmd.Example = "  stepwell pipelines backtest nightly --with nightly.yaml --since 30d\n  stepwell pipelines backtest nightly --with nightly.yaml --last 1000 -o json"
	return cmd
}

// sinceOf reads a time, or how long ago it was; "" is the zero time.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := spec.ParseDuration(text)
	if err != nil || ago <= 0 {
		return time.Time{}, stepwell.Invalid("give a time such as 2026-11-28T09:30:00Z, or how long ago: 30d, 36h", "--since %q is neither a time nor a duration", text)
	}
	return now.Add(-ago), nil
}

// player plays executions with the definition in a file.
func (p *program) player(f *replayFlags) (*rehearsal.Player, error) {
	if f.with == "" {
		return nil, stepwell.Invalid("name the file with the changed definition: --with nightly.yaml", "--with is missing")
	}
	p.moreGarbage(documentGarbage)
	actions, err := p.registry()
	if err != nil {
		return nil, err
	}
	d, err := p.load(f.with, actions)
	if err == nil {
		err = d.problems.Err()
	}
	if err != nil {
		return nil, err
	}
	how := scenario.ReplayOptions{Is: d.def, Fails: f.unknown.value == "fail", Workers: p.settings.workers}
	if f.flags.Changed("workers") {
		how.Workers, how.NowWorkers = usualWorkers(), p.settings.workers
	}
	return &rehearsal.Player{Actions: actions, How: how, Runner: func() (*scenario.Runner, func(), error) {
		return p.testRunner(&testFlags{unmocked: &choice{value: "fail"}})
	}}, nil
}
