package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/view"
)

// testFlags are the flags of `stepwell test`.
type testFlags struct {
	run      string
	update   bool
	coverage float64
	junit    string
	seed     uint64
	watch    bool
	verbose  bool
	to       string // the file that is written; "": standard output
	from     string
	replay   string // the folder of --replay-http
	check    string
	unmocked *choice
	output   *choice

	// Of the lab: steps whose actions run, and the hosts that requests go to; nil: all that the settings allow.
	real, allow []string
}

func (p *program) newTestCommand() *cobra.Command {
	var f testFlags
	c := &connection{here: true, newest: newestExecution}
	cmd := &cobra.Command{
		Use:   "test [PATH…]",
		Short: "Test pipelines without what they call, and without waiting",
		Long: "Run the tests in files NAME.test.yaml, in and below the paths (docs/testing.md). The pipelines run with\n" +
			"the engine of a server, in memory: steps end as the test's mocks say, and the clock jumps, so that\n" +
			"retries, waits and timeouts of days take no time. Nothing outside is called unless a test says so.\n\n" +
			"Exit codes: 0 all tests passed, 1 some failed or --min-coverage is not reached, 2 wrong input.",
		Example: "  stepwell test\n  stepwell test nightly.test.yaml -v\n  stepwell test pipelines --min-coverage 80 --junit report.xml\n  stepwell test --from 01a2 > nightly.test.yaml",
		Args:    arguments(0, -1, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.from != "" {
				if len(args) > 0 {
					return stepwell.Invalid("leave one of them out", "--from writes a test, and runs none")
				}
				return p.testFrom(c, f.from, f.to)
			}
			if f.to != "" {
				return stepwell.Invalid("name the execution: --from ID", "--to is the file that --from writes")
			}
			if len(args) == 0 {
				args = []string{"."}
			}
			if f.watch {
				return p.testAgain(args, &f)
			}
			return p.test(context.Background(), args, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.run, "run", "", "run only the tests whose names match the regular `expression`")
	flags.BoolVar(&f.update, "update", false, "record snapshots anew")
	flags.Float64Var(&f.coverage, "min-coverage", 0, "fail when the tests see fewer than so many `percent` of a pipeline's decisions")
	flags.StringVar(&f.junit, "junit", "", "also write the report to a `file`, in JUnit's XML")
	flags.Uint64Var(&f.seed, "seed", 0, "`number` that chooses the order of what happens at one time; 0 is that of dispatch")
	flags.BoolVar(&f.watch, "watch", false, "test again each time that a test or a pipeline has changed, until Ctrl-C")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "name tests that passed, and decisions that no test has seen")
	flags.StringVar(&f.to, "to", "", "with --from, write the test into this `file`, and outputs of more than 16 KiB into files beside it")
	flags.StringVar(&f.from, "from", "", "write a test that plays the `execution` with this id again, and run nothing")
	flags.StringVar(&f.replay, "replay-http", "", "answer requests and commands of steps that run for real from this `folder` (run --record-http)")
	flags.StringVar(&f.check, "check", "", "with --replay-http, warn of recordings older than this `age`, such as 36h, 1d or 2w")
	flags.StringVar(&c.server, "server", "", "`URL` of the server that has the execution of --from")
	f.unmocked = &choice{"fail", []string{"fail", "empty", "real"}}
	flags.Var(f.unmocked, "unmocked", "what becomes of steps without a mock, where the test does not say it:\nfail the test, complete with empty outputs, or run for real")
	f.output = format(flags, "text", "json")
	p.settings.addDB(flags)
	p.settings.addLenient(flags)
	c.flags = flags
	return cmd
}

// moreGarbage lets so many percent of what lives lie about as garbage, unless somebody has said otherwise: what is small and short-lived
// costs less then.
func (p *program) moreGarbage(percent int) {
	if _, set := p.env("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
}

const (
	documentGarbage = 400 // of documents and replays: they are read, and nothing of them stays
	worldGarbage    = 800 // of worlds, which live for milliseconds beside the descriptions of all actions, which stay
)

// readTests reads the tests in and below the paths, and what their names must match.
func (p *program) readTests(paths []string, run string) (only *regexp.Regexp, tests []*scenario.Test, err error) {
	only, err = regexp.Compile(run)
	if err != nil {
		return nil, nil, stepwell.Invalid("", "--run: %v", err)
	}
	files, err := testFiles(paths)
	if err != nil {
		return nil, nil, err
	}
	tests, problems, err := parseTests(files)
	if err == nil {
		err = problems.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	p.warn(problems)
	return only, tests, nil
}

// test runs all tests and writes the report.
func (p *program) test(ctx context.Context, paths []string, f *testFlags) error {
	p.moreGarbage(worldGarbage)
	only, tests, err := p.readTests(paths, f.run)
	if err != nil {
		return err
	}
	tests = slices.DeleteFunc(tests, func(t *scenario.Test) bool { return !only.MatchString(t.Name) })
	if len(tests) == 0 {
		return notFound("", "no test has a name that matches %q", f.run)
	}
	if err := p.checkRecordings(f); err != nil {
		return err
	}
	report, err := p.testAll(ctx, tests, f)
	if err != nil {
		return err
	}
	if err := p.writeReport(report, f); err != nil {
		return err
	}
	return p.verdict(report, f)
}

// checkRecordings looks at the folder of --replay-http.
func (p *program) checkRecordings(f *testFlags) error {
	if f.replay == "" {
		if f.check != "" {
			return stepwell.Invalid("name the folder: --replay-http DIR", "--check is of recordings")
		}
		return nil
	}
	names, err := allRecordings(f.replay)
	if err == nil && len(names) == 0 {
		err = noRecordings(f.replay)
	}
	if err != nil || f.check == "" {
		return err
	}
	return p.checkAge(f.replay, f.check)
}

// testsForCore is how many tests are worth another core.
const testsForCore = 20

// testAll runs tests, on all cores unless they do something outside or rewrite snapshots. The report has them in order.
func (p *program) testAll(ctx context.Context, tests []*scenario.Test, f *testFlags) (*scenario.Report, error) {
	cores := min(runtime.GOMAXPROCS(0), 1+len(tests)/testsForCore)
	if f.update || slices.ContainsFunc(tests, func(t *scenario.Test) bool { return t.RunsForReal(f.unmocked.value) }) {
		cores = 1
	}
	runners, results := make([]*scenario.Runner, cores), make([]*scenario.Result, len(tests))
	var next atomic.Int64
	group, within := errgroup.WithContext(ctx)
	for i := range runners {
		group.Go(func() error {
			runner, done, err := p.testRunner(f)
			if err != nil {
				return err
			}
			defer done()
			runners[i] = runner
			for {
				n := int(next.Add(1)) - 1
				if n >= len(tests) {
					return nil
				}
				if results[n], err = runner.Run(within, tests[n]); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	report := &scenario.Report{Tests: []*scenario.Result{}}
	for _, r := range results {
		report.Add(r)
	}
	for _, r := range runners[1:] {
		runners[0].Merge(r)
	}
	if report.Coverage = runners[0].Coverage(); report.Coverage == nil {
		report.Coverage = []scenario.Coverage{}
	}
	return report, nil
}

func (p *program) writeReport(report *scenario.Report, f *testFlags) error {
	if f.junit != "" {
		file, err := os.Create(f.junit)
		if err != nil {
			return fileError(f.junit, err)
		}
		if err := errors.Join(report.WriteJUnit(file), file.Close()); err != nil {
			return err
		}
	}
	if f.output.value == "json" {
		return view.WriteJSON(p.out, report)
	}
	return report.WriteText(p.out, f.verbose)
}

// verdict is the exit code.
func (p *program) verdict(report *scenario.Report, f *testFlags) error {
	bad := report.Failed > 0
	for i := range report.Coverage {
		if c := &report.Coverage[i]; c.Percent() < f.coverage {
			bad = true
			fmt.Fprintf(p.err, "stepwell: %s: %.1f %% of its decisions are covered, --min-coverage asks for %g %%\n", c.Pipeline, c.Percent(), f.coverage)
			for _, m := range c.Missing {
				fmt.Fprintln(p.err, "    "+view.Printable(m))
			}
		}
	}
	if bad {
		return exitError(exitFailed)
	}
	return nil
}

// testFiles finds test files: those named, and all in and below the folders named. Folders whose names begin with a dot are left out.
func testFiles(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fileError(path, err)
		}
		if !info.IsDir() {
			if !isTest(path) {
				return nil, stepwell.Invalid("name a file NAME.test.yaml, or a folder", "%s is not a test file", path)
			}
			files = append(files, path)
			continue
		}
		err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fileError(name, err)
			case e.IsDir() && name != path && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules"):
				return fs.SkipDir
			case !e.IsDir() && isTest(name):
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		return nil, notFound("a test file is called NAME.test.yaml", "there are no tests in %s", strings.Join(paths, ", "))
	}
	return files, nil
}

func isTest(name string) bool {
	return slices.ContainsFunc(scenario.Suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// parseTests reads all files, and finds what is wrong with any of them.
func parseTests(files []string) (tests []*scenario.Test, problems definition.Problems, err error) {
	for _, file := range files {
		src, err := readFile(file, maxDocument)
		if err != nil {
			return nil, nil, err
		}
		list, wrong := scenario.Parse(file, src)
		tests, problems = append(tests, list...), append(problems, wrong...)
	}
	return tests, problems, nil
}

// testRunner makes the runner. done deletes what it has written.
func (p *program) testRunner(f *testFlags) (_ *scenario.Runner, done func(), err error) {
	dir, err := os.MkdirTemp("", "stepwell-test-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { os.RemoveAll(dir) } // what cannot be deleted stays in the system's folder for temporary files
	streams, clock := &scenario.Streams{Dir: filepath.Join(dir, "streams")}, &sim.Clock{}
	var begin func(string, []string)
	var t *taping
	if f.replay != "" {
		t = newTaping(f.replay, true)
		begin = t.begin
	}
	actions, err := p.testActions(streams, clock, f.allow, t)
	if err != nil {
		done()
		return nil, nil, err
	}
	load := func(file string) (*definition.Definition, definition.Problems, error) {
		d, err := p.load(file, actions)
		if err != nil {
			return nil, nil, err
		}
		return d.def, d.problems, nil
	}
	return scenario.NewRunner(scenario.Options{Actions: actions, Clock: clock, Streams: streams, Load: load, Update: f.update, Unmocked: f.unmocked.value, Seed: f.seed, Real: f.real, Begin: begin, Recorded: t != nil}), done, nil
}

// testActions are the actions that go with the settings, by the clock of the tests and with their streams. Requests go only to the hosts
// in only; nil: to all that the settings allow. t answers them, unless it is nil.
func (p *program) testActions(streams *scenario.Streams, clock *sim.Clock, only []string, t *taping) (*action.Registry, error) {
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	if only != nil {
		o.HTTP.OnlyHosts, o.HTTP.AllowHosts = only, append(slices.Clone(o.HTTP.AllowHosts), only...)
	}
	if t != nil {
		o.Tape, o.Replay = t.tape, true
	}
	o.Now, o.Checkpoints, o.Replace = clock.Now, streams.Dir, streams.Replace
	return app.Actions(o)
}

// testAgain tests, and again each time that something has changed, until it is interrupted.
func (p *program) testAgain(paths []string, f *testFlags) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		files := p.filesOfTests(paths)
		before := stampsOf(files)
		code := p.exit(p.test(ctx, paths, f))
		if ctx.Err() == nil {
			fmt.Fprintf(p.err, "\nwatching %d files: the tests run again when one changes (Ctrl-C ends)\n", len(files))
		}
		if !awaitChange(ctx, files, before) {
			if code == exitOK {
				return nil
			}
			return exitError(code)
		}
	}
}

// filesOfTests are the files that tests depend on: their own, the pipelines and those that these run.
func (p *program) filesOfTests(paths []string) (all []string) {
	files, err := testFiles(paths)
	if err != nil {
		return paths // the run says what is wrong
	}
	for _, file := range files {
		all = append(all, file)
		src, err := readFile(file, maxDocument)
		if err != nil {
			continue
		}
		tests, _ := scenario.Parse(file, src)
		for _, t := range tests {
			if t.Pipeline != "" && !slices.Contains(all, t.Pipeline) {
				all = append(all, p.filesOf(t.Pipeline, "")...)
			}
		}
	}
	return all
}
