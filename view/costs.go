package view

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stepwell/stepwell/api"
)

// costCells are the titles of what rows are summed by, and what a row has there.
func costCells(by []string) (titles []string, cells func(r *api.CostRow) []string) {
	for _, name := range by {
		titles = append(titles, map[string]string{"day": "DAY (UTC)"}[name])
		if titles[len(titles)-1] == "" {
			titles[len(titles)-1] = strings.ToUpper(name)
		}
	}
	return titles, func(r *api.CostRow) (out []string) {
		for _, name := range by {
			switch name {
			case "day":
				out = append(out, r.Day.UTC().Format("2006-01-02"))
			case "pipeline":
				out = append(out, *r.Pipeline)
			case "project":
				out = append(out, *r.Project)
			case "step":
				out = append(out, *r.Step)
			}
		}
		return out
	}
}

// WriteCosts writes a line for each sum of costs, and the total.
func WriteCosts(w io.Writer, c *api.Costs) error {
	earlier := func() error {
		if c.Earlier == 0 {
			return nil
		}
		_, err := fmt.Fprintf(w, "%s more from executions that ended before costs were counted by step\n", costText(c.Earlier))
		return err
	}
	cut := func() error {
		told := CostsCut(c)
		if told == "" {
			return nil
		}
		_, err := fmt.Fprintln(w, told)
		return err
	}
	if c.Total.Attempts == 0 {
		if _, err := fmt.Fprintln(w, "no execution that ended in this time has cost anything; prices of models are settings, and actions give a cost"); err != nil {
			return err
		}
		return errors.Join(cut(), earlier())
	}
	titles, cells := costCells(c.By)
	numbers := func(r *api.CostRow) []string {
		return []string{fmt.Sprint(r.Attempts), costText(r.Cost), fmt.Sprint(r.Repeated), costText(r.Again)}
	}
	rows := make([][]string, 0, len(c.Rows)+1)
	for i := range c.Rows {
		rows = append(rows, append(cells(&c.Rows[i]), numbers(&c.Rows[i])...))
	}
	total := make([]string, len(titles))
	if len(titles) > 0 {
		total[0] = "total"
	}
	rows = append(rows, append(total, numbers(&c.Total)...))
	if err := writeRows(w, append(titles, "ATTEMPTS", "COST", "REPEATED", "RETRIES COST"), rows); err != nil {
		return err
	}
	return errors.Join(cut(), earlier())
}

// CostsCut says what is missing from sums of costs; nothing: "".
func CostsCut(c *api.Costs) string {
	switch {
	case !c.Complete:
		return "not complete, the last days are missing: there are more sums than are read at once; ask for less time"
	case c.Rest > 0:
		return fmt.Sprintf("lines that are left out: %d; raise --limit, or ask for less time", c.Rest)
	}
	return ""
}

// WriteCostsCSV writes the rows as comma-separated values with a line of titles. A text that a spreadsheet would take for a formula
// gets an apostrophe.
func WriteCostsCSV(w io.Writer, c *api.Costs) error {
	out := csv.NewWriter(w)
	titles := make([]string, len(c.By))
	copy(titles, c.By)
	_, cells := costCells(c.By)
	if err := out.Write(append(titles, "attempts", "cost", "repeated_attempts", "repeated_cost")); err != nil {
		return err
	}
	rows := c.Rows
	if len(c.By) == 0 {
		rows = []api.CostRow{c.Total}
	}
	for i := range rows {
		r := &rows[i]
		line := cells(r)
		for n, text := range line {
			if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
				line[n] = "'" + text
			}
		}
		if err := out.Write(append(line, fmt.Sprint(r.Attempts), costNumber(r.Cost), fmt.Sprint(r.Repeated), costNumber(r.Again))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// costNumber is a cost as a decimal.
func costNumber(m api.Money) string {
	text, err := m.MarshalText()
	if err != nil {
		return ""
	}
	return string(text)
}

// WritePromises writes three tables: running executions with their forecasts, pipelines, and breaches.
func WritePromises(w io.Writer, s *api.Promises) error {
	if len(s.Pipelines)+len(s.Breaches)+len(s.Running) == 0 {
		_, err := fmt.Fprintln(w, "no execution with settings.sla runs, or has ended in this time")
		return err
	}
	var rows [][]string
	for i := range s.Running {
		f := &s.Running[i]
		rows = append(rows, []string{f.Execution, Printable(f.Pipeline), fmt.Sprintf("%.0f", f.Elapsed), secondsCell(f.ETA), secondsCell(f.Expected), secondsCell(f.Maximum), strings.ReplaceAll(f.Forecast, "_", " ")})
	}
	if err := section(w, "running", []string{"EXECUTION", "PIPELINE", "ELAPSED S", "ETA S", "EXPECTED S", "MAX S", "FORECAST"}, rows); err != nil {
		return err
	}
	rows = nil
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		rows = append(rows, []string{Printable(p.Pipeline), secondsCell(p.Expected), secondsCell(p.Maximum), fmt.Sprint(p.Ended), fmt.Sprintf("%.3g", p.Mean), fmt.Sprint(p.Breached), fmt.Sprint(p.Beyond)})
	}
	if err := section(w, "promised and real", []string{"PIPELINE", "EXPECTED S", "MAX S", "ENDED", "MEAN S", "BROKEN", "BEYOND MAX"}, rows); err != nil {
		return err
	}
	rows = nil
	for i := range s.Breaches {
		b := &s.Breaches[i]
		rows = append(rows, []string{b.Execution, Printable(b.Pipeline), b.Status, b.Ended.UTC().Format("2006-01-02 15:04:05"), fmt.Sprintf("%.3g", b.Took), secondsCell(b.Expected), secondsCell(b.Maximum)})
	}
	if err := section(w, "broken, the newest first", []string{"EXECUTION", "PIPELINE", "STATUS", "ENDED (UTC)", "TOOK S", "EXPECTED S", "MAX S"}, rows); err != nil {
		return err
	}
	if !s.Complete {
		_, err := fmt.Fprintln(w, "there is more: ask for less time, or for one pipeline")
		return err
	}
	return nil
}

// section writes a table under a heading, nothing where it is empty.
func section(w io.Writer, heading string, titles []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, heading+":"); err != nil {
		return err
	}
	return writeRows(w, titles, rows)
}
