package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// maxEntries bounds a matrix.
const maxEntries = 1000

// matrix is strategy.matrix as it is found before variables are put in (stac-manager §8, source-systems A.1).
type matrix struct {
	pos     Pos
	entries []map[string]any
	ids     []string
}

// first reads the parts needed before ${…} is replaced: the dotenv file and the matrix.
func (d *decoder) first(n *spec.Node) (dotenv spec.Entry, m *matrix) {
	root := newDecoder(&spec.Report{}, false).unwrap(n)
	for _, holder := range []*spec.Node{root, root.Lookup("settings")} {
		if holder == nil || holder.Kind != spec.MapNode {
			continue
		}
		if secrets := holder.Lookup("input_secrets"); secrets != nil && secrets.Kind == spec.MapNode {
			for _, e := range secrets.Entries {
				if e.Key == "dotenv_path" && !e.Value.IsNull() {
					dotenv = e
				}
			}
		}
	}
	if strategy := root.Lookup("strategy"); strategy != nil && strategy.Kind == spec.MapNode {
		for _, e := range strategy.Entries {
			if e.Key == "matrix" && !e.Value.IsNull() {
				name := ""
				if v := root.Lookup("name"); v != nil && v.Kind == spec.ScalarNode {
					name = v.Text
				}
				m = d.matrix(e, name)
			}
		}
	}
	return dotenv, m
}

func (d *decoder) matrix(e spec.Entry, name string) *matrix {
	const path = "strategy.matrix"
	if e.Value.Kind != spec.ListNode {
		d.Fail(e.At(), path, "matrix must be a list of mappings, not "+e.Value.Describe(), "write - collection_id: a for each entry")
		return nil
	}
	if len(e.Value.Items) > maxEntries {
		d.Fail(e.At(), path, fmt.Sprintf("the matrix has %d entries, at most %d are allowed", len(e.Value.Items), maxEntries), "use for_each over a group of stream steps")
		return nil
	}
	m := &matrix{pos: e.At()}
	for i, item := range e.Value.Items {
		if item.Kind != spec.MapNode || len(item.Entries) == 0 {
			d.Fail(item.Pos, spec.ElementPath(path, i), "an entry of the matrix must be a mapping of names to values, not "+item.Describe(), "")
			continue
		}
		values, _ := d.Value(item, spec.ElementPath(path, i), "").(map[string]any)
		for key := range values {
			if !variableName(key) {
				d.Fail(item.Pos, spec.ElementPath(path, i), "the name "+spec.Quote(key)+" is not possible", "begin with a letter or _, continue with letters, digits and _")
			}
		}
		m.entries = append(m.entries, values)
		m.ids = append(m.ids, m.id(name, values, i))
	}
	if len(m.entries) == 0 {
		return nil
	}
	return m
}

// id is the name of an entry: {name}-{collection_id}, or with the entry's number where that is missing or
// taken.
func (m *matrix) id(name string, values map[string]any, i int) string {
	base := slug(name)
	if c, ok := values["collection_id"]; ok {
		if id := strings.Trim(stepName(fmt.Sprint(c)), "-."); id != "" {
			id = strings.Trim(base+"-"+id, "-")
			if len(id) <= 90 && !slices.Contains(m.ids, id) {
				return id
			}
		}
	}
	return strings.Trim(base+"-"+strconv.Itoa(i+1), "-")
}

// stepName keeps the characters allowed in a step's id.
func stepName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, s)
}

// vars are an entry's values as ${NAME} puts them in.
func vars(values map[string]any) map[string]string {
	out := make(map[string]string, len(values))
	for key, v := range values {
		switch v := v.(type) {
		case string:
			out[key] = v
		case nil:
			out[key] = ""
		default:
			if raw, err := json.Marshal(v); err == nil {
				out[key] = string(raw)
			}
		}
	}
	return out
}

// offer are the values of an entry that no ${NAME} in the source uses.
func offer(src []byte, values map[string]any) map[string]any {
	out := maps.Clone(values)
	text := string(src)
	for key := range values {
		if strings.Contains(text, "${"+key+"}") || strings.Contains(text, "${"+key+":-") {
			delete(out, key)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// combine makes the pipeline that runs the entries' pipelines side by side. A failed one keeps no other from running.
func combine(m *matrix, entries []*Definition) *Definition {
	one := entries[0]
	d := *one
	d.Matrix, d.Pipelines, d.Steps = m.ids, map[string]*Definition{}, nil
	d.Outputs, d.Finally, d.OnFailure, d.Entry, d.Offer = nil, nil, nil, "", nil // each entry has its own
	d.Settings.FailFast = FailFastOff
	d.Settings.Sequential = false
	d.Settings.MaxParallelSteps = one.Settings.Requests.concurrency() // an entry is one stream, as a rule
	var params map[string]any
	for _, p := range one.Parameters {
		if params == nil {
			params = map[string]any{}
		}
		params[p.Name] = "{{ params." + p.Name + " }}"
	}
	for i, id := range m.ids {
		d.Steps = append(d.Steps, Step{ID: id, Pipeline: id, Params: params, Pos: m.pos})
		d.Pipelines[id] = entries[i]
	}
	return &d
}
