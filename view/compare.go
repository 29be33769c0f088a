package view

import (
	"fmt"
	"io"

	"github.com/stepwell/stepwell/api"
)

// WriteComparison writes what differs between two executions.
func WriteComparison(w io.Writer, c *api.Comparison) error {
	t := c.Totals
	if _, err := fmt.Fprintf(w, "a  %s  %s  %s\nb  %s  %s  %s\n%d steps: %d only in a, %d only in b, %d with another status, %d with other attempts; %d slower, %d faster; %+.1f s in all\n",
		c.A.ID, c.A.Status, c.A.Pipeline, c.B.ID, c.B.Status, c.B.Pipeline, t.Steps, t.OnlyA, t.OnlyB, t.Status, t.Attempts, t.Slower, t.Faster, float64(t.MoreMS)/1000); err != nil {
		return err
	}
	for _, d := range []struct {
		differs bool
		text    string
	}{{c.Definitions, "the definitions differ"}, {c.Params, "the parameters differ"}, {c.Outputs, "the outputs differ"}} {
		if d.differs {
			if _, err := fmt.Fprintln(w, d.text); err != nil {
				return err
			}
		}
	}
	if len(c.Steps) == 0 {
		return nil
	}
	rows := make([]map[string]any, len(c.Steps))
	for i := range c.Steps {
		s := &c.Steps[i]
		differs := ""
		for _, d := range []struct {
			differs bool
			text    string
		}{{s.Definition, "definition"}, {s.Params, "params"}, {s.Outputs, "outputs"}} {
			if d.differs {
				differs += " " + d.text
			}
		}
		rows[i] = map[string]any{"step": s.ID, "a": inOne(s.A), "b": inOne(s.B), "moved": fmt.Sprintf("%+.3f s", float64(s.MovedMS)/1000), "differs": differs}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	err := WriteTable(w, []Column{{"STEP", "step"}, {"A", "a"}, {"B", "b"}, {"LONGER IN B", "moved"}, {"DIFFERS IN", "differs"}}, rows)
	if err == nil && c.Next != "" {
		_, err = fmt.Fprintln(w, "there are more: --limit shows them")
	}
	return err
}

// inOne is a step of one of the executions.
func inOne(s *api.StepOf) string {
	if s == nil {
		return "–"
	}
	text := s.Status
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	return text
}
