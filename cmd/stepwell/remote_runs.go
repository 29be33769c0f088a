package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newPipelineRunsCommand() *cobra.Command {
	r := &resource{path: "pipeline-runs", items: "data", what: "pipeline run",
		columns: []view.Column{{"ID", "id"}, {"STATUS", "status"}, {"LESSON", "lesson.id"}, {"PROJECT", "lesson.project.id"}, {"PIPELINE", "pipeline_version.title"}, {"VERSION", "pipeline_version.version"},
			{"CREATED", "created_at"}},
		filters: []filter{{"lesson", "lesson_id", "only those for the `lesson`"}, {"project", "project_id", "only those for lessons of the `project`"},
			{"version", "pipeline_version_id", "only those of the `version`: the pipeline's id, a colon and the number"}, {"status", "status", "only those with the `status`: queued, running, paused, failed or done"}}}
	queue := *r
	queue.path, queue.filters = "pipeline-runs/queue", nil
	queued := p.listing(&queue, "List the runs that are queued or running, oldest first")
	queued.Use = "queue"
	return p.group("runs", []string{"pipeline-runs"}, "Run lessons through pipelines", "Run lessons, or all lessons of a project, through the steps of a sequential pipeline. RUN is the id of\na run, or last for the newest one.",
		p.newRunsStartCommand(), p.listing(r, "List the runs, newest first"), queued, p.newRunShowCommand(r), p.newRunResultCommand(r), p.newRunRestartCommand(r),
		p.changingRun(r, "pause", "pause", "Let the running step finish and start no other"),
		p.changingRun(r, "stop", "stop", "Pause a run immediately; its running step starts over later"),
		p.changingRun(r, "resume", "start", "Continue with a paused run, or with a failed one from its failed step"))
}

// runsFlags are those of `runs start`.
type runsFlags struct {
	lesson, project, key string
	version, window      int
	params               []string
	wait, reuse, dryRun  bool
}

func (f *runsFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.lesson, "lesson", "", "run this `lesson`")
	fs.StringVar(&f.project, "project", "", "run every lesson of this `project`")
	fs.IntVar(&f.version, "version", 0, "`number` of the version; the active one without it")
	fs.StringArrayVarP(&f.params, "param", "p", nil, "`key=value` of a parameter; lists and objects as JSON")
	fs.IntVar(&f.window, "window", 0, "with --project: `number` of runs that continue at once")
	fs.StringVar(&f.key, "key", "", "`text` under which the start happens once, however often it is repeated")
	fs.BoolVar(&f.reuse, "reuse", false, "take over the results of the first steps that have not changed since an earlier run for the lesson")
	fs.BoolVar(&f.dryRun, "dry-run", false, "show which steps would be taken over and which would run, and why, and start nothing")
	fs.BoolVarP(&f.wait, "wait", "w", false, "with --lesson: wait until the run has ended, and show it")
}

// body is the request for a pipeline.
func (f *runsFlags) body(ctx context.Context, p *program, server *client.Client, pipeline string) (object, error) {
	body := object{"pipeline_id": pipeline}
	put(body, "lesson_id", f.lesson)
	put(body, "project_id", f.project)
	for name, n := range map[string]int{"version": f.version, "window": f.window} {
		if n != 0 {
			body[name] = n
		}
	}
	if f.reuse {
		body["reuse"] = true
	}
	params, err := p.declaredParams(ctx, server, pipeline, f.version, f.params)
	if len(params) > 0 {
		body["params"] = params
	}
	return body, err
}

func (p *program) newRunsStartCommand() *cobra.Command {
	var f runsFlags
	c := &connection{own: f.add, sends: true}
	cmd := p.askingOver(c, "start PIPELINE", "Start a run for a lesson, or one for each lesson of a project", func(ctx context.Context, q *request) error {
		switch {
		case (f.lesson == "") == (f.project == ""):
			return stepwell.Invalid("give --lesson ID or --project ID", "the command does not say what to run")
		case f.wait && f.lesson == "":
			return stepwell.Invalid("`stepwell projects progress` tells how far a project is", "--wait goes with --lesson")
		}
		body, err := f.body(ctx, p, q.client, q.args[0])
		if err != nil {
			return err
		}
		if f.dryRun {
			return p.previewRuns(ctx, q, body)
		}
		var answer struct{ Data object }
		if err := q.client.CallOnce(ctx, "POST", pathTo("pipeline-runs"), f.key, body, &answer); err != nil {
			return err
		}
		if f.project != "" {
			return p.shown(q.connection, answer.Data, "Started the runs of project %s.", view.Printable(f.project))
		}
		return p.changed(ctx, q, answer.Data, f.wait)
	})
	cmd.PreRun = func(*cobra.Command, []string) { c.lasts = f.wait && !f.dryRun }
	cmd.Long = "Start a run for a lesson, or one for each lesson of a project that the pipeline can run for. What --project starts\ncounts in the progress of the project; it continues where it was interrupted when it is repeated with the same --key.\n\n" +
		"With --reuse a run takes the results of its first steps from an earlier run for the lesson, up to the first step that has changed or did not complete there. --dry-run lists these steps beforehand.\n\n" +
		"With --wait the exit code is that of `stepwell run`: 0 done, 1 failed."
	return cmd
}

func (p *program) newRunShowCommand(r *resource) *cobra.Command {
	return p.askingOver(&connection{newest: newestRun}, "show RUN", "Show a run and its steps", func(ctx context.Context, q *request) error { return p.showRun(ctx, q, q.args[0]) })
}

// runOf asks for a run with the results of its steps.
func runOf(ctx context.Context, q *request, id string) (object, error) {
	answer, err := q.call(ctx, "GET", pathTo("pipeline-runs", id), nil, nil)
	if err != nil {
		return nil, err
	}
	run, _ := answer["data"].(object)
	return run, nil
}

func (p *program) showRun(ctx context.Context, q *request, id string) error {
	run, err := runOf(ctx, q, id)
	if err != nil {
		return err
	}
	return p.shownRun(q, run)
}

// shownRun writes a run: for people its values, a line for each step, and what failed.
func (p *program) shownRun(q *request, run object) error {
	return q.show(run, func() error {
		steps := stepsOf(run)
		head := maps.Clone(run)
		delete(head, "steps")
		if err := view.WriteObject(p.out, head); err != nil {
			return err
		}
		fmt.Fprintln(p.out)
		columns := []view.Column{{"POSITION", "position"}, {"STATUS", "status"}, {"STEP", "step_id"}, {"TYPE", "type"}, {"ATTEMPTS", "attempts"}, {"IN", "input_tokens"}, {"OUT", "output_tokens"}, {"COST", "cost"},
			{"STARTED", "start_time"}, {"ENDED", "end_time"}, {"ERROR", "error.message"}}
		if slices.ContainsFunc(steps, func(s object) bool { return s["reused_from"] != nil }) {
			columns = slices.Insert(columns, 3, view.Column{"REUSED FROM", "reused_from"})
		}
		return view.WriteTable(p.out, columns, steps)
	})
}

// previewRuns shows what a start would do for each lesson: its steps, with why those run that are not taken over.
func (p *program) previewRuns(ctx context.Context, q *request, body object) error {
	var all struct {
		Data []object `json:"data"`
		Next string   `json:"next_cursor,omitempty"`
	}
	for query := (url.Values{"limit": {"200"}}); ; query.Set("cursor", all.Next) {
		page := all
		page.Data, page.Next = nil, ""
		if err := q.client.Call(ctx, "POST", pathTo("pipeline-runs", "preview"), query, body, &page); err != nil {
			return err
		}
		all.Data, all.Next = append(all.Data, page.Data...), page.Next
		if all.Next == "" {
			break
		}
	}
	if q.output.value == "json" {
		return view.WriteJSON(p.out, all)
	}
	var rows []object
	for _, one := range all.Data {
		rows = append(rows, previewRows(one)...)
	}
	return view.WriteTable(p.out, []view.Column{{"LESSON", "lesson_id"}, {"POSITION", "position"}, {"STEP", "step_id"}, {"REUSED FROM", "reused_from"}, {"RUNS BECAUSE", "because"}}, rows)
}

// previewRows are the steps of a lesson's preview, or one row that says why it is refused.
func previewRows(one object) []object {
	if refused := one["refused"]; refused != nil {
		return []object{{"lesson_id": one["lesson_id"], "because": fmt.Sprint("no run: ", refused)}}
	}
	steps := stepsOf(one)
	for _, s := range steps {
		s["lesson_id"] = one["lesson_id"]
		if s["reused"] == true {
			s["reused_from"] = one["reused_from"]
		}
	}
	return steps
}

// stepsOf are the steps of a run, by position.
func stepsOf(run object) (steps []object) {
	list, _ := run["steps"].([]any)
	for _, s := range list {
		if step, ok := s.(object); ok {
			steps = append(steps, step)
		}
	}
	return steps
}

// stepIn finds a step of a run by its position, its id in the pipeline, or its own id.
func stepIn(run object, name string) (object, error) {
	for _, s := range stepsOf(run) {
		position, _ := s["position"].(float64)
		if s["id"] == name || s["step_id"] == name || strconv.Itoa(int(position)) == name {
			return s, nil
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("the run has no step %s", view.Printable(name)), Hint: "`stepwell runs show` lists them"}
}

func (p *program) newRunResultCommand(*resource) *cobra.Command {
	return p.askingOver(&connection{newest: newestRun}, "result RUN STEP", "Print the result of a step, named by its position or its id", func(ctx context.Context, q *request) error {
		run, err := runOf(ctx, q, q.args[0])
		if err != nil {
			return err
		}
		step, err := stepIn(run, q.args[1])
		if err != nil {
			return err
		}
		text, is := step["result"].(string)
		if q.output.value == "json" || !is {
			return view.WriteJSON(p.out, step["result"])
		}
		_, err = fmt.Fprintln(p.out, view.Printable(text))
		return err
	})
}

func (p *program) newRunRestartCommand(r *resource) *cobra.Command {
	var wait bool
	c := &connection{newest: newestRun}
	cmd := p.askingOver(c, "restart RUN STEP", "Run a step and all after it again; STEP is its position or its id", func(ctx context.Context, q *request) error {
		run, err := runOf(ctx, q, q.args[0])
		if err != nil {
			return err
		}
		step, err := stepIn(run, q.args[1])
		if err != nil {
			return err
		}
		return p.changeRun(ctx, q, r, fmt.Sprint(run["id"]), "restart", object{"step_id": step["id"]}, wait)
	})
	addWait(cmd, c, &wait)
	return cmd
}

func addWait(cmd *cobra.Command, c *connection, wait *bool) {
	cmd.PreRun = func(*cobra.Command, []string) { c.lasts = *wait }
	cmd.Flags().BoolVarP(wait, "wait", "w", false, "wait until the run has ended, and show it; the exit code is that of runs start --wait")
}

// changingRun makes a command that changes a run by a path below it.
func (p *program) changingRun(r *resource, name, path, short string) *cobra.Command {
	var wait bool
	c := &connection{newest: newestRun}
	cmd := p.askingOver(c, name+" RUN", short, func(ctx context.Context, q *request) error { return p.changeRun(ctx, q, r, q.args[0], path, nil, wait) })
	if name == "resume" {
		addWait(cmd, c, &wait)
	}
	return cmd
}

func (p *program) changeRun(ctx context.Context, q *request, r *resource, id, path string, body any, wait bool) error {
	answer, err := q.call(ctx, "POST", r.at(id, path), nil, body)
	if err != nil {
		return err
	}
	run, _ := answer["data"].(object)
	return p.changed(ctx, q, run, wait)
}

// changed shows a run that was started or changed, at once or when it has ended.
func (p *program) changed(ctx context.Context, q *request, run object, wait bool) error {
	if !wait {
		return p.shownRun(q, run)
	}
	id := fmt.Sprint(run["id"])
	x, err := q.client.Wait(ctx, id)
	if err == nil {
		err = p.showRun(ctx, q, id)
	}
	if err != nil {
		return err
	}
	return exitOf(x.Status)
}
