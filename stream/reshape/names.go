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

// unseen refuses a template that names something undefined in the step's scope: it would fail for every item. Known names
// may be undefined where the template allows for it (default, is defined).
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

// visible lists the known names in a template's scope, and the step's own where the scope can list them.
func visible(under expr.Scope) []string {
	var names []string
	for _, name := range known {
		if _, ok := under.Lookup(name); ok || name == "item" {
			names = append(names, name)
		}
	}
	for _, name := range (&scope{under: under}).Keys() {
		if !slices.Contains(names, name) {
			names = append(names, name)
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

// syntax is an error of a template with its hint moved out of the message, where it would appear twice.
func syntax(err error) error {
	e, ok := errors.AsType[*expr.Error](err)
	if !ok {
		return err
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message), Hint: e.Hint}
}
