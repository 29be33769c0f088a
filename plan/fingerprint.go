package plan

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/stepwell/stepwell/expr"
)

// Fingerprint is equal for two steps, of whatever plans, that do the same work on the same results: the SHA-256, in hex, of
// the step's action, policy, condition, for_each, params and settings with templates as text, and of the fingerprints of the
// steps that it reads. Where, when and with which right it runs counts for nothing: queue, priority, weight, log level, author.
// So do its id and name. "": there is no such step at the top level, or it cannot be told, because a template reads all
// steps, spawned steps, or in a circle. Compare fingerprints that one version of the program has made; do not store them.
func (p *Plan) Fingerprint(step string) string {
	i, ok := p.Graph.Index(step)
	if !ok {
		return ""
	}
	f := printer{made: map[*Step]string{}}
	return f.step(&frame{graph: p.Graph}, i)
}

// Fingerprints are those of all steps at the top level, by id.
func (p *Plan) Fingerprints() map[string]string {
	f := printer{made: map[*Step]string{}}
	out := make(map[string]string, len(p.Graph.Steps))
	for i := range p.Graph.Steps {
		out[p.Graph.Steps[i].ID] = f.step(&frame{graph: p.Graph}, int32(i))
	}
	return out
}

// printer makes fingerprints, each once.
type printer struct{ made map[*Step]string }

// frame is a graph and what is around it.
type frame struct {
	graph *Graph
	outer *frame
}

func (f *printer) step(at *frame, i int32) string {
	s := &at.graph.Steps[i]
	if made, ok := f.made[s]; ok {
		return made // "" while it is being made: a circle
	}
	f.made[s] = ""
	parts, ok := f.parts(at, i)
	if !ok {
		return ""
	}
	raw, err := expr.Marshal(parts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	f.made[s] = hex.EncodeToString(sum[:])
	return f.made[s]
}

// parts are what a step's fingerprint is made of; false: it has none.
func (f *printer) parts(at *frame, i int32) (map[string]any, bool) {
	s := &at.graph.Steps[i]
	parts := map[string]any{"does": s.Does(), "policy": s.Policy.result(), "params": s.Params.document(), "settings": s.Settings.document()}
	if s.Condition != nil {
		parts["condition"] = s.Condition.Source()
	}
	if e := s.ForEach; e != nil {
		parts["for_each"] = []any{e.Items.document(), e.As, int64(e.MaxFailures), e.Share}
	}
	return parts, f.reads(parts, "reads", at, s.Reads) && f.stream(parts, at, s) && f.body(parts, at, s.Body)
}

// reads adds what templates read, by its id in them. It reports false when that cannot be told.
func (f *printer) reads(parts map[string]any, name string, at *frame, reads []Read) bool {
	list := []any{}
	for _, r := range reads {
		switch {
		case r.Up == ReadMedia:
			list = append(list, "media")
			continue
		case r.Up == ReadAll || r.Step < 0:
			return false
		}
		from := at
		for range r.Up {
			from = from.outer
		}
		id, made := "source", f.step(from, r.Step)
		if !r.Source {
			id = "steps." + from.graph.Steps[r.Step].ID
		}
		if made == "" {
			return false
		}
		list = append(list, []any{id, made})
	}
	parts[name] = list
	return true
}

// stream adds what gives a stream step its items: its segment is dispatched as its lead, whose params are those of all.
func (f *printer) stream(parts map[string]any, at *frame, s *Step) bool {
	lead, ok := s.Lead()
	if !ok {
		return true
	}
	parts["member"], parts["lead"] = s.ID, f.step(at, lead)
	return parts["lead"] != ""
}

func (f *printer) body(parts map[string]any, at *frame, b *Body) bool {
	if b == nil {
		return true
	}
	inside := &frame{b.Graph, at}
	if !f.graph(parts, "steps", inside) || !f.graph(parts, "on_failure", &frame{b.OnFailure, inside}) || !f.graph(parts, "finally", &frame{b.Finally, inside}) {
		return false
	}
	defaults := map[string]any{}
	for i := range b.Def {
		defaults[b.Def[i].Name] = b.Def[i].Default
	}
	parts["parameters"] = defaults
	if b.Outputs == nil {
		return true
	}
	values := map[string]any{}
	for i, name := range b.Outputs.Names {
		values[name] = b.Outputs.Values[i].document()
	}
	parts["outputs"] = values
	return f.reads(parts, "outputs read", inside, b.Outputs.Reads)
}

// graph adds the steps of a graph, if there is one, by id.
func (f *printer) graph(parts map[string]any, name string, at *frame) bool {
	if at.graph == nil {
		return true
	}
	list := []any{}
	for i := range at.graph.Steps {
		made := f.step(at, int32(i))
		if made == "" {
			return false
		}
		list = append(list, []any{at.graph.Steps[i].ID, made})
	}
	parts[name] = list
	return true
}

// result is the part of a policy that bears on a step's result.
func (p *Policy) result() any {
	r := p.Retry
	return []any{int64(r.MaxAttempts), int64(r.Backoff), r.Multiplier, int64(r.MaxBackoff), r.Jitter,
		int64(p.Timeout), int64(p.Within), p.Continue, int64(p.Rule), p.NotIdempotent}
}
