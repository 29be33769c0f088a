package conductor

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell/store"
)

// The kinds of outbox entries.
const (
	ExecutionEnded    = "execution.ended"
	ExecutionBreached = "execution.breached" // it takes longer than its settings promise
)

// Ended is the body of both.
type Ended struct {
	Status   string `json:"status"`
	Pipeline string `json:"pipeline"`
	Workflow string `json:"workflow,omitempty"`
	Job      string `json:"job,omitempty"`
	Breached string `json:"breached,omitempty"`
}

// outgoing collects a turn's outbox entries, stored in the same transaction.
func (c *Conductor) outgoing(l *live) (list []store.Outgoing, err error) {
	var kinds []string
	if b := l.row.Progress.Breached; b != l.breached {
		if l.breached = b; b != "" {
			l.broke, kinds = true, append(kinds, ExecutionBreached)
		}
	}
	if l.fx.Finished {
		kinds = append(kinds, ExecutionEnded)
	}
	if len(kinds) == 0 || c.o.Outbox == nil || !c.o.Outbox(&l.row) {
		return nil, nil
	}
	body, err := json.Marshal(Ended{Status: l.row.Status.String(), Pipeline: l.row.Pipeline, Workflow: l.row.Workflow, Job: l.row.Job, Breached: l.breached})
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		list = append(list, store.Outgoing{Kind: kind, Execution: l.run.ID, Body: body, At: time.UnixMicro(l.batch.At)})
	}
	return list, nil
}
