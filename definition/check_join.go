package definition

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
)

// Bounds of the look for branches that set the same path: a document beyond them is not looked at.
const (
	maxJoinWork  = 5_000_000 // steps looked at, in all joins of a document
	maxJoinPaths = 2_000     // of one branch
)

// joins warns about the branches of a join that may set the same path to different values: such items will fail there.
func (c *checker) joins(here located) {
	step := here.step()
	inputs := StreamInputs(here.scope.list, here.index, c.cat, here.scope.index)
	if len(inputs) < 2 {
		if step.Merge != "" {
			c.Warn(posOf(step, "merge"), here.path()+".merge", fmt.Sprintf("%q joins no branches: merge has no effect", step.ID), "merge is for a step that depends on several steps that give items")
		}
		return
	}
	if step.Merge == "first" || step.Merge == "last" {
		return
	}
	ways := make([]map[int]bool, len(inputs))
	for i, in := range inputs {
		ways[i] = c.way(here.scope, in)
	}
	for i := range inputs {
		for j := range i {
			if c.parallelSets(here, inputs, ways, j, i) {
				return // one warning a join
			}
		}
	}
}

// way are the stream steps that the items of a step have been through, itself included.
func (c *checker) way(s *scope, from int) map[int]bool {
	seen, next := map[int]bool{from: true}, []int{from}
	for ; len(next) > 0 && c.joinWork < maxJoinWork; next = next[1:] {
		for _, in := range StreamInputs(s.list, next[0], c.cat, s.index) {
			if c.joinWork++; !seen[in] {
				seen[in] = true
				next = append(next, in)
			}
		}
	}
	return seen
}

// parallelSets warns when a step on only one of two ways and a step on only the other set the same path.
func (c *checker) parallelSets(here located, inputs []int, ways []map[int]bool, a, b int) bool {
	common := false
	for i := range ways[a] {
		c.joinWork++
		common = common || ways[b][i]
	}
	if !common || c.joinWork >= maxJoinWork { // items of different sources are not merged
		return false
	}
	mine, theirs := c.setBy(here.scope, ways[a], ways[b]), c.setBy(here.scope, ways[b], ways[a])
	for _, p := range mine {
		for _, q := range theirs {
			if c.joinWork++; c.joinWork >= maxJoinWork {
				return false
			}
			if p.meets(q) {
				step := here.step()
				c.Warn(posOf(step, "depends_on"), here.path()+".depends_on", fmt.Sprintf("%s and %s, on two branches that %q joins, can both set %s: items for which they differ fail there", p.step, q.step, step.ID, p.path),
					fmt.Sprintf("let one of them depend on the other, or write merge: first or merge: last at %q", step.ID))
				return true
			}
		}
	}
	return false
}

// settable is a path that a step may set.
type settable struct {
	step  string
	path  item.Path
	value any // its value in the config; nil: not known
}

// removal, as settable.value, says that the path is removed.
type removal struct{}

// setBy are the paths that the steps of one way may set that the other does not have, in the order of the document.
func (c *checker) setBy(s *scope, way, other map[int]bool) []settable {
	var out []settable
	for i := range s.list {
		if !way[i] || other[i] {
			continue
		}
		about, ok := c.cat.Spec(s.list[i].Module)
		if !ok || about.Stream == nil {
			continue
		}
		for _, set := range about.Stream.Sets {
			out = set1(out, s.list[i].ID, set, ModuleConfig(c.def, &s.list[i], about))
		}
		if len(out) > maxJoinPaths {
			return out[:maxJoinPaths]
		}
	}
	return out
}

func set1(out []settable, step string, set spec.Sets, config map[string]any) []settable {
	add := func(text string, value any) {
		if path, err := item.ParsePath(text); err == nil && !strings.Contains(text, "{{") {
			out = append(out, settable{step, path, value})
		}
	}
	if set.Path != "" {
		add(set.Path, nil)
	}
	if values, ok := config[set.Keys].(map[string]any); ok {
		out = append(out, pathsOf(step, nil, values, set.Nested)...)
	}
	switch values := config[set.Values].(type) {
	case []any:
		for _, v := range values {
			if member, ok := v.(map[string]any); ok {
				text, _ := member[set.Member].(string)
				add(text, nil)
			} else if text, ok := v.(string); ok {
				add(text, removal{})
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if text, ok := values[key].(string); ok {
				add(text, nil)
			}
		}
	}
	return out
}

// pathsOf are the paths that the keys of an object name. In depth, a key below the first level is a name.
func pathsOf(step string, under item.Path, values map[string]any, nested bool) (out []settable) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path, err := item.ParsePath(key)
		if len(under) > 0 {
			path, err = item.Path{{Key: key}}, nil
		}
		if err != nil || len(under)+len(path) > item.MaxPath {
			continue
		}
		path = append(slices.Clone(under), path...)
		if inner, ok := values[key].(map[string]any); ok && nested {
			out = append(out, pathsOf(step, path, inner, true)...)
			continue
		}
		out = append(out, settable{step, path, values[key]})
	}
	return out
}

// meets reports whether two steps may set a place to different values. Sets that joins merge, and properties.updated,
// are no conflict.
func (s settable) meets(other settable) bool {
	for i := range min(len(s.path), len(other.path)) {
		a, b := s.path[i], other.path[i]
		if !a.Any && !b.Any && a != b {
			return false
		}
	}
	switch s.path.String() {
	case "links", "stac_extensions", "properties.updated":
		return false
	}
	if len(s.path) != len(other.path) {
		return true
	}
	return s.value == nil || !reflect.DeepEqual(s.value, other.value) && !(isSet(s.value) && isSet(other.value))
}

func isSet(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(e any) bool { _, text := e.(string); return !text })
}
