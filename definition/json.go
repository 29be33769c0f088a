package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell/spec"
)

func itoa(n int) string { return strconv.Itoa(n) }

// jsonReader walks over JSON that encoding/json has found valid, so it needs no error handling; it adds the places of
// values and keys.
type jsonReader struct {
	*loader
	at    int // next byte
	pos   Pos // of the byte at
	depth int
}

func (l *loader) parseJSON() *spec.Node {
	r := &jsonReader{loader: l, pos: Pos{Line: 1, Column: 1}}
	return r.value()
}

// skip moves behind white space, commas and colons.
func (r *jsonReader) skip() {
	for r.at < len(r.src) {
		switch r.src[r.at] {
		case '\n':
			r.pos = Pos{Line: r.pos.Line + 1, Column: 1}
		case ' ', '\t', '\r', ',', ':':
			r.pos.Column++
		default:
			return
		}
		r.at++
	}
}

// take consumes n bytes of one line.
func (r *jsonReader) take(n int) []byte {
	b := r.src[r.at : r.at+n]
	r.at += n
	r.pos.Column += utf8.RuneCount(b)
	return b
}

func (r *jsonReader) value() *spec.Node {
	r.skip()
	n := &spec.Node{Pos: r.pos}
	if r.depth++; r.depth > maxDepth+1 { // load reports the height; deeper values are never read
		r.skipDeep()
		n.Height = r.depth
		r.depth--
		return n
	}
	switch r.src[r.at] {
	case '{':
		r.object(n)
	case '[':
		r.list(n)
	case '"':
		n.Pos.Column++
		n.Literal = true
		n.Text, n.Loose = r.text()
		r.fill.apply(n, r.path)
	default:
		end := r.at
		for end < len(r.src) && !strings.ContainsRune(" \t\r\n,:]}", rune(r.src[end])) {
			end++
		}
		n.Text = string(r.take(end - r.at))
	}
	n.Measure()
	r.plain = spec.AddSaturating(r.plain, spec.NodeOverhead+len(n.Text))
	r.depth--
	return n
}

func (r *jsonReader) object(n *spec.Node) {
	n.Kind = spec.MapNode
	for r.take(1); ; {
		r.skip()
		if r.src[r.at] == '}' {
			break
		}
		pos := r.pos
		key, _ := r.text()
		r.plain = spec.AddSaturating(r.plain, spec.NodeOverhead+len(key))
		n.Entries = append(n.Entries, spec.Entry{Key: key, Pos: pos, Value: r.within(key, r.value)})
	}
	r.take(1)
	r.unique(n)
}

func (r *jsonReader) list(n *spec.Node) {
	n.Kind = spec.ListNode
	for r.take(1); ; {
		r.skip()
		if r.src[r.at] == ']' {
			break
		}
		n.Items = append(n.Items, r.within(itoa(len(n.Items)), r.value))
	}
	r.take(1)
}

// text reads a string; loose when escapes make its columns differ from the source's.
func (r *jsonReader) text() (text string, loose bool) {
	end := r.at + 1
	for r.src[end] != '"' {
		if r.src[end] == '\\' {
			end++
			loose = true
		}
		end++
	}
	raw := r.take(end + 1 - r.at)
	if !loose {
		return string(raw[1 : len(raw)-1]), false
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return string(raw), true // cannot happen: the document is valid
	}
	return text, true
}

// skipDeep moves to the end of the innermost list or object that is open: it leaves the rest of the
// value unread by jumping to the closing bracket that ends it.
func (r *jsonReader) skipDeep() {
	open := 0
	for {
		r.skip()
		switch r.src[r.at] {
		case '"':
			r.text()
		case '{', '[':
			open++
			r.take(1)
		case '}', ']':
			open--
			r.take(1)
		default:
			r.take(1)
		}
		if open <= 0 && (r.at >= len(r.src) || bytes.IndexByte([]byte(" \t\r\n,]}"), r.src[r.at]) >= 0) {
			return
		}
	}
}

func (l *loader) jsonError() {
	var v any
	err := json.Unmarshal(l.src, &v)
	pos, hint := Pos{Line: 1, Column: 1}, ""
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := l.src[:min(int(e.Offset), len(l.src))]
		line := bytes.LastIndexByte(before, '\n') + 1
		pos = Pos{Line: bytes.Count(before, []byte("\n")) + 1, Column: max(utf8.RuneCount(before[line:]), 1)}
		if strings.Contains(e.Error(), "unexpected end") {
			hint = "the document ends too early"
		}
	}
	l.report.Fail(pos, "", "not valid JSON: "+err.Error(), hint)
}
