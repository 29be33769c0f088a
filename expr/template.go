package expr

import (
	"slices"
	"strings"
)

// stmt is one compiled piece of a text template.
type stmt interface {
	run(st *state)
}

// body parses text and tags up to one of the block tags in until, or up to the end of the
// source when until is empty. It returns the tag that ended it, with its name consumed.
func (p *parser) body(until ...string) ([]stmt, string) {
	p.enter()
	defer p.leave()
	var out []stmt
	for p.err == nil {
		text, kind := p.text()
		if text != "" {
			out = append(out, &textStmt{text: text})
		}
		switch kind {
		case "":
			if len(until) > 0 {
				p.failf(len(p.src), "", "the block is not closed: {%% %s %%} is missing", until[len(until)-1])
			}
			return out, ""
		case "{{":
			out = append(out, p.output())
		case "{%":
			name := p.tok
			if name.kind != tokenName {
				p.failf(name.off, "", "expected the name of a tag, found %s", name.describe())
				return out, ""
			}
			p.advance()
			if slices.Contains(until, name.text) {
				return out, name.text
			}
			if s := p.statement(name); s != nil {
				out = append(out, s)
			}
		}
	}
	return out, ""
}

// text returns the text up to the next tag and enters the tag: p.tok is its first token.
// Comments and raw blocks are taken in on the way.
func (p *parser) text() (string, string) {
	var b strings.Builder
	for {
		rest := p.src[p.lex.off:]
		i := nextTag(rest)
		if i < 0 {
			p.lex.off = len(p.src)
			b.WriteString(rest)
			return b.String(), ""
		}
		start := p.lex.off + i
		open := rest[i : i+2]
		piece := rest[:i]
		after := start + 2
		if after < len(p.src) && p.src[after] == '-' {
			piece = strings.TrimRight(piece, whitespace)
			if piece == "" {
				kept := strings.TrimRight(b.String(), whitespace)
				b.Reset()
				b.WriteString(kept)
			}
			after++
		} else if open == "{%" && after < len(p.src) && p.src[after] == '+' {
			after++
		}
		b.WriteString(piece)
		switch {
		case open == "{#":
			p.comment(start, after)
		case open == "{%" && p.rawBlock(start, after, &b):
		default:
			p.openTag(start, after, open)
			return b.String(), open
		}
		if p.err != nil {
			return b.String(), "{#"
		}
	}
}

const whitespace = " \t\r\n\f\v"

// nextTag is the offset of the next {{, {% or {#, or -1.
func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		from += i
		if c := s[from+1]; c == '{' || c == '%' || c == '#' {
			return from
		}
		from++
	}
}

func (p *parser) openTag(start, after int, open string) {
	closer := "}}"
	if open == "{%" {
		closer = "%}"
	}
	p.lex = lexer{src: p.src, off: after, start: start, closer: closer}
	p.advance()
}

// closeTag leaves the tag, eating white space after it when it ends in a minus.
func (p *parser) closeTag() {
	if p.err != nil {
		return
	}
	if p.tok.kind != tokenEnd {
		p.failf(p.tok.off, "", "expected %s, found %s", p.lex.closer, p.tok.describe())
		return
	}
	rest := p.src[p.tok.off:]
	trim := rest[0] == '-'
	if trim || rest[0] == '+' {
		rest = rest[1:]
	}
	p.skipTo(rest[len(p.lex.closer):], trim)
}

func (p *parser) skipTo(rest string, trim bool) {
	if trim {
		rest = strings.TrimLeft(rest, whitespace)
	}
	p.lex.off = len(p.src) - len(rest)
}

func (p *parser) comment(start, after int) {
	end := strings.Index(p.src[after:], "#}")
	if end < 0 {
		p.failf(start, "", "the comment is not closed: #} is missing")
		return
	}
	end += after
	p.skipTo(p.src[end+2:], end > after && p.src[end-1] == '-')
}

// rawBlock takes in {% raw %}…{% endraw %} as text; false when the tag is another one.
func (p *parser) rawBlock(start, after int, b *strings.Builder) bool {
	rest, ok := rawTag(p.src[after:], "raw")
	if !ok {
		return false
	}
	inner, trimInner := rest.after, rest.trimAfter
	for from := 0; ; {
		i := strings.Index(inner[from:], "{%")
		if i < 0 {
			p.failf(start, "", "the raw block is not closed: {%% endraw %%} is missing")
			return true
		}
		from += i
		tag := strings.TrimPrefix(inner[from+2:], "+")
		minus := strings.HasPrefix(tag, "-")
		end, ok := rawTag(strings.TrimPrefix(tag, "-"), "endraw")
		if !ok {
			from += 2
			continue
		}
		text := inner[:from]
		if trimInner {
			text = strings.TrimLeft(text, whitespace)
		}
		if minus {
			text = strings.TrimRight(text, whitespace)
		}
		b.WriteString(text)
		p.skipTo(end.after, end.trimAfter)
		return true
	}
}

type rawEnd struct {
	after     string
	trimAfter bool
}

// rawTag matches the rest of a tag that consists of one word.
func rawTag(s, word string) (rawEnd, bool) {
	s, ok := strings.CutPrefix(strings.TrimLeft(s, whitespace), word)
	if !ok {
		return rawEnd{}, false
	}
	s = strings.TrimLeft(s, whitespace)
	if rest, ok := strings.CutPrefix(s, "-%}"); ok {
		return rawEnd{rest, true}, true
	}
	if rest, ok := strings.CutPrefix(s, "+%}"); ok {
		return rawEnd{rest, false}, true
	}
	rest, ok := strings.CutPrefix(s, "%}")
	return rawEnd{rest, false}, ok
}

func (p *parser) output() stmt {
	if p.tok.kind == tokenEnd {
		p.failf(p.tok.off, "", "the tag {{ }} is empty")
	}
	n := p.tuple()
	p.closeTag()
	return &outputStmt{of: n}
}
