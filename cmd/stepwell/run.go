package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/view"
)

// runFlags are the flags of `stepwell run`.
type runFlags struct {
	params     []string
	paramsFile string
	resume     bool
	dryRun     bool
	watch      bool
	failures   string
	summary    string
	noDB       bool
	server     string
	project    string
	record     string
	recordHTTP string
	replayHTTP string
	output     *choice
}

func (p *program) newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE [-p key=value…]",
		Short: "Run a pipeline file to its end, in this process",
		Long: "Run a pipeline file to its end, in this process, and show its progress: as a live tree on a terminal, as lines otherwise.\n\n" +
			"The first Ctrl-C lets running steps finish, the second stops them. Nothing is lost in either case: --resume continues the newest unfinished execution of the pipeline.\n\n" +
			"Relative paths in steps are relative to the working directory. A step `pipeline: other` runs other.yaml (.yml, .json) next to FILE; it may also name a path.\n\n" +
			"Exit codes: 0 completed, 1 failed, cancelled or timed out, 2 wrong input, 3 completed with\n" +
			"failures, 130 interrupted.",
		Example: "  stepwell run examples/quickstart.yaml\n  stepwell run examples/quickstart.yaml --watch\n  stepwell run examples/media-ingest.yaml -p card=/media/card",
		Args:    arguments(1, 1, "FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return p.run(args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.params, "param", "p", nil, "`key=value` of a parameter; lists and objects as JSON")
	flags.StringVar(&f.paramsFile, "params-file", "", "YAML or JSON `file` with parameters; -p counts more")
	flags.BoolVar(&f.resume, "resume", false, "continue with the newest unfinished execution of the pipeline")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and show the plan, but run nothing")
	flags.BoolVar(&f.watch, "watch", false, "run it again each time that it or a file it refers to has changed, until Ctrl-C")
	flags.StringVar(&f.project, "project", "", "`id` of a project whose processed items the execution counts")
	flags.StringVar(&f.record, "record", "", "write a test that plays the execution again into this `folder`, as test --from does")
	flags.StringVar(&f.recordHTTP, "record-http", "", "record requests and commands of steps, without secrets, in this `folder`")
	flags.StringVar(&f.replayHTTP, "replay-http", "", "answer requests and commands of steps from this `folder`: nothing is sent, no command runs")
	cmd.MarkFlagsMutuallyExclusive("record-http", "replay-http")
	flags.BoolVar(&f.noDB, "no-db", false, "keep nothing: no data directory, no history, no --resume")
	f.addReport(flags)
	f.output = format(flags, "text", "json")
	flags.StringVar(&f.server, "server", "", "`URL` of a server that runs it instead of this process")
	p.settings.addRun(flags)
	p.settings.addLenient(flags)
	return cmd
}

// addReport adds the flags about the report on items.
func (f *runFlags) addReport(flags *pflag.FlagSet) {
	flags.StringVar(&f.failures, "output-failures", "", "`file` for the report on failed items; defaults to failures.json when there are some")
	flags.StringVar(&f.summary, "output-summary", "", "`file` for a summary of the items; defaults to none")
}

// report hands the flags to the step that writes the report.
func (f *runFlags) report(d *definition.Definition) error {
	if f.failures == "" && f.summary == "" {
		return nil
	}
	for i := range d.Finally {
		s := &d.Finally[i]
		if s.Action != stream.ReportAction {
			continue
		}
		s.Params = maps.Clone(s.Params)
		if f.failures != "" {
			s.Params["failures"], s.Params["failures_always"] = f.failures, true
		}
		if f.summary != "" {
			s.Params["summary"] = f.summary
		}
		return nil
	}
	return stepwell.Invalid("leave the flag out", "the pipeline has no stream steps, and so no report on items")
}

func (p *program) run(file string, f *runFlags) error {
	if f.watch {
		return p.runAgain(file, f)
	}
	return p.runFile(file, f)
}

func (p *program) runFile(file string, f *runFlags) error {
	if f.server != "" && !f.dryRun && f.record+f.recordHTTP+f.replayHTTP == "" {
		return p.runThere(file, f)
	}
	d, actions, err := p.loadWithActions(file)
	if err != nil {
		return err
	}
	params, err := p.checked(d, f)
	if err != nil {
		return err
	}
	if err := f.report(d.def); err != nil {
		return err
	}
	var t *taping
	if f.record+f.recordHTTP+f.replayHTTP != "" {
		var done func()
		if t, done, err = p.record(f, file, d.def.Name); err != nil {
			return err
		}
		defer done()
		p.settings.taping = t
	}
	if f.dryRun {
		return p.showPlan(d.def, actions, f.output.value)
	}
	if f.noDB {
		done, err := p.forget(f)
		if err != nil {
			return err
		}
		defer done()
	}
	s, err := p.open(f.output.value, "stepwell run "+file+" --resume"+p.dbFlag())
	if err != nil {
		return err
	}
	if f.resume {
		return p.resumeNewest(s, d)
	}
	p.hintUnfinished(s, d)
	if t != nil && !t.replays {
		s.after = func(ctx context.Context, x *api.ExecutionDetail) error { return t.keep(ctx, s, x, file) }
	}
	return s.start(d.def, params, f.project)
}

// forget has the execution run in memory, and what belongs to it in a folder that done deletes.
func (p *program) forget(f *runFlags) (done func(), err error) {
	if f.resume || f.project != "" {
		return nil, stepwell.Invalid("leave one of them out", "--no-db keeps nothing: there is no execution to go on with, and no project")
	}
	dir, err := os.MkdirTemp("", "stepwell-run-")
	if err != nil {
		return nil, err
	}
	p.settings.memory, p.settings.data, p.settings.db = true, dir, app.Database(dir)
	return func() { os.RemoveAll(dir) }, nil // what cannot be deleted stays in the system's folder for temporary files
}

// runThere has a server run a pipeline file, and shows it as if it ran here.
func (p *program) runThere(file string, f *runFlags) error {
	if f.resume || f.noDB || f.failures != "" || f.summary != "" {
		return stepwell.Invalid("`stepwell executions resume ID --server …` continues with an execution", "--resume, --no-db, --output-failures and --output-summary are for executions of this process")
	}
	src, err := readFile(file, maxDocument)
	if err != nil {
		return err
	}
	d := &document{file: file}
	d.def, d.problems = definition.Parse(src, definition.ParseOptions{File: file, Lenient: p.settings.lenient, Sent: true})
	params, err := p.checked(d, f)
	if err != nil {
		return err
	}
	c := &connection{server: f.server, output: f.output, here: true, lasts: true}
	return p.calling(c, func(ctx context.Context, client *client.Client) error {
		var started api.Started
		body := object{"workflow_definition": string(src), "params": params}
		put(body, "project", f.project)
		if err := client.Call(ctx, "POST", pathTo("execute"), nil, body, &started); err != nil {
			return problemsIn(file, err)
		}
		s := &session{program: p, output: f.output.value, client: client, where: " --server " + f.server}
		s.resume = "stepwell executions show " + started.ID + " --follow" + s.where
		return s.watch(ctx, started.ID)
	})
}

// dbFlag repeats --data or --db in commands that are suggested; a URL without its password.
func (p *program) dbFlag() string {
	switch {
	case !p.settings.inFile():
		return " --db '" + p.settings.shownDB() + "'"
	case p.settings.data == app.DefaultData || p.settings.data == "" && p.settings.db == app.OldDatabase:
		return ""
	case p.settings.data != "":
		return " --data " + p.settings.data
	}
	return " --db " + p.settings.db
}

// checked reports the document's problems, then reads and checks the parameters.
func (p *program) checked(d *document, f *runFlags) (map[string]any, error) {
	if err := d.problems.Err(); err != nil {
		return nil, err
	}
	problems := d.problems
	if f.resume {
		if len(f.params) > 0 || f.paramsFile != "" || f.project != "" {
			return nil, stepwell.Invalid("leave them out, or start a new execution without --resume", "an execution that is resumed keeps its parameters and its project")
		}
		p.warn(problems)
		return nil, nil
	}
	given, err := readParams(d.def, f.params, f.paramsFile)
	if err != nil {
		return nil, err
	}
	params, wrong := definition.CheckParams(d.def, given)
	for i := range wrong {
		wrong[i].File = d.file
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	p.warn(append(problems, wrong...))
	return params, nil
}

func (p *program) warn(problems definition.Problems) {
	for _, problem := range problems {
		fmt.Fprintln(p.err, view.Printable(problem.String()))
	}
}

// unfinished finds the newest execution of a pipeline that has not ended.
func (s *session) unfinished(ctx context.Context, pipeline string) (*store.Execution, error) {
	list, err := s.app.Store.Executions(ctx, store.Filter{Pipeline: pipeline, Limit: 1, Statuses: []stepwell.ExecutionStatus{
		stepwell.ExecutionPending, stepwell.ExecutionRunning, stepwell.ExecutionPaused, stepwell.ExecutionCancelling}})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func (p *program) hintUnfinished(s *session, d *document) {
	x, err := s.unfinished(context.Background(), d.def.Name)
	if err == nil && x != nil { // a hint that cannot be given is no reason not to run
		fmt.Fprintf(p.err, "hint: execution %s of this pipeline is unfinished; --resume continues it\n", x.ID)
	}
}

func (p *program) resumeNewest(s *session, d *document) error {
	ctx := context.Background()
	x, err := s.unfinished(ctx, d.def.Name)
	if err == nil && x == nil {
		err = &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no execution of %q is unfinished", d.def.Name),
			Hint: "leave out --resume to start one; `stepwell executions list` shows those that have ended"}
	}
	if err != nil {
		return s.abandon(err)
	}
	if !s.runs(d.def, x) {
		fmt.Fprintf(p.err, "hint: %s has changed; the execution continues with what it was started with\n", d.file)
	}
	return s.steer(x.ID, &change{verb: "resume"})
}

// runs reports whether an execution runs a definition, as it says the same: comments do not count.
func (s *session) runs(d *definition.Definition, x *store.Execution) bool {
	stored, err := s.app.Store.Definition(context.Background(), x.Definition)
	if err != nil {
		return true // whatever continues the execution says so
	}
	plain := *d
	plain.Text = ""
	mine, err := definition.Encode(&plain)
	if err != nil {
		return true
	}
	rest, _, err := definition.Untold(stored)
	return err != nil || bytes.Equal(mine, rest)
}
