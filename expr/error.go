package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Code is the kind of mistake that an Error reports.
type Code string

const (
	CodeSyntax      Code = "syntax"       // the source is not a template
	CodeUndefined   Code = "undefined"    // a value is needed and the reference has none
	CodeType        Code = "type"         // an operation does not fit its operands' types
	CodeBudget      Code = "budget"       // a limit of Limits, or of 64-bit integers, is exceeded
	CodeValue       Code = "value"        // right type, impossible value: division by zero, bad JSON
	CodeUnknownName Code = "unknown_name" // no such filter, test, function or method
)

// Error is every error of this package. Line and Column are 1-based, count
// characters, and are relative to the template's source; 0 means no position.
type Error struct {
	Code         Code
	Message      string
	Hint         string // the right form; may be empty
	Line, Column int
	Name         string // CodeUndefined: the full reference, such as steps.a.outputs.x
	Absent       bool   // CodeUndefined: the name is known, but there is no value (Absent); always true in revision 1

	absent *undefined
}

// Error renders position, message and hint on one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", e.Line, e.Column)
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func failf(code Code, format string, a ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, a...)}
}

// position turns a byte offset of src into a 1-based line and column.
func position(src string, off int) (line, column int) {
	off = min(max(off, 0), len(src))
	before := src[:off]
	line = 1 + strings.Count(before, "\n")
	return line, 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// located fills in the position of an error that has none yet.
func located(err error, src string, off int) error {
	if e, ok := err.(*Error); ok && e.Line == 0 {
		e.Line, e.Column = position(src, off)
	}
	return err
}

// didYouMean returns the candidate closest to name as a hint, or "" when none is close.
func didYouMean(name string, candidates []string) string {
	if len(candidates) > 1000 {
		return ""
	}
	return spec.DidYouMean(name, slices.Sorted(slices.Values(candidates))) // they may be a type's own
}

// clip shortens s so that an error message never carries a huge value.
func clip(s string) string { return stepwell.Clip(s, 60) }
