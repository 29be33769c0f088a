package reshape

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// known are the names a template may see. A for_each around the step can define more.
var known = []string{"item", "index", "params", "steps", "execution", "project", "lesson", "secrets", "collection"}

// misspelt refuses names that are one letter off a known one. It is all that can be said before a step is
// opened: any other name may be that of a for_each.
func misspelt(t *expr.Template) error {
	for _, ref := range t.Refs() {
		name := ref.Path[0]
		if slices.Contains(known, name) {
			continue
		}
		if near := spec.Closest(name, known); near != "" && slip(strings.ToLower(name), near) {
			return unknown(ref, near, nil)
		}
	}
	return nil
}

// unseen refuses names that the step does not see: what is undefined is false in a condition, so that a
// filter would drop all items without a word. A template that copes with a known name being undefined may
// name it.
func unseen(t *expr.Template, under expr.Scope) error {
	if under == nil {
		return nil
	}
	for _, ref := range t.Refs() {
		name := ref.Path[0]
		if name == "item" || ref.Guarded && slices.Contains(known, name) {
			continue
		}
		if _, ok := under.Lookup(name); ok {
			continue
		}
		names := visible(under)
		return unknown(ref, spec.Closest(name, names), names)
	}
	return nil
}

// visible lists what a template sees of the known names, and the step's own where the scope can tell.
func visible(under expr.Scope) []string {
	var names []string
	for _, name := range known {
		if _, ok := under.Lookup(name); ok || name == "item" {
			names = append(names, name)
		}
	}
	if keyed, ok := under.(interface{ Keys() []string }); ok {
		for _, name := range keyed.Keys() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func unknown(ref expr.Ref, near string, names []string) error {
	hint := "did you mean " + near + "?"
	if near == "" {
		hint = "known are " + strings.Join(names, ", ")
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%d:%d: %s is unknown", ref.Line, ref.Column, strconv.Quote(ref.Path[0])), Hint: hint}
}

// slip reports whether one letter was changed, added, dropped or swapped with its neighbour. A plural or a
// singular is no slip: step and items are good names in a for_each.
func slip(name, meant string) bool {
	if name == meant+"s" || name+"s" == meant {
		return false
	}
	i := 0
	for i < len(name) && i < len(meant) && name[i] == meant[i] {
		i++
	}
	a, b := name[i:], meant[i:]
	switch len(a) - len(b) {
	case 1:
		return a[1:] == b
	case -1:
		return a == b[1:]
	case 0:
		return a == "" || a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
	}
	return false
}

// syntax is an error of a template with its hint beside it instead of inside, where it would be told twice.
func syntax(err error) error {
	e, ok := errors.AsType[*expr.Error](err)
	if !ok {
		return err
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message), Hint: e.Hint}
}
