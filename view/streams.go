package view

import (
	"cmp"
	"fmt"
	"io"

	"github.com/stepwell/stepwell/api"
)

// WriteStreams writes a table of each stream's modules, and which of them limits it.
func WriteStreams(w io.Writer, l *api.StreamList) error {
	if len(l.Streams) == 0 {
		_, err := fmt.Fprintln(w, "no streams: no step has a module, or none has begun")
		return err
	}
	for i := range l.Streams {
		s := &l.Streams[i]
		if i > 0 {
			fmt.Fprintln(w) // an error comes again
		}
		rows := make([][]string, len(s.Modules))
		for n := range s.Modules {
			rows[n] = moduleCells(&s.Modules[n])
		}
		if err := writeRows(w, []string{"STEP", "MODULE", "STATUS", "IN", "OUT", "FAILED", "DROPPED", "IN/S", "AT WORK", "WAITING"}, rows); err != nil {
			return err
		}
		if s.Bottleneck != nil {
			if _, err := fmt.Fprintf(w, "bottleneck: %s\n", s.Bottleneck.Reason); err != nil {
				return err
			}
		}
	}
	if l.Next != "" {
		_, err := fmt.Fprintln(w, "there are more streams: --limit")
		return err
	}
	return nil
}

func moduleCells(m *api.StreamModule) []string {
	cells := []string{m.Step, m.Module, m.Status, "", "", "", "", "", "", ""}
	if m.Items != nil {
		for i, n := range []int64{m.Items.In, m.Items.Out, m.Items.Failed, m.Items.Dropped} {
			cells[3+i] = fmt.Sprint(n)
		}
	}
	if m.InRate != nil {
		cells[7] = fmt.Sprintf("%.0f", *m.InRate)
	}
	if m.Working != nil {
		cells[8] = fmt.Sprintf("%.0f %%", *m.Working*100)
	}
	if m.Buffered != nil {
		if cells[9] = fmt.Sprint(*m.Buffered); m.Capacity != nil {
			cells[9] += fmt.Sprintf(" of %d", *m.Capacity)
		}
	}
	return cells
}

// WriteStats writes a line for each bucket of executions that ended.
func WriteStats(w io.Writer, s *api.ExecutionStats) error {
	if len(s.Buckets) == 0 {
		_, err := fmt.Fprintln(w, "no execution has ended in this time")
		return err
	}
	titles := []string{"FROM (UTC)", "ENDED", "COMPLETED", "FAILED", "TIMED OUT", "CANCELLED", "P50 S", "P95 S", "COST"}
	by := s.Buckets[0].Pipeline != nil
	if by {
		titles = append([]string{titles[0], "PIPELINE"}, titles[1:]...)
	}
	rows := make([][]string, len(s.Buckets))
	for i := range s.Buckets {
		b := &s.Buckets[i]
		at := b.From.UTC().Format("2006-01-02")
		if s.Bucket == "hour" || s.Bucket == "minute" {
			at = b.From.UTC().Format("2006-01-02 15:04")
		}
		rows[i] = []string{at}
		if by {
			rows[i] = append(rows[i], *b.Pipeline)
		}
		for _, n := range []int64{b.Ended, b.Completed + b.WithFailures, b.Failed, b.TimedOut, b.Cancelled} {
			rows[i] = append(rows[i], fmt.Sprint(n))
		}
		rows[i] = append(rows[i], secondsCell(b.P50), secondsCell(b.P95), costText(b.Cost))
	}
	if err := writeRows(w, titles, rows); err != nil {
		return err
	}
	t := &s.Total
	if _, err := fmt.Fprintf(w, "together: %d ended, %d completed, half within %s s, 95 %% within %s s, cost %s\n", t.Ended, t.Completed+t.WithFailures, cmp.Or(secondsCell(t.P50), "–"), cmp.Or(secondsCell(t.P95), "–"), cmp.Or(costText(t.Cost), "0")); err != nil {
		return err
	}
	if !s.Complete {
		_, err := fmt.Fprintln(w, "there are more counts than are read at once: ask for less time")
		return err
	}
	return nil
}

func secondsCell(s *float64) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.3g", *s)
}

// matrixCells are the letters of statuses in a matrix.
var matrixCells = map[string]string{"": " ", "pending": ".", "queued": ".", "running": "r", "retrying": "r", "waiting": "w", "completed": "+", "failed": "F", "timed_out": "T", "skipped": "-", "cancelled": "x"}

// WriteMatrix writes a line for each step, with a letter for each execution.
func WriteMatrix(w io.Writer, m *api.Matrix) error {
	if len(m.Executions) == 0 {
		_, err := fmt.Fprintln(w, "no executions")
		return err
	}
	rows := make([][]string, len(m.Steps))
	for i := range m.Steps {
		s := &m.Steps[i]
		cells, last := "", ""
		for n, status := range s.Status {
			letter, ok := matrixCells[status]
			if !ok {
				letter = "?"
			}
			cells += letter
			if share := s.Failed[n]; n == len(s.Status)-1 && share > 0 && share < 1 {
				last = fmt.Sprintf("%.1f %% failed", share*100)
			}
		}
		rows[i] = []string{s.ID, "|" + cells + "|", last}
	}
	if err := writeRows(w, []string{"STEP", "OLDEST → NEWEST", "IN THE NEWEST"}, rows); err != nil {
		return err
	}
	first, newest := &m.Executions[0], &m.Executions[len(m.Executions)-1]
	if _, err := fmt.Fprintf(w, "%d executions, from %s to %s\n+ completed  F failed  T timed out  x cancelled  - skipped  r running  w waiting  . not begun\n", len(m.Executions), first.ID, newest.ID); err != nil {
		return err
	}
	if m.Truncated {
		_, err := fmt.Fprintln(w, "there are more steps, or older executions: --steps, --executions")
		return err
	}
	return nil
}
