package view

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Column is one of a table: its title, and the path of its values in an object, such as {"ZONE", "schedule.timezone"}.
type Column [2]string

// WriteTable writes a line for each object below a line of titles.
func WriteTable(w io.Writer, columns []Column, rows []map[string]any) error {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c[0]
	}
	lines := make([][]string, len(rows))
	for n, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = Cell(at(row, c[1]))
		}
		lines[n] = cells
	}
	return writeRows(w, titles, lines)
}

// at finds a value inside an object: "schedule.expression".
func at(o map[string]any, path string) any {
	var v any = o
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
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

// Cell returns a value of an answer for people: cut to the width of a table's cell, times in their own zone.
func Cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.Local().Format(cellTime)
		}
		return OneLine(v, maxCell)
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case float64:
		return Number(strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, Cell(e))
		}
		return OneLine(strings.Join(parts, ", "), maxCell)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return OneLine(string(raw), maxCell)
}

// WriteObject writes an object as lines of name and value; objects inside go below their name.
func WriteObject(w io.Writer, o map[string]any) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	writeValues(t, "", o)
	return t.Flush()
}

func writeValues(w io.Writer, indent string, o map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch v := o[name].(type) {
		case nil:
		case map[string]any:
			if len(v) > 0 {
				fmt.Fprintf(w, "%s%s\n", indent, Printable(name))
				writeValues(w, indent+"  ", v)
			}
		case string:
			if strings.Contains(v, "\n") {
				fmt.Fprintf(w, "%s%s\n%s  %s\n", indent, Printable(name), indent, strings.ReplaceAll(strings.TrimSpace(Printable(v)), "\n", "\n"+indent+"  "))
				continue
			}
			fmt.Fprintf(w, "%s%s\t%s\n", indent, Printable(name), LongCell(v))
		default:
			fmt.Fprintf(w, "%s%s\t%s\n", indent, Printable(name), LongCell(v))
		}
	}
}

// WriteWarnings writes a line for each warning of an answer.
func WriteWarnings(w io.Writer, warnings any) (err error) {
	list, _ := warnings.([]any)
	for _, one := range list {
		v, _ := one.(map[string]any)
		line := "warning: " + OneLine(fmt.Sprint(v["message"]), 500)
		if hint, _ := v["hint"].(string); hint != "" {
			line += " (" + OneLine(hint, 500) + ")"
		}
		if _, err = fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// LongCell is Cell for a value that has a line to itself.
func LongCell(v any) string {
	if s, ok := v.(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return t.Local().Format(cellTime)
		}
		return OneLine(s, 2000)
	}
	if list, ok := v.([]any); ok {
		raw, err := json.Marshal(list)
		if err == nil {
			return OneLine(string(raw), 2000)
		}
	}
	return Cell(v)
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
