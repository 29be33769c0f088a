package definition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/spec"
)

// Specs finds the descriptions of actions and modules; a Catalog is one.
type Specs interface {
	Spec(name string) (*spec.Spec, bool)
}

// streamOf describes a step's handling of items; nil for a step that is no stream module.
func streamOf(s *Step, cat Specs) *spec.Stream {
	if s.Module == "" {
		return nil
	}
	about, ok := cat.Spec(s.Module)
	if !ok {
		return nil
	}
	return about.Stream
}

// StreamInputs are the steps, among list, that give the i-th step its items, in the order of its depends_on
// (stac-manager §7.3), if it takes items at all. Every other dependency is one of order. A source that fans out gives
// items to modifiers and sinks; a source behind it runs once for each instead (Expand).
func StreamInputs(list []Step, i int, cat Specs, index map[string]int) []int {
	to := streamOf(&list[i], cat)
	if to == nil || to.Role == spec.Source && !to.TakesItems {
		return nil
	}
	var in []int
	for _, id := range list[i].DependsOn {
		j, ok := index[id]
		if !ok || j == i || slices.Contains(in, j) {
			continue
		}
		from := streamOf(&list[j], cat)
		if from == nil || from.Role == spec.Sink || from.FansOut != nil && to.Role == spec.Source {
			continue
		}
		in = append(in, j)
	}
	return in
}

func indexOf(list []Step) map[string]int {
	index := make(map[string]int, len(list))
	for i := range list {
		index[list[i].ID] = i
	}
	return index
}

// Expand completes a definition with streams. Every element found by a source that fans out gets a stream of its own
// (semantics §6): the stream steps behind it become a group that runs once for each, at most
// default_concurrency.concurrency (5) at a time, regardless of each other's failures. A pipeline with streams ends
// with its modules' report on failed items (stac-manager §9.1), if the catalog has that action. The policies of the
// definition's actions are added, too (Policies). The definition itself is not changed; an expanded one is returned
// as it is.
func Expand(d *Definition, cat Specs) *Definition {
	if d.Policies != nil {
		return d
	}
	out := *withReport(fanOutAll(d, cat), cat)
	var subs map[string]*Definition
	for _, name := range slices.Sorted(maps.Keys(d.Pipelines)) {
		if sub := d.Pipelines[name]; sub != nil {
			if expanded := fanOutAll(sub, cat); expanded != sub {
				if subs == nil {
					subs = maps.Clone(d.Pipelines)
				}
				subs[name] = expanded
			}
		}
	}
	if subs != nil {
		out.Pipelines = subs
	}
	out.Policies = policies(&out, cat)
	return &out
}

func fanOutAll(d *Definition, cat Specs) *Definition {
	out, changed := *d, false
	for _, list := range []*[]Step{&out.Steps, &out.Finally, &out.OnFailure} {
		steps, c := fanOut(*list, d, cat)
		*list, changed = steps, changed || c
	}
	if !changed {
		return d
	}
	return &out
}

// withReport adds the step that writes the report.
func withReport(d *Definition, cat Specs) *Definition {
	streams, report := 0, ""
	eachStream(d, d.Steps, map[string]bool{}, func(s *Step) {
		streams++
		if about := streamOf(s, cat); about != nil {
			report = cmp.Or(report, about.Report)
		}
	})
	if _, ok := cat.Spec(report); !ok || report == "" {
		return d
	}
	for _, list := range [][]Step{d.Steps, d.Finally, d.OnFailure} {
		if slices.ContainsFunc(list, func(s Step) bool { return s.Action == report }) {
			return d // its own, or it has been expanded
		}
	}
	out := *d
	id := "report"
	for slices.ContainsFunc(slices.Concat(d.Steps, d.Finally, d.OnFailure), func(s Step) bool { return s.ID == id }) {
		id += "_items"
	}
	out.Finally = append(slices.Clone(d.Finally), Step{ID: id, Action: report, Pos: d.Pos, Params: map[string]any{
		"workflow": d.Name, "failures": d.Settings.OutputFailures, "summary": d.Settings.OutputSummary, "steps": int64(streams)}})
	return &out
}

// AddedReport is the id of the step that Expand has added for the report, "" when there is none or it was written by
// hand.
func AddedReport(d *Definition) string {
	for i := len(d.Finally) - 1; i >= 0; i-- {
		s := &d.Finally[i]
		_, counted := s.Params["steps"]
		if _, path := s.Params["failures"]; counted && path && len(s.Params) == 4 && s.Params["workflow"] == d.Name {
			return s.ID
		}
	}
	return ""
}

// eachStream visits the stream steps of a pipeline, those of its sub-pipelines included.
func eachStream(d *Definition, list []Step, seen map[string]bool, visit func(*Step)) {
	everyStep(func(s *Step) {
		if s.Module != "" {
			visit(s)
		}
		if sub := d.Pipelines[s.Pipeline]; sub != nil && !seen[s.Pipeline] {
			seen[s.Pipeline] = true
			eachStream(d, sub.Steps, seen, visit)
		}
	}, list)
}

func fanOut(list []Step, d *Definition, cat Specs) ([]Step, bool) {
	changed := false
	for i := range list {
		if inner, c := fanOut(list[i].Steps, d, cat); c {
			if !changed {
				list, changed = slices.Clone(list), true
			}
			list[i].Steps = inner
		}
	}
	for i := 0; i < len(list); i++ {
		if s := streamOf(&list[i], cat); s != nil && s.FansOut != nil {
			id := list[i].ID
			if out, c := fanOutOne(list, i, *s.FansOut, d, cat); c {
				list, changed = out, true
				i = slices.IndexFunc(list, func(s Step) bool { return s.ID == id })
			}
		}
	}
	return list, changed
}

// behind are the stream steps that run once for each element a source found: sources that depend on it, and the
// takers of their items.
func behind(list []Step, from int, cat Specs) []int {
	index := indexOf(list)
	in := make([]bool, len(list))
	for again := true; again; {
		again = false
		for i := range list {
			s := streamOf(&list[i], cat)
			if in[i] || i == from || s == nil {
				continue
			}
			takes := s.Role == spec.Source && s.TakesItems && slices.Contains(list[i].DependsOn, list[from].ID)
			for _, j := range StreamInputs(list, i, cat, index) {
				takes = takes || in[j]
			}
			if takes {
				in[i], again = true, true
			}
		}
	}
	var out []int
	for i := range list {
		if in[i] {
			out = append(out, i)
		}
	}
	return out
}

func fanOutOne(list []Step, from int, into spec.FansOut, d *Definition, cat Specs) ([]Step, bool) {
	inside := behind(list, from, cat)
	if len(inside) == 0 {
		return list, false
	}
	group := Step{ID: groupID(d, list, list[from].ID, into.Output), DependsOn: []string{list[from].ID}, Independent: true, Pos: list[inside[0]].Pos,
		ForEach: &ForEach{Items: "{{ steps['" + list[from].ID + "'].outputs." + into.Output + " }}", As: into.As, MaxConcurrency: d.Settings.Requests.concurrency()}}
	ids := map[string]bool{}
	for _, i := range inside {
		ids[list[i].ID] = true
	}
	var out []Step
	for i := range list {
		s := list[i]
		if ids[s.ID] {
			var own []string
			for _, id := range s.DependsOn {
				switch {
				case ids[id]:
					own = append(own, id)
				case id != list[from].ID && !slices.Contains(group.DependsOn, id):
					group.DependsOn = append(group.DependsOn, id)
				}
			}
			s.DependsOn = own
			group.Steps = append(group.Steps, s)
			continue
		}
		if slices.ContainsFunc(s.DependsOn, func(id string) bool { return ids[id] }) {
			var deps []string
			for _, id := range s.DependsOn {
				if ids[id] {
					id = group.ID
				}
				if !slices.Contains(deps, id) {
					deps = append(deps, id)
				}
			}
			s.DependsOn = deps
		}
		out = append(out, s)
	}
	at := slices.IndexFunc(out, func(s Step) bool { return s.ID == list[from].ID })
	return slices.Insert(out, at+1, group), true
}

// groupID is a name for the group that no step has, nor a group made before.
func groupID(d *Definition, beside []Step, from, found string) string {
	taken := map[string]bool{}
	everyStep(func(s *Step) { taken[s.ID] = true }, d.Steps, d.Finally, d.OnFailure, beside)
	for _, id := range []string{found, from + "_" + found} {
		if !taken[id] {
			return id
		}
	}
	for n := 2; ; n++ {
		if id := fmt.Sprintf("%s_%d", found, n); !taken[id] {
			return id
		}
	}
}

func (r Requests) concurrency() int {
	if r.Concurrency > 0 {
		return r.Concurrency
	}
	return 5
}

// ModuleConfig is a module step's config with the document's other values for it: the values of default_concurrency
// that a source knows and its step does not give, and the offered values of a matrix entry, which come first
// (source-systems A.1).
func ModuleConfig(d *Definition, s *Step, about *spec.Spec) map[string]any {
	r := d.Settings.Requests
	given := map[string]any{}
	if r.Concurrency > 0 {
		given["concurrency"] = int64(r.Concurrency)
	}
	if r.RateLimit > 0 {
		given["rate_limit"] = r.RateLimit
	}
	if r.RetryMaxAttempts > 0 {
		given["retry_max_attempts"] = int64(r.RetryMaxAttempts)
	}
	if r.RetryBackoffBase > 0 {
		given["retry_backoff_base"] = r.RetryBackoffBase
	}
	out := make(map[string]any, len(s.Config)+2)
	for key, v := range given {
		if _, known := spec.FieldNamed(about.Params, key); known && about.Stream != nil && about.Stream.Role == spec.Source {
			out[key] = v
		}
	}
	maps.Copy(out, s.Config)
	for key, v := range d.Offer {
		if _, known := spec.FieldNamed(about.Params, key); known {
			out[key] = v
		}
	}
	return out
}
