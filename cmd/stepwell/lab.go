package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/child"
	"github.com/stepwell/stepwell/lab"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/view"
)

// labFlags are the flags of `stepwell lab`.
type labFlags struct {
	run    string
	budget time.Duration
	seed   uint64
	replay string
	real   []string
	allow  []string
	kill   bool
	life   string
	store  *choice
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
	flags.StringSliceVar(&f.real, "real", nil, "`steps` whose actions really run, in a copy of the pipeline's folder: each also twice,\nwhich must leave what once leaves")
	flags.StringSliceVar(&f.allow, "allow", nil, "`hosts` that steps of --real may send HTTP requests to; others are refused, or answered\nby http.replay of the settings")
	flags.BoolVar(&f.kill, "kill", false, "kill processes that have their database on disk, and let others take over, instead of simulating it")
	f.store = &choice{"memory", []string{"memory", "sqlite"}}
	flags.Var(f.store, "store", "where the simulated runs keep their data: memory, or sqlite in temporary folders, which is slower")
	flags.StringVar(&f.life, "life", "", "be a process of a run with --kill, in this `folder`")
	_ = flags.MarkHidden("life") // it is there
	f.output = format(flags, "text", "json")
	p.settings.addLenient(flags)
	return cmd
}

// more are the flags that a replay needs, too.
func (f *labFlags) more() (s string) {
	for _, name := range f.real {
		s += " --real '" + name + "'"
	}
	for _, host := range f.allow {
		s += " --allow '" + host + "'"
	}
	if f.kill {
		s += " --kill"
	}
	if f.store.value != "memory" {
		s += " --store " + f.store.value
	}
	return s
}

// onDisk opens the database in a folder.
func onDisk(dir string) func(context.Context, func() time.Time) (store.Store, error) {
	return func(ctx context.Context, now func() time.Time) (store.Store, error) {
		return sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "store.db"), Exclusive: true, Synchronous: "normal", Now: now})
	}
}

// anotherLife runs this command in another process, which is told in which folder it lives: there is all that it leaves when it is killed.
func anotherLife(ctx context.Context, dir string) (said string, err error) {
	c, err := child.Start("", []string{"TMPDIR=" + dir, "TMP=" + dir, "TEMP=" + dir}, append(slices.Clone(os.Args[1:]), "--life", dir)...)
	if err != nil {
		return "", err
	}
	select {
	case <-c.Ended():
		return c.Said(), nil
	case <-ctx.Done():
		c.Kill()
		return "", context.Cause(ctx)
	}
}

// life is one of the two processes of a killed run.
func (p *program) life(ctx context.Context, tests []*scenario.Test, dir string, o lab.Options) error {
	job, err := lab.ReadJob(dir)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(tests, job.Is)
	if i < 0 {
		return notFound("", "%s has no test %q any more", job.File, job.Name)
	}
	o.Workers = 1
	l, err := lab.New(o)
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Life(ctx, tests[i], dir)
}

// exitBroken is the exit code when a rule of Stepwell itself was broken.
const exitBroken = 4

func (p *program) lab(ctx context.Context, paths []string, f *labFlags) error {
	p.moreGarbage(worldGarbage)
	if len(f.allow) > 0 && len(f.real) == 0 {
		return stepwell.Invalid("name the steps: --real deploy", "--allow is for the requests of steps that really run")
	}
	only, tests, err := p.readTests(paths, f.run)
	if err != nil {
		return err
	}
	o := lab.Options{Budget: f.budget, Seed: f.seed, Replay: f.replay, Real: len(f.real) > 0 && !f.kill, Kill: f.kill && f.life == "", Flags: f.more(), Process: anotherLife, Runner: func() (*scenario.Runner, func(), error) {
		return p.testRunner(&testFlags{unmocked: &choice{value: "fail"}, real: f.real, allow: append([]string{}, f.allow...)})
	}}
	if f.store.value == "sqlite" || f.life != "" {
		o.Store = onDisk
	}
	if f.life != "" {
		return p.life(ctx, tests, f.life, o)
	}
	l, err := lab.New(o)
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
