package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newProjectsCommand() *cobra.Command {
	r := &resource{path: "projects", items: "projects", what: "project", columns: []view.Column{{"ID", "id"}, {"NAME", "name"}, {"TAGS", "tags"}, {"CREATED", "created_at"}, {"BY", "created_by"}},
		filters: []filter{{"word", "word", "only those with this `word` in their name or tags"}}}
	tags := &resource{path: "project-tags", items: "tags", what: "tag", columns: []view.Column{{"TAG", "tag"}, {"PROJECTS", "projects"}}, whole: true}
	fields := []filter{{"name", "name", "`text` that people call it"}, {"tags", "tags", "its `tags`, separated by commas"}}
	tagged := p.listing(tags, "List the tags of projects")
	tagged.Use = "tags"
	under := func(name string) func(args []string) string {
		return func(args []string) string { return r.at(args[0], name) }
	}
	return p.group("projects", []string{"project"}, "Manage projects and their progress", "Manage projects, for which executions and other programs count processed items. A project is finished once, when its total is known and that many items are processed.",
		p.listing(r, "List the projects"), p.showing(r, "Show a project"),
		p.sending("create ID", "Create a project", "POST", func([]string) string { return pathTo("projects") }, &memberFlags{members: fields, first: "id"}, "id", "Created project %s."),
		p.updating(r, "Change the name or the tags of a project", &memberFlags{members: fields}, "id", "Updated project %s."),
		tagged,
		p.newProjectProgress(r),
		p.newUsage(r, "usage ID", "Show what models have used for the lessons of a project"),
		p.sending("total ID TOTAL", "Set the number of items", "PUT", under("total"), &argumentFlags{member: "total"}, "project_id", "Set the total of project %s."),
		p.sending("discovered ID TOTAL", "Record that all items are found, and their number", "POST", under("discovered"), &argumentFlags{member: "total"}, "project_id", "All items of project %s are found."),
		p.sending("status ID STATUS", "Set the status; nothing but a reset leaves DONE", "PUT", under("status"), &argumentFlags{member: "status"}, "project_id", "Set the status of project %s."),
		p.sending("add ID", "Count processed items", "POST", under("items"), &itemFlags{}, "project_id", "Counted for project %s."),
		p.verb("reset ID", "Reset the progress", "POST", func(id string) string { return r.at(id, "reset") }, "Reset the progress of project %s."),
		p.deleting(r, "Delete a project and its progress"))
}

func (p *program) newProjectProgress(r *resource) *cobra.Command {
	return p.asking("progress ID", "Show the progress of a project", func(ctx context.Context, q *request) error {
		o, err := q.call(ctx, "GET", r.at(q.args[0], "progress"), nil, nil)
		if err != nil {
			return err
		}
		return p.shown(q.connection, o, "")
	})
}

// newUsage makes the command that shows a sum of usage: of an object, or of a version of it.
func (p *program) newUsage(r *resource, use, short string) *cobra.Command {
	return p.asking(use, short, func(ctx context.Context, q *request) error {
		about := []string{"usage"}
		if len(q.args) > 1 {
			about = []string{"versions", q.args[1], "usage"}
		}
		o, err := q.call(ctx, "GET", r.at(q.args[0], about...), nil, nil)
		if err != nil {
			return err
		}
		return p.shown(q.connection, o, "")
	})
}

// memberFlags make a body of flags, those that are given, and of the first argument.
type memberFlags struct {
	members []filter
	first   string // the member that the argument is; "": none
	id      string
	given   *pflag.FlagSet
}

func (f *memberFlags) add(fs *pflag.FlagSet) {
	f.given = fs
	for _, m := range f.members {
		fs.String(m.flag, "", m.help)
	}
}

func (f *memberFlags) take(args []string) { f.id = args[0] }

func (f *memberFlags) body(*program) (object, error) {
	o := object{}
	if f.first != "" {
		o[f.first] = f.id
	}
	for _, m := range f.members {
		if flag := f.given.Lookup(m.flag); flag.Changed {
			o[m.param] = flag.Value.String()
		}
	}
	return o, nil
}

// argumentFlags make a body of the second argument.
type argumentFlags struct{ member, value string }

func (f *argumentFlags) add(*pflag.FlagSet) {}

func (f *argumentFlags) take(args []string) { f.value = args[1] }

func (f *argumentFlags) body(*program) (object, error) {
	if f.member != "total" {
		return object{f.member: f.value}, nil
	}
	n, err := strconv.ParseInt(f.value, 10, 64)
	if err != nil || n < 0 {
		return nil, stepwell.Invalid("give a whole number from 0", "total: %s is not a number of items", view.Printable(f.value))
	}
	return object{"total": n}, nil
}

// itemFlags count items.
type itemFlags struct {
	done, errors int64
	keys, failed []string
}

func (f *itemFlags) add(fs *pflag.FlagSet) {
	fs.Int64Var(&f.done, "done", 0, "`number` of processed items, failed ones included (default that of --errors, at least 1)")
	fs.Int64Var(&f.errors, "errors", 0, "`number` of them that failed")
	fs.StringArrayVar(&f.keys, "key", nil, "`key` of a processed item, which counts once; may be repeated")
	fs.StringArrayVar(&f.failed, "failed-key", nil, "`key` of an item that failed; may be repeated")
}

func (f *itemFlags) body(*program) (object, error) {
	o, items := object{}, []any{}
	for _, key := range f.keys {
		items = append(items, object{"key": key})
	}
	for _, key := range f.failed {
		items = append(items, object{"key": key, "failed": true})
	}
	if len(items) > 0 {
		o["items"] = items
	}
	if f.done != 0 {
		o["done"] = f.done
	}
	if f.errors != 0 {
		o["errors"] = f.errors
	}
	return o, nil
}
