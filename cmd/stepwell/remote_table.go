package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

// maxList is how many entries a command lists at most.
const maxList = 10_000

// resource is a kind of thing that a server keeps.
type resource struct {
	path    string // below /api/v1
	items   string // name of the list in an answer
	what    string // what one is called
	columns []view.Column
	filters []filter
	whole   bool // its list is not in pages
	served  bool // only a server has it
}

// filter is a flag of `list` that is a parameter of the request.
type filter struct{ flag, param, help string }

// listing makes the command that lists a resource.
func (p *program) listing(r *resource, short string) *cobra.Command {
	var most int
	values := make([]string, len(r.filters))
	cmd := p.askingOver(&connection{served: r.served}, "list", short, func(ctx context.Context, q *request) error {
		if most < 1 || most > maxList {
			return stepwell.Invalid(fmt.Sprintf("give a number from 1 to %d", maxList), "limit: %d is out of range", most)
		}
		query := url.Values{}
		for i, f := range r.filters {
			if values[i] != "" {
				query.Set(f.param, values[i])
			}
		}
		rows, err := r.list(ctx, q.client, query, most)
		if err != nil {
			return err
		}
		return q.table(rows, r.columns, "no "+r.what+"s")
	})
	cmd.Flags().IntVar(&most, "limit", 100, "at most so many")
	for i, f := range r.filters {
		cmd.Flags().StringVar(&values[i], f.flag, "", f.help)
	}
	return cmd
}

// list asks for the entries.
func (r *resource) list(ctx context.Context, client *client.Client, query url.Values, most int) ([]object, error) {
	path := pathTo(strings.Split(r.path, "/")...)
	if !r.whole {
		return client.Pages(ctx, path, r.items, query, most)
	}
	rows, _, err := client.Page(ctx, path, r.items, query)
	return rows[:min(most, len(rows))], err
}

// showing makes the command that shows one of a resource.
func (p *program) showing(r *resource, short string) *cobra.Command {
	return p.asking("show ID", short, func(ctx context.Context, q *request) error {
		o, err := q.call(ctx, "GET", r.at(q.args[0]), nil, nil)
		if err != nil {
			return err
		}
		return p.shown(q.connection, o, "")
	})
}

// at is the path of one of the resource, or of something about it.
func (r *resource) at(id string, more ...string) string {
	return pathTo(append(append(strings.Split(r.path, "/"), id), more...)...)
}

// deleting makes the command that removes one of a resource.
func (p *program) deleting(r *resource, short string) *cobra.Command {
	return p.verb("delete ID", short, "DELETE", func(id string) string { return r.at(id) }, "Deleted "+r.what+" %s.")
}
