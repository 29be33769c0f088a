package conductor

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// The kinds of outbox entries.
const (
	ExecutionEnded    = "execution.ended"
	ExecutionBreached = "execution.breached" // it takes longer than its settings promise
	Begun             = "begun"              // an execution, or a restart of it
)

// Outbox says what is put into the outbox, with the commit that decides it. Its functions must be quick; nil: nothing.
type Outbox struct {
	// Ended reports whether the end of an execution, or its taking longer than promised, is (Ended).
	Ended func(*store.Execution) bool
	// Made reports whether the end of an execution that made a partition of a stored pipeline is (Making).
	Made func() bool
	// Begun reports whether the beginning of an execution, or a restart of it, is.
	Begun func() bool
}

// Ended is the body of all.
type Ended struct {
	Status   string `json:"status"`
	Pipeline string `json:"pipeline"`
	Workflow string `json:"workflow,omitempty"`
	Job      string `json:"job,omitempty"`
	Breached string `json:"breached,omitempty"`
	Version  int64  `json:"version,omitempty"` // of the commit, with Begun
	Making
}

// Making is the partition that an execution has tried to make (settings.partition), and by what; set at its end only.
type Making struct {
	Partition       string `json:"partition,omitempty"`        // its key; "": none
	WorkflowVersion int    `json:"workflow_version,omitempty"` // of the pipeline
	Definition      []byte `json:"definition,omitempty"`       // hash of the snapshot
	Alone           bool   `json:"alone,omitempty"`            // nobody but the ledger of partitions wants to know
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
	ended := Ended{Status: l.row.Status.String(), Pipeline: l.row.Pipeline, Workflow: l.row.Workflow, Job: l.row.Job, Breached: l.breached}
	if l.fx.Finished {
		c.makes(l, &ended)
	}
	if len(kinds) > 0 && (c.o.Outbox.Ended == nil || !c.o.Outbox.Ended(&l.row)) {
		if kinds, ended.Alone = nil, ended.Partition != ""; ended.Alone {
			kinds = []string{ExecutionEnded}
		}
	}
	if c.o.Outbox.Begun != nil && (l.create || slices.ContainsFunc(l.batch.Events, func(e engine.Event) bool { return e.Kind == engine.Restart })) && c.o.Outbox.Begun() {
		kinds, ended.Version = append(kinds, Begun), l.version
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(ended)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		list = append(list, store.Outgoing{Kind: kind, Execution: l.run.ID, Body: body, At: time.UnixMicro(l.batch.At)})
	}
	return list, nil
}

// makes fills in the partition that an execution has made.
func (c *Conductor) makes(l *live, ended *Ended) {
	if l.pipeline == nil {
		return
	}
	setting := l.pipeline.plan.Partition
	if setting == nil || l.row.Workflow == "" || c.o.Outbox.Made == nil {
		return
	}
	params, err := decodeObject(l.row.Params)
	if err != nil {
		return // they were written here
	}
	if key, ok := setting.Key(params); ok && c.o.Outbox.Made() {
		ended.Making = Making{Partition: key, WorkflowVersion: l.row.WorkflowVersion, Definition: l.row.Definition}
	}
}
