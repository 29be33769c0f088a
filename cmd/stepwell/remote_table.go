package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/view"
)

// column is one of a table: its title, and where its values are in an object.
type column struct{ title, path string }

// maxList is how many entries a command lists at most.
const maxList = 10_000

// resource is a kind of thing that a server keeps.
type resource struct {
	path    string // below /api/v1
	items   string // name of the list in an answer
	what    string // what one is called
	columns []column
	filters []filter
	whole   bool // its list is not in pages
}

// filter is a flag of `list` that is a parameter of the request.
type filter struct{ flag, param, help string }

// listing makes the command that lists a resource.
func (p *program) listing(r *resource, short string) *cobra.Command {
	var most int
	values := make([]string, len(r.filters))
	cmd := p.asking("list", short, func(ctx context.Context, q *request) error {
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
func (r *resource) list(ctx context.Context, client *api.Client, query url.Values, most int) ([]object, error) {
	path := pathTo(strings.Split(r.path, "/")...)
	if !r.whole {
		return pages(ctx, client, path, r.items, query, most)
	}
	var answer map[string]json.RawMessage
	if err := client.Call(ctx, "GET", path, query, nil, &answer); err != nil {
		return nil, err
	}
	rows := []object{}
	err := decodeAnswer(answer[r.items], &rows)
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

func writeTable(w io.Writer, columns []column, rows []object) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	fmt.Fprintln(t, strings.Join(titles, "\t"))
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(at(row, c.path))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// at finds a value inside an object: "schedule.expression".
func at(o object, path string) any {
	var v any = o
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// maxCell is how wide a cell of a table gets.
const maxCell = 60

// cellTime is how times are written for people: in their own zone, which is named, because a server may be in another.
const cellTime = time.DateTime + " MST"

// cell writes a value of an answer for people: times in their own zone.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.Local().Format(cellTime)
		}
		return view.OneLine(v, maxCell)
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, cell(e))
		}
		return view.OneLine(strings.Join(parts, ", "), maxCell)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return view.OneLine(string(raw), maxCell)
}

// showObject writes an object as lines of name and value; objects inside go below their name.
func (p *program) showObject(o object) error {
	t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	writeValues(t, "", o)
	return t.Flush()
}

func writeValues(w io.Writer, indent string, o object) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch v := o[name].(type) {
		case nil:
		case object:
			if len(v) > 0 {
				fmt.Fprintf(w, "%s%s\n", indent, view.Printable(name))
				writeValues(w, indent+"  ", v)
			}
		case string:
			if strings.Contains(v, "\n") {
				fmt.Fprintf(w, "%s%s\n%s  %s\n", indent, view.Printable(name), indent, strings.ReplaceAll(strings.TrimSpace(view.Printable(v)), "\n", "\n"+indent+"  "))
				continue
			}
			fmt.Fprintf(w, "%s%s\t%s\n", indent, view.Printable(name), longCell(v))
		default:
			fmt.Fprintf(w, "%s%s\t%s\n", indent, view.Printable(name), longCell(v))
		}
	}
}

// longCell is a value that has a line to itself.
func longCell(v any) string {
	if s, ok := v.(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return t.Local().Format(cellTime)
		}
		return view.OneLine(s, 2000)
	}
	if list, ok := v.([]any); ok {
		raw, err := json.Marshal(list)
		if err == nil {
			return view.OneLine(string(raw), 2000)
		}
	}
	return cell(v)
}
