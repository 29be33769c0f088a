package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/view"
)

func pipelines() *resource {
	return &resource{path: "pipelines", items: "pipelines", what: "pipeline",
		columns: []view.Column{{"ID", "pipeline_id"}, {"NAME", "name"}, {"VERSION", "version"}, {"ACTIVE", "active_version"}, {"STEPS", "step_count"}, {"DRAFT", "draft"}, {"ARCHIVED", "archived"}, {"UPDATED", "updated_at"}},
		filters: []filter{{"archived", "archived", "`true` for archived ones, any for all"}}}
}

func (p *program) newPipelinesCommand() *cobra.Command {
	r := pipelines()
	return p.group("pipelines", []string{"pipeline"}, "Manage stored pipelines and their versions", "Manage stored pipelines and their versions. A pipeline is named by its id or its name.",
		p.listing(r, "List the stored pipelines"), p.showing(r, "Show a pipeline"),
		p.sending("create FILE", "Store a pipeline", "POST", func([]string) string { return pathTo("pipelines") }, &documentFlags{}, "name", "Stored pipeline %s."),
		p.sending("update ID FILE", "Store a new version of a pipeline", "PUT", func(args []string) string { return r.at(args[0]) }, &documentFlags{changes: true}, "name", "Stored pipeline %s."),
		p.newVersionsCommand(r), p.newUsage(r, "usage ID VERSION", "Show what models have used in runs of a version"), p.newDiffCommand(r), p.newBacktestCommand(), p.newMatrixCommand(), p.newPartitionsCommand(), p.newActivateCommand(r), p.newStartCommand(), p.newArchiveCommand(r, "archive", true), p.newArchiveCommand(r, "unarchive", false),
		p.deleting(r, "Delete a pipeline; its executions are kept"))
}

// documentFlags send a pipeline document.
type documentFlags struct {
	note     string
	draft    bool
	changes  bool // there is a version already
	activate bool
	given    *pflag.FlagSet
	file     string
}

func (d *documentFlags) add(f *pflag.FlagSet) {
	f.StringVar(&d.note, "note", "", "`text` that says what has changed")
	f.BoolVar(&d.draft, "draft", false, "store it also when it has problems")
	if d.given = f; d.changes {
		f.BoolVar(&d.activate, "activate", true, "make the new version the active one, unless it has problems")
	}
}

// take implements taker.
func (d *documentFlags) take(args []string) { d.file = args[len(args)-1] }

func (d *documentFlags) body(p *program) (object, error) {
	text, err := p.readText(d.file)
	if err != nil {
		return nil, err
	}
	o := object{"document": text}
	put(o, "note", d.note)
	if d.draft {
		o["draft"] = true
	}
	if d.given.Changed("activate") {
		o["activate"] = d.activate
	}
	return o, nil
}

func (p *program) newVersionsCommand(r *resource) *cobra.Command {
	columns := []view.Column{{"VERSION", "version"}, {"ACTIVE", "active"}, {"ARCHIVED", "archived"}, {"STEPS", "step_count"}, {"DRAFT", "draft"}, {"AUTHOR", "author"}, {"CREATED", "created_at"}, {"NOTE", "note"}}
	return p.asking("versions ID", "List the versions of a pipeline, newest first", func(ctx context.Context, q *request) error {
		rows, err := q.client.Pages(ctx, r.at(q.args[0], "versions"), "versions", url.Values{}, maxList)
		if err != nil {
			return err
		}
		return q.show(rows, func() error {
			for _, row := range rows {
				row["archived"] = row["status"] == pipeline.StatusArchived
			}
			return view.WriteTable(p.out, columns, rows)
		})
	})
}

func (p *program) newDiffCommand(r *resource) *cobra.Command {
	return p.asking("diff ID FROM TO", "Show what has changed between two versions", func(ctx context.Context, q *request) error {
		if err := areVersions(q.args[1:]...); err != nil {
			return err
		}
		answer, err := q.call(ctx, "GET", r.at(q.args[0], "diff"), url.Values{"from": {q.args[1]}, "to": {q.args[2]}}, nil)
		if err != nil {
			return err
		}
		return q.show(answer, func() error {
			text, _ := answer["text"].(string)
			_, err := fmt.Fprint(p.out, view.Printable(text))
			return err
		})
	})
}

func areVersions(args ...string) error {
	for _, n := range args {
		if v, err := strconv.Atoi(n); err != nil || v < 1 {
			return stepwell.Invalid("`stepwell pipelines versions` lists them", "%q is not a version", n)
		}
	}
	return nil
}

func (p *program) newActivateCommand(r *resource) *cobra.Command {
	return p.asking("activate ID VERSION", "Make a version the default one", func(ctx context.Context, q *request) error {
		if err := areVersions(q.args[1]); err != nil {
			return err
		}
		answer, err := q.call(ctx, "POST", r.at(q.args[0], "versions", q.args[1], "activate"), nil, nil)
		if err != nil {
			return err
		}
		return p.answered(q.connection, answer, "pipeline %s: version %s is active", view.Cell(answer["name"]), q.args[1])
	})
}

// startFlags are those of `pipelines start`.
type startFlags struct {
	params  []string
	follow  bool
	wait    bool
	version int
	project string
}

func (p *program) newStartCommand() *cobra.Command {
	var c connection
	var f startFlags
	cmd := &cobra.Command{
		Use:   "start ID [-p key=value…]",
		Short: "Start an execution of a stored pipeline",
		Long: "Start an execution of a stored pipeline. --follow shows its progress until it ends, as `stepwell run` does; --wait shows the result only. With either, the exit code is that of `stepwell run`: 0 completed, 1 failed, 3 completed with failures.\n\n" +
			"Without a server the execution runs in this process, which exits when it has ended. If another process runs the executions of the database, that process runs it.",
		Args: arguments(1, 1, "ID"),
		RunE: func(_ *cobra.Command, args []string) error { return p.startStored(&c, args[0], &f) },
	}
	c.add(p, cmd.Flags())
	cmd.Flags().StringArrayVarP(&f.params, "param", "p", nil, "`key=value` of a parameter; lists and objects as JSON")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "show how it goes until it has ended, as run does")
	cmd.Flags().BoolVarP(&f.wait, "wait", "w", false, "wait until it has ended, and show it")
	cmd.Flags().IntVar(&f.version, "version", 0, "`number` of the version; the active one without it")
	cmd.Flags().StringVar(&f.project, "project", "", "`id` of a project whose processed items the execution counts")
	return cmd
}

func (p *program) startStored(c *connection, pipeline string, f *startFlags) error {
	if f.follow && f.wait {
		return stepwell.Invalid("", "--follow and --wait exclude each other")
	}
	if _, err := assignments(f.params); err != nil {
		return err
	}
	body := object{"workflow_id": pipeline}
	if f.version > 0 {
		body["workflow_version"] = f.version
	}
	put(body, "project", f.project)
	c.lasts = f.wait || f.follow
	return p.calling(c, func(ctx context.Context, server *client.Client) (err error) {
		if body["params"], err = p.declaredParams(ctx, server, pipeline, f.version, f.params); err != nil {
			return err
		}
		var answer object
		if err := server.Call(ctx, "POST", pathTo("execute"), nil, body, &answer); err != nil {
			return err
		}
		id, _ := answer["execution_id"].(string)
		if f.wait {
			x, err := server.Wait(ctx, id)
			if err == nil {
				err = view.WriteExecution(p.out, x, c.output.value, false)
			}
			if err != nil {
				return err
			}
			return exitOf(x.Status)
		}
		if f.follow {
			return p.followHere(ctx, &request{c, p, server, nil}, id)
		}
		return p.shown(c, answer, "execution %s is started", id)
	})
}

// declaredParams reads -p flags as `run` does: each as the type that the stored pipeline declares for it, with a warning for those that it does
// not declare. version 0 is the active one.
func (p *program) declaredParams(ctx context.Context, client *client.Client, name string, version int, flags []string) (map[string]any, error) {
	if len(flags) == 0 {
		return map[string]any{}, nil
	}
	stored, _, err := client.Pipelines().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	text := stored.Document
	if version = cmp.Or(version, stored.Active); version != stored.Version {
		v, err := client.PipelineVersion(ctx, stored.ID, version)
		if err != nil {
			return nil, err
		}
		text = v.Document
	}
	d, _ := definition.Parse([]byte(text), definition.ParseOptions{Stored: true})
	if d == nil {
		return readParams(&definition.Definition{}, flags, "") // a draft: that it cannot be started is told by the API
	}
	params, err := readParams(d, flags, "")
	if err == nil {
		p.warn(d.Undeclared(params))
	}
	return params, err
}

func (p *program) newArchiveCommand(r *resource, name string, archived bool) *cobra.Command {
	var version int
	short := map[bool]string{true: "Archive a pipeline, or one of its versions: it can no longer be started", false: "Restore an archived pipeline, or one of its versions"}[archived]
	cmd := p.asking(name+" ID", short, func(ctx context.Context, q *request) error {
		if q.flags.Changed("version") {
			return p.archiveVersion(ctx, q, r, name, strconv.Itoa(version))
		}
		answer, err := q.call(ctx, "PUT", r.at(q.args[0]), nil, object{"archived": archived})
		if err != nil {
			return err
		}
		return p.answered(q.connection, answer, "pipeline %s: "+name+"d", view.Cell(answer["name"]))
	})
	cmd.Flags().IntVar(&version, "version", 0, "`number` of a version; the whole pipeline without it")
	return cmd
}

func (p *program) archiveVersion(ctx context.Context, q *request, r *resource, verb, version string) error {
	if err := areVersions(version); err != nil {
		return err
	}
	answer, err := q.call(ctx, "POST", r.at(q.args[0], "versions", version, verb), nil, nil)
	if err != nil {
		return err
	}
	return p.answered(q.connection, answer, "pipeline %s: version %s "+verb+"d", view.Cell(answer["name"]), version)
}
