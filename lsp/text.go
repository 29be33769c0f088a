package lsp

import (
	"net/url"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell/definition"
)

// text is a document with its lines. It never changes.
type text struct {
	src   string
	lines []int // where each begins
}

func newText(src string) *text {
	t := &text{src: src, lines: []int{0}}
	for at := 0; ; {
		i := strings.IndexByte(src[at:], '\n')
		if i < 0 {
			return t
		}
		at += i + 1
		t.lines = append(t.lines, at)
	}
}

// line is a line without its end; "" for one that there is not.
func (t *text) line(n int) string {
	if n < 0 || n >= len(t.lines) {
		return ""
	}
	end := len(t.src)
	if n+1 < len(t.lines) {
		end = t.lines[n+1] - 1
	}
	return strings.TrimSuffix(t.src[t.lines[n]:end], "\r")
}

// offset is the byte at a position, which is moved into the document and onto a whole character.
func (t *text) offset(p position) int {
	if p.Line < 0 {
		return 0
	}
	if p.Line >= len(t.lines) {
		return len(t.src)
	}
	line, units := t.line(p.Line), 0
	for i, r := range line {
		width := 1
		if r > 0xFFFF {
			width = 2
		}
		if units+width > p.Character {
			return t.lines[p.Line] + i
		}
		units += width
	}
	return t.lines[p.Line] + len(line)
}

// position is where a byte stands.
func (t *text) position(offset int) position {
	offset = max(0, min(offset, len(t.src)))
	n := sort.Search(len(t.lines), func(i int) bool { return t.lines[i] > offset }) - 1
	return position{n, units(t.src[t.lines[n]:offset])}
}

// units counts the UTF-16 units of a text.
func units(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// span is the range of bytes.
func (t *text) span(from, to int) span { return span{t.position(from), t.position(to)} }

// at is the byte of a place of package definition, which counts lines and characters from 1.
func (t *text) at(pos definition.Pos) int {
	if pos.Line < 1 {
		return 0
	}
	if pos.Line > len(t.lines) {
		return len(t.src)
	}
	start, line := t.lines[pos.Line-1], t.line(pos.Line-1)
	for i := range line {
		if utf8.RuneCountInString(line[:i]) >= pos.Column-1 {
			return start + i
		}
	}
	return start + len(line)
}

// isWord reports whether a byte may be part of an id, a key or the name of an action.
func isWord(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// word is the end of the word that begins at a byte; one character where there is none.
func (t *text) word(from int) int {
	to := from
	for to < len(t.src) && isWord(t.src[to]) {
		to++
	}
	if to == from && to < len(t.src) && t.src[to] != '\n' && t.src[to] != '\r' {
		to++
	}
	return to
}

// replace is the document after a change.
func (t *text) replace(r *span, with string) string {
	if r == nil {
		return with
	}
	from, to := t.offset(r.Start), t.offset(r.End)
	if to < from {
		from, to = to, from
	}
	return t.src[:from] + with + t.src[to:]
}

// fileOf is the path of a file: URI; of others, such as an editor's unsaved document, the URI itself.
func fileOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	path := u.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' { // /c:/pipelines
		path = path[1:]
	}
	return filepath.FromSlash(path)
}

// uriOf is the URI of a file.
func uriOf(file string) string {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
