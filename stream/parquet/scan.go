package parquet

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell/item"
)

// scan goes over the text of one JSON value, once and without taking it apart. The text is known to be
// valid.
type scan struct {
	b []byte
	i int
}

// peek is the first byte of the next value or closing bracket.
func (p *scan) peek() byte {
	for p.b[p.i] <= ' ' {
		p.i++
	}
	return p.b[p.i]
}

// more moves to the next member or element of an object or list, and reports whether there is one. n counts those
// before.
func (p *scan) more(n int) bool {
	switch p.peek() {
	case '}', ']':
		p.i++
		return false
	case ',':
		if n > 0 {
			p.i++
		}
	}
	return true
}

// text moves past a quoted text and returns it, quotes included.
func (p *scan) text() []byte {
	p.peek()
	start := p.i
	for p.i++; ; {
		end := p.i + bytes.IndexByte(p.b[p.i:], '"')
		slashes := 0
		for p.b[end-1-slashes] == '\\' {
			slashes++
		}
		p.i = end + 1
		if slashes%2 == 0 {
			return p.b[start:p.i]
		}
	}
}

// key moves past a member's name and the colon, and returns the name.
func (p *scan) key() []byte {
	key := plainText(p.text())
	p.peek()
	p.i++
	return key
}

// keyIs moves past a member's name and the colon when the name is this one, in which nothing needs an escape.
func (p *scan) keyIs(name string) bool {
	p.peek()
	end := p.i + 1 + len(name)
	if end >= len(p.b) || p.b[end] != '"' || string(p.b[p.i+1:end]) != name {
		return false
	}
	p.i = end + 1
	p.peek()
	p.i++
	return true
}

// null moves past a null, and reports whether there was one.
func (p *scan) null() bool {
	if p.peek() != 'n' {
		return false
	}
	p.i += len("null")
	return true
}

// value moves past any value and returns its text.
func (p *scan) value() []byte {
	first := p.peek()
	start := p.i
	switch first {
	case '"':
		return p.text()
	case '{', '[':
		p.i = item.SkipNested(p.b, p.i)
	default:
		for p.i < len(p.b) && !delimiter[p.b[p.i]] {
			p.i++
		}
	}
	return p.b[start:p.i]
}

var delimiter = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\r': true, '\n': true}

// plainText unquotes a text. Without escapes it shares its memory.
func plainText(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	out, _ := jsontext.AppendUnquote(nil, quoted) // an unpaired surrogate is replaced
	return out
}
