package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/lab"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/view"
)

// labFlags are the flags of `stepwell lab`.
type labFlags struct {
	run    string
	budget time.Duration
	seed   uint64
	replay string
	output *choice
}

func (p *program) newLabCommand() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab [PATH…]",
		Short: "Crash the tests of pipelines at every point, and tell which steps ran twice",
		Long: "Run each test in files NAME.test.yaml, in and below the paths, again and again (docs/testing.md): the\n" +
			"process dies at each transition, workers are lost, messages come twice or late, the store refuses, and\n" +
			"what happens at one time happens in other orders. Every run must end as the undisturbed one does; a step\n" +
			"that ran twice is told unless the pipeline says that it may. Nothing outside is called.\n\n" +
			"Exit codes: 0 nothing was found, 1 a step ran twice or a run ended in another way, 2 wrong input,\n" +
			"4 a rule of Stepwell itself was broken.",
		Example: "  stepwell lab\n  stepwell lab nightly.test.yaml --run 'third attempt'\n  stepwell lab nightly.test.yaml --replay 'dies@after-report:deploy#1'",
		Args:    arguments(0, -1, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return p.lab(ctx, args, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.run, "run", "", "only the tests whose names match the regular `expression`")
	flags.DurationVar(&f.budget, "budget", 10*time.Second, "the `time` after which no more runs of a test begin")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that chooses pairs of faults, and orders")
	flags.StringVar(&f.replay, "replay", "", "run the one `schedule` that a report names, and show what happened")
	f.output = format(flags, "text", "json")
	p.settings.addLenient(flags)
	return cmd
}

// exitBroken is the exit code when a rule of Stepwell itself was broken.
const exitBroken = 4

func (p *program) lab(ctx context.Context, paths []string, f *labFlags) error {
	only, tests, err := p.readTests(paths, f.run)
	if err != nil {
		return err
	}
	l, err := lab.New(lab.Options{Budget: f.budget, Seed: f.seed, Replay: f.replay, Runner: func() (*scenario.Runner, func(), error) {
		return p.testRunner(&testFlags{unmocked: &choice{value: "fail"}})
	}})
	if err != nil {
		return err
	}
	defer l.Close()
	report := &lab.Report{Tests: []*lab.Result{}}
	for _, t := range tests {
		if !only.MatchString(t.Name) || t.Pipeline == "" { // the test of a schedule runs nothing
			continue
		}
		res, err := l.Run(ctx, t)
		if err != nil {
			return errors.Join(stepwell.Invalid("make the test pass first: stepwell test "+t.File, "%s: %q cannot be run", t.File, t.Name), err)
		}
		report.Tests = append(report.Tests, res)
	}
	if len(report.Tests) == 0 {
		return notFound("", "no test of a pipeline has a name that matches %q", f.run)
	}
	if f.output.value == "json" {
		err = view.WriteJSON(p.out, report)
	} else {
		err = report.WriteText(p.out)
	}
	switch {
	case err != nil:
		return err
	case report.Worst() == lab.Broken:
		return exitError(exitBroken)
	case report.Worst() != "":
		return exitError(exitFailed)
	}
	return nil
}
