package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/stepwell/stepwell"
)

// problems makes the library's tree of errors a list.
func (s *Schema) problems(err error) []Problem {
	verr, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Problem{{Schema: s.URI, Message: clip(err.Error())}}
	}
	words := explain
	if s.doc != nil {
		words = s.explainCore
	}
	var list []Problem
	for _, leaf := range leaves(verr, nil) {
		list = append(list, Problem{Schema: s.URI, Pointer: pointer(leaf.InstanceLocation), Keyword: keyword(leaf), Message: clip(words(leaf))})
	}
	return sorted(list)
}

// sorted orders problems, drops repetitions and keeps the first MaxProblems.
func sorted(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	list = slices.Compact(list)
	return list[:min(len(list), MaxProblems)]
}

// Summarize makes one error of the first problems.
func Summarize(problems []Problem) error {
	const most = 5
	var parts []string
	for _, p := range problems[:min(len(problems), most)] {
		parts = append(parts, p.String())
	}
	if more := len(problems) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(parts, "; "))
}

// leaves are the errors that say something; of alternatives, those of the best.
func leaves(e *jsonschema.ValidationError, to []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		if len(e.Causes) > 0 {
			return leaves(best(e), to)
		}
	case *kind.Contains, *kind.MinContains: // their causes are about irrelevant elements
		return append(to, e)
	}
	if len(e.Causes) == 0 {
		return append(to, e)
	}
	for _, cause := range e.Causes {
		to = leaves(cause, to)
	}
	return to
}

// best is the alternative most likely meant: the one that differs least in the distinguishing members. These are above
// all `type`, then other kinds and constants close by.
func best(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	depth := len(e.InstanceLocation)
	return slices.MinFunc(e.Causes, func(a, b *jsonschema.ValidationError) int { return cmp.Compare(distance(a, depth), distance(b, depth)) })
}

func distance(e *jsonschema.ValidationError, depth int) (n int) {
	for _, leaf := range leaves(e, nil) {
		below := leaf.InstanceLocation[min(depth, len(leaf.InstanceLocation)):]
		n++
		switch leaf.ErrorKind.(type) {
		case *kind.Const, *kind.Enum, *kind.Type:
			switch {
			case len(below) == 1 && below[0] == "type":
				n += 100_000
			case len(below) == 0:
				n += 10_000
			case len(below) == 1:
				n += 100
			}
		}
	}
	return n
}

func keyword(e *jsonschema.ValidationError) string {
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	switch e.ErrorKind.(type) {
	case *kind.FalseSchema, *kind.Not:
		return "not"
	}
	return ""
}

// explain says it in words; the library's are good for most.
func explain(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.FalseSchema, *kind.Not:
		return "is not allowed here"
	case *kind.AdditionalProperties:
		names := slices.Sorted(slices.Values(k.Properties)) // the library's order is that of a map
		return "unknown properties " + quoted(names)
	case *kind.Required:
		return "missing " + quoted(k.Missing)
	case *kind.Dependency:
		return "missing " + quoted(k.Missing) + ", which " + k.Prop + " needs"
	case *kind.Contains:
		return "no element is as the schema requires"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "fits more than one alternative"
		}
	}
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "'" + name + "'"
	}
	return strings.Join(out, ", ")
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// clip bounds a message, which may quote the object.
func clip(text string) string {
	if len(text) <= MaxMessage {
		return text
	}
	return stepwell.Head(text, MaxMessage-len("…")) + "…"
}
