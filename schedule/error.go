package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Error is a mistake in a Spec, with its place.
type Error struct {
	Field   string // of the Spec, in lower case: cron, every, at, zone, skipped …
	Text    string // the given value, when it is a text
	Column  int    // 1-based, in characters of Text; 0 when the whole of it is meant
	Message string
	Hint    string // the right form; may be empty
}

// Error renders field, place and message on one line, without the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Field)
	if e.Text != "" {
		fmt.Fprintf(&b, " %q", clip(e.Text))
	}
	if e.Column > 0 {
		fmt.Fprintf(&b, ", character %d:", e.Column)
	} else if e.Text != "" {
		b.WriteByte(':')
	}
	return b.String() + " " + e.Message
}

// invalid wraps the error the way users see it.
func (e *Error) invalid() error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Hint: e.Hint, Err: e}
}

// at places the error at a byte offset of the text.
func (e *Error) at(field, text string, offset int) *Error {
	e.Field, e.Text = field, text
	e.Column = 1 + utf8.RuneCountInString(text[:min(offset, len(text))])
	return e
}

// oneOf checks a named choice; the zero value is always one.
func oneOf[T ~string](field string, value T, choices ...T) *Error {
	names := make([]string, 0, len(choices))
	for _, c := range choices {
		if value == c {
			return nil
		}
		names = append(names, string(c))
	}
	if value == "" {
		return nil
	}
	return &Error{Field: field, Text: string(value), Message: "is not known", Hint: nameHint(string(value), names)}
}

// nameHint is a hint with the name that was meant, or with all of them.
func nameHint(name string, names []string) string {
	return cmp.Or(spec.DidYouMean(name, names), "one of "+strings.Join(names, ", "))
}

// clip shortens outside text, so that a message is never huge.
func clip(s string) string { return stepwell.Clip(s, 80) }
