package definition

import (
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Template is a text with tags, or an expression, at its place in a definition.
type Template struct {
	Text  string
	Whole bool        // a condition, or an expression without braces: expr.ParseCondition reads it
	Site  Site        // the kind of place
	List  string      // the path of the list of its step, "steps[2].steps"; "" outside of steps
	Index int         // of the step in that list
	At    string      // within the step, as in Step.At; outside of steps as in Definition.At
	Path  string      // in the document
	Field *spec.Field // of the value; nil: unknown
	Raw   bool        // the action renders it, and knows more names:
	Names []string    // these; nil: unknown ones
	src   *source
	// Parsed is the template, read; nil: it has a mistake, which Check reports.
	Parsed *expr.Template
}

// Place is the position of a line and a column of the text.
func (t *Template) Place(line, column int) Pos { return t.src.place(t.At, line, column) }

// show tells the visitor of a template.
func (c *checker) show(text string, f *spec.Field, at string, src *source) {
	if c.visit == nil {
		return
	}
	t := &Template{Text: text, Whole: src.whole || !isTemplate(text), Site: src.site, At: at, Path: spec.PlainPath(src.base, at), Field: f, Raw: src.raw, Names: src.names, src: src}
	t.Parsed = c.parse(text, t.Whole).template
	if src.base != "" && src.index >= 0 {
		t.List, t.Index = src.scope.path, src.index
	}
	c.visit(t)
}
