package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/scenario"
)

// treeDifference is the first difference between what two folders hold; "": none.
func treeDifference(want, got scenario.Tree) string {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		w, g := want[path], got[path]
		_, there := got[path]
		switch {
		case !there:
			return path + " is not there"
		case w.Sum == g.Sum:
		case w.Lines >= 0 && g.Lines >= 0 && w.Lines != g.Lines:
			return fmt.Sprintf("%s has %d lines instead of %d", path, g.Lines, w.Lines)
		case w.Size != g.Size:
			return fmt.Sprintf("%s has %d bytes instead of %d", path, g.Size, w.Size)
		default:
			return path + " has another content"
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[path]; !there {
			return "there is " + path + ", which was not there"
		}
	}
	return ""
}

// valueDifference is the first place at which two values differ, but for times; "": none.
func valueDifference(path string, want, got any) string {
	w, isMap := want.(map[string]any)
	if g, ok := got.(map[string]any); isMap && ok && len(w) == len(g) {
		for _, name := range slices.Sorted(maps.Keys(w)) {
			if d := valueDifference(path+"."+name, w[name], g[name]); d != "" {
				return d
			}
		}
		return ""
	}
	a, err := expr.Marshal(want)
	b, wrong := expr.Marshal(got)
	if err != nil || wrong != nil || bytes.Equal(scenario.Timestamp.ReplaceAll(a, nil), scenario.Timestamp.ReplaceAll(b, nil)) {
		return ""
	}
	return fmt.Sprintf("%s is %s instead of %s", path, stepwell.Clip(string(b), 100), stepwell.Clip(string(a), 100))
}

// plain is a value as its JSON says it.
func plain(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return v
	}
	return out
}

// unlike is how running a step twice differs from running it once; "": it does not.
func unlike(x *scenario.Repeated) string {
	if err := x.Errs[1]; err != nil {
		return "the second time it fails: " + stepwell.Clip(strings.TrimSpace(err.Error()), 200)
	}
	if d := treeDifference(x.Trees[0], x.Trees[1]); d != "" {
		return d
	}
	return valueDifference("outputs", plain(x.Outputs[0]), plain(x.Outputs[1]))
}
