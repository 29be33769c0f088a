package view

import (
	"fmt"
	"io"
	"time"

	"github.com/stepwell/stepwell/api"
)

// WriteQueue writes what waits, and why.
func WriteQueue(w io.Writer, q *api.Queue) error {
	rows := make([]map[string]any, 0, len(q.Queues))
	for i := range q.Queues {
		one := &q.Queues[i]
		limit := ""
		switch {
		case one.Concurrency < 0:
			limit = "none at the moment"
		case one.Concurrency > 0:
			limit = fmt.Sprintf("%d at once", one.Concurrency)
		}
		if one.Rate > 0 {
			limit = join(limit, fmt.Sprintf("%g a second", one.Rate))
		}
		oldest := ""
		if one.Oldest != nil {
			oldest = stamp(one.Oldest.Since)
		}
		rows = append(rows, map[string]any{"oldest": oldest, "name": one.Name, "waiting": one.Waiting, "running": one.Running, "limit": limit, "why": lastReason(one.Reasons)})
	}
	if err := WriteTable(w, []Column{{"QUEUE", "name"}, {"WAITING", "waiting"}, {"OLDEST", "oldest"}, {"RUNNING", "running"}, {"LIMIT", "limit"}, {"WHY", "why"}}, rows); err != nil {
		return err
	}
	if err := writeHolders(w, q.Queues); err != nil {
		return err
	}
	if q.Waiting == 0 {
		_, err := fmt.Fprintln(w, "\nNo execution waits to begin.")
		return err
	}
	if _, err := fmt.Fprintf(w, "\n%s to begin:\n", howMany(q.Waiting)); err != nil {
		return err
	}
	rows = rows[:0]
	for i := range q.Executions {
		x := &q.Executions[i]
		rows = append(rows, map[string]any{"id": x.ID, "pipeline": x.Pipeline, "created": stamp(&x.Created), "priority": x.Priority, "why": lastReason(x.Reasons)})
	}
	return WriteTable(w, []Column{{"EXECUTION", "id"}, {"PIPELINE", "pipeline"}, {"CREATED", "created"}, {"PRIORITY", "priority"}, {"WHY", "why"}}, rows)
}

// writeHolders writes which steps take the places of queues.
func writeHolders(w io.Writer, queues []api.StepQueue) error {
	var rows []map[string]any
	for i := range queues {
		q := &queues[i]
		for _, h := range q.Holders {
			where := h.Worker
			if h.List != "" {
				where = "in the list " + h.List
			}
			rows = append(rows, map[string]any{"queue": q.Name, "id": h.ID, "step": h.Step, "since": stamp(h.Since), "where": where})
		}
		if more := q.Running - len(q.Holders); more > 0 && len(q.Holders) > 0 {
			rows = append(rows, map[string]any{"queue": q.Name, "id": fmt.Sprintf("and %d more", more)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nThey take the places of queues with a limit:"); err != nil {
		return err
	}
	return WriteTable(w, []Column{{"QUEUE", "queue"}, {"EXECUTION", "id"}, {"STEP", "step"}, {"SINCE", "since"}, {"WORKER", "where"}}, rows)
}

// stamp is a time for a cell.
func stamp(t *api.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func howMany(n int) string {
	switch {
	case n == 1:
		return "One execution waits"
	case n >= 1000:
		return "1,000 executions or more wait"
	}
	return fmt.Sprintf("%d executions wait", n)
}

// lastReason is the last of the reasons: those before it say that it waits, that one why.
func lastReason(list []api.Reason) string {
	if len(list) == 0 {
		return ""
	}
	return reasonLine(list[len(list)-1])
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
