package lsp

import (
	"regexp"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
)

var (
	meant   = regexp.MustCompile("did you mean `?\"?([A-Za-z0-9_.-]+?)`?\"?\\?")
	instead = regexp.MustCompile(`^write ([a-z_]+)$`)
)

// maxFixed bounds the problems that fixes are looked for.
const maxFixed = 20

// actions are what can be done about the problems in a range.
func (s *server) actions(d *document, p *placeParams) (any, error) {
	a := s.analyse(d)
	out := []codeAction{}
	found := 0
	for i := range a.problems {
		problem := &a.problems[i]
		if problem.File != "" && problem.File != d.file || problem.Line == 0 || problem.Line > len(a.text.lines) || // the parser knows more line breaks than an editor
			problem.Line-1 < p.Range.Start.Line || problem.Line-1 > p.Range.End.Line {
			continue
		}
		if found++; found > maxFixed {
			break
		}
		shown := a.diagnostic(problem)
		add := func(title string, preferred bool, edit textEdit) {
			out = append(out, codeAction{title, "quickfix", []diagnostic{shown}, preferred, workspaceEdit{map[string][]textEdit{d.uri: {edit}}}})
		}
		if at, to, ok := a.meant(problem); ok {
			add("Write "+to, true, textEdit{at, to})
		}
		if problem.Code == "SW303" {
			if edit, ok := a.idempotent(problem); ok {
				add("Say that the step may run twice: idempotent: true", false, edit)
			}
		}
		if edit, ok := s.suppressed(d, a, problem); ok {
			add("Suppress "+problem.Code+" here", false, edit)
		}
	}
	return append(out, s.mocks(d, p)...), nil
}

// meant replaces what the message quotes with what the hint has for it.
func (a *analysis) meant(p *definition.Problem) (at span, to string, ok bool) {
	m := meant.FindStringSubmatch(p.Hint)
	if m == nil {
		m = instead.FindStringSubmatch(p.Hint)
	}
	if m == nil {
		return span{}, "", false
	}
	line := a.text.line(p.Line - 1)
	start := a.text.lines[p.Line-1]
	from := a.text.at(definition.Pos{Line: p.Line, Column: p.Column})
	for _, q := range quoted.FindAllStringSubmatch(p.Message, -1) {
		// The word itself: at the place, else the only one of the line.
		switch {
		case strings.HasPrefix(a.text.src[from:], q[1]):
			return a.text.span(from, from+len(q[1])), m[1], true
		case strings.Count(line, q[1]) == 1:
			i := start + strings.Index(line, q[1])
			return a.text.span(i, i+len(q[1])), m[1], true
		}
	}
	return span{}, "", false
}

// idempotent adds the key to the step of a problem, below its id.
func (a *analysis) idempotent(p *definition.Problem) (edit textEdit, ok bool) {
	if a.pipeline == nil {
		return edit, false
	}
	var best *definition.Step
	a.pipeline.each(func(step *definition.Step) {
		if step.Pos.Line <= p.Line && step.Pos.Line > 0 && (best == nil || step.Pos.Line > best.Pos.Line) {
			best = step
		}
	})
	if best == nil || best.Idempotent != nil {
		return edit, false
	}
	line := placeIn(best, "id").Line - 1
	dashes, column, rest := parts(a.text.line(line))
	if key, _, found := keyIn(rest); !found || key != "id" || len(dashes) > 1 {
		return edit, false // in braces
	}
	end := a.text.lines[line] + len(a.text.line(line))
	return textEdit{a.text.span(end, end), "\n" + strings.Repeat(" ", column) + "idempotent: true"}, true
}

// suppressed puts a comment above the line of a problem. It is offered only where it helps: not within a block text, and not for
// an invalid definition.
func (s *server) suppressed(d *document, a *analysis, p *definition.Problem) (edit textEdit, ok bool) {
	if p.Code == "" || p.Code == lint.CodeInvalid && !p.Warning {
		return edit, false
	}
	line := p.Line - 1
	text := a.text.line(line)
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	at := a.text.lines[line]
	edit = textEdit{a.text.span(at, at), indent + "# stepwell: ignore " + p.Code + " say why\n"}
	after := s.analysisOf(d, newText(a.text.replace(&edit.Range, edit.NewText)))
	return edit, after.pipeline != nil && len(after.problems) < len(a.problems)
}
