package api

import (
	"context"
	"encoding/json"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Bounds of the answer to a what-if: each list, and how many calls are rendered, of at most how many bytes.
const (
	mostChanges = 1000
	mostCalls   = 100
	maxCall     = 16 << 10
)

// WhatIf is what would come of something that is assumed of an execution. Nothing has been done.
type WhatIf struct {
	Assumed    string         `json:"assumed" doc:"What was assumed." example:"restart deploy"`
	Version    int64          `json:"version" doc:"The last commit that counts: the state from which it was worked out."`
	Was        string         `json:"was" doc:"The execution's status at that moment."`
	Status     string         `json:"status" doc:"Its status once what is assumed has happened; of a retry, that of the new execution."`
	Error      *Failure       `json:"error" doc:"Why it would have failed; null if it would not."`
	Dispatched []WouldRun     `json:"dispatched" nullable:"false" doc:"The attempts that would be dispatched at once, in order; the first 1,000."`
	Changed    []WouldChange  `json:"changed" nullable:"false" doc:"The steps that would have another status, the first 1,000. Those that would be dispatched without any other change are not among them."`
	Stopped    []string       `json:"stopped" nullable:"false" doc:"Keys of running steps that would be asked to stop."`
	Twice      []string       `json:"twice" nullable:"false" doc:"Keys of steps that must not run twice (idempotent: false), have begun before, and would run again, at once or later. Inside what is over they are named by pattern: each[*].charge."`
	Later      *PreviewAnswer `json:"later" doc:"What would run until the end, of a restart or a retry; null of all else."`
	Counts     WhatIfCounts   `json:"counts" doc:"How many entries there are."`
}

// WhatIfCounts are the lengths of a WhatIf's lists.
type WhatIfCounts struct {
	Dispatched int `json:"dispatched"`
	Changed    int `json:"changed"`
}

// WouldRun is an attempt that would be dispatched.
type WouldRun struct {
	Step    string          `json:"step_id"`
	Action  string          `json:"action"`
	Attempt int             `json:"attempt"`
	Params  json.RawMessage `json:"params" doc:"The rendered parameters, without defaults; null where they are not known."`
	Unknown string          `json:"params_unknown,omitempty" doc:"Why the parameters are not known."`
}

// WouldChange is a step that would have another status.
type WouldChange struct {
	Step    string   `json:"step_id"`
	Was     string   `json:"was"`
	Status  string   `json:"status"`
	Attempt int      `json:"attempt"`
	Wake    Time     `json:"wake_at" doc:"When it would go on, if it would wait for a time; else null."`
	Reasons []Reason `json:"reasons" nullable:"false" doc:"Why."`
}

type whatIfInput struct {
	ExecutionPath
	Assume string `query:"assume" required:"true" minLength:"1" maxLength:"20000" example:"retry" doc:"One of: restart STEP [failed-only], retry [STEP], fail STEP [permanently], complete STEP [OUTPUTS, a JSON object], skip STEP, lose STEP (its worker), cancel, pause, resume."`
	Moment
}

func (s *server) whatIf(ctx context.Context, in *whatIfInput) (*answer[WhatIf], error) {
	x, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	assumed, err := engine.ParseAssumption(in.Assume)
	if err != nil {
		return nil, err
	}
	would, version, err := s.o.Forecast.WhatIf(ctx, x.ID, assumed, in.Version, in.At)
	if err != nil {
		return nil, err
	}
	out := WhatIf{Assumed: s.text(x.ID, in.Assume), Version: version, Was: would.Was.String(), Status: would.Is.String(), Error: s.failure(x.ID, would.Failure),
		Dispatched: []WouldRun{}, Changed: []WouldChange{}, Stopped: append([]string{}, would.Stopped[:min(len(would.Stopped), mostChanges)]...),
		Twice: append([]string{}, would.Twice[:min(len(would.Twice), mostChanges)]...), Counts: WhatIfCounts{len(would.Tasks), len(would.Steps)}}
	for i, t := range would.Tasks[:min(len(would.Tasks), mostChanges)] {
		run := WouldRun{Step: t.Key, Action: t.Step.Action, Attempt: t.Attempt, Unknown: "only the first 100 calls are rendered"}
		if i < mostCalls {
			run.Params, run.Unknown = s.call(x.ID, t)
		}
		out.Dispatched = append(out.Dispatched, run)
	}
	for i := range would.Steps[:min(len(would.Steps), mostChanges)] {
		out.Changed = append(out.Changed, s.wouldChange(x.ID, &would.Steps[i]))
	}
	if would.Later != nil {
		later := Preview(would.Later)
		out.Later = &later
	}
	return reply(out, nil)
}

func (s *server) wouldChange(execution string, c *engine.Change) WouldChange {
	if len(c.Why) == 0 && c.Error != nil {
		c.Why = []engine.Reason{{Code: string(c.Error.Code), Message: c.Error.Message}}
	}
	return WouldChange{Step: c.Key, Was: c.Was.String(), Status: c.Is.String(), Attempt: c.Attempt, Wake: micro(c.Wake), Reasons: s.reasons(execution, c.Why)}
}

// call is an attempt's rendered parameters as they may be shown, or why they are not.
func (s *server) call(execution string, t *engine.Task) (params json.RawMessage, unknown string) {
	if len(t.Members) > 0 {
		return nil, "it stands for a stream"
	}
	v, known, why := t.Call()
	if !known {
		return nil, s.text(execution, why)
	}
	about, found := s.o.Catalog.Spec(t.Step.Action)
	if !found {
		return nil, "its action is not known here"
	}
	raw, err := expr.Marshal(v)
	if err == nil && spec.Secretive(about.Params) {
		var plain any
		if plain, err = expr.Decode(raw); err == nil {
			object, _ := plain.(map[string]any) // params are one
			raw, err = expr.Marshal(spec.Redact(object, about.Params))
		}
	}
	switch {
	case err != nil:
		return nil, s.text(execution, err.Error())
	case len(raw) > maxCall:
		return nil, "it is larger than 16 KiB"
	}
	return s.json(execution, raw), ""
}
