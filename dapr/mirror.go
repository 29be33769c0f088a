package dapr

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/store"
)

// Document is an execution in the state store (budpipeline §7.1).
type Document struct {
	Execution   string                  `json:"execution_id"`
	Workflow    string                  `json:"workflow_id,omitempty"`
	Pipeline    string                  `json:"pipeline"`
	Status      string                  `json:"status"`
	Params      json.RawMessage         `json:"params,omitempty"`
	Steps       map[string]DocumentStep `json:"steps"`
	MoreSteps   bool                    `json:"more_steps,omitempty"` // than are in Steps
	CurrentStep string                  `json:"current_step,omitempty"`
	Started     string                  `json:"started_at,omitempty"`
	Updated     string                  `json:"updated_at"`
	Completed   string                  `json:"completed_at,omitempty"`
	Outputs     json.RawMessage         `json:"outputs,omitempty"`
	Error       *DocumentError          `json:"error,omitempty"`
	Version     int64                   `json:"version"` // of the step log: a later document has a higher one
}

// DocumentStep is a step of it.
type DocumentStep struct {
	Status    string         `json:"status"`
	Attempt   int            `json:"attempt,omitempty"`
	Started   string         `json:"started_at,omitempty"`
	Completed string         `json:"completed_at,omitempty"`
	Error     *DocumentError `json:"error,omitempty"`
}

// DocumentError says why something failed.
type DocumentError struct {
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
}

// Mirror writes executions into the state store.
func (a *Adapter) Mirror() report.Receiver {
	return report.Receiver{Name: "dapr-state", Take: a.mirror}
}

// stateKey is the key of an execution.
func stateKey(execution string) string { return "execution:" + execution }

// mirror writes an execution as it is now, unless a later one is there: another process may have had the role meanwhile. What is there
// is read for its version alone.
func (a *Adapter) mirror(ctx context.Context, x *store.Execution, _ []report.Change) error {
	doc, err := a.o.Document(ctx, x)
	if err != nil {
		return err
	}
	there, err := a.sidecar.call(ctx, http.MethodGet, "/v1.0/state/"+url.PathEscape(a.o.StateStore)+"/"+url.PathEscape(stateKey(x.ID)), "", nil)
	if err != nil {
		return err
	}
	if err := there.ok("the state of an execution"); err != nil {
		return err
	}
	var earlier struct {
		Version int64 `json:"version"`
	}
	if json.Unmarshal(there.body, &earlier) == nil && earlier.Version > doc.Version {
		return nil
	}
	type options struct {
		Concurrency string `json:"concurrency"`
	}
	entry := struct {
		Key      string            `json:"key"`
		Value    *Document         `json:"value"`
		Etag     string            `json:"etag,omitempty"`
		Options  options           `json:"options"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}{Key: stateKey(x.ID), Value: doc, Etag: there.header.Get("Etag"), Options: options{"first-write"}}
	if a.o.StateTTL > 0 {
		entry.Metadata = map[string]string{"ttlInSeconds": strconv.Itoa(a.o.StateTTL)}
	}
	body, err := json.Marshal([]any{entry})
	if len(body) > maxMessage-envelope { // with thousands of long errors
		doc.Steps, doc.MoreSteps = map[string]DocumentStep{}, true
		body, err = json.Marshal([]any{entry})
	}
	if err != nil {
		return err
	}
	put, err := a.sidecar.call(ctx, http.MethodPost, "/v1.0/state/"+url.PathEscape(a.o.StateStore), "application/json", body)
	if err != nil {
		return err
	}
	return put.ok("the state of an execution")
}
