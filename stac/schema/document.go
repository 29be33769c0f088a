package schema

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
)

// Bounds of a value.
const (
	maxDepth    = 500  // nesting
	maxNumber   = 4096 // characters of a number
	maxExponent = 9999
	keptNodes   = 1 << 16 // of a released Document, 2.3 MB
)

// Document is a JSON value laid out for Check: its values in one list, in the order of the text. Not for several
// goroutines.
type Document struct {
	text  string // followed by unescaped texts
	nodes []node
	trial trial
}

// node is one value. It holds no pointer: the garbage collector does not look at it.
type node struct {
	start, end       uint32 // of an unescaped text, or of a number, in Document.text
	keyStart, keyEnd uint32 // of a member's name
	hash             uint32 // of that name
	next             int32  // the node behind this one and all that is inside
	size             int32  // members or elements
	kind             uint8  // isNull, isBool, isNumber, isText, isList or isObject
	yes              bool   // of a boolean
}

var documents = sync.Pool{New: func() any { return new(Document) }}

// Parse lays out a valid JSON text without repeated names, such as an item's Bytes, which must not change before it
// returns. Errors are CodeInvalid: the value is nested more than 500 levels deep, or holds a number beyond any range.
func Parse(text []byte) (*Document, error) {
	if len(text) > math.MaxInt32 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "more than 2 GiB of JSON"}
	}
	d := documents.Get().(*Document)
	p := parser{raw: text, nodes: d.nodes[:0]}
	p.value(maxDepth, node{})
	d.nodes = p.nodes
	if p.fault != "" {
		d.Release()
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: p.fault + " at byte " + strconv.Itoa(p.at)}
	}
	d.text = string(text)
	if len(p.more) > 0 {
		d.text += string(p.more)
	}
	return d, nil
}

// Release recycles the memory of a Document. The Document must not be used any more; results of Value and Check may.
func (d *Document) Release() {
	if cap(d.nodes) > keptNodes {
		return
	}
	d.text = ""
	documents.Put(d)
}

// Value is the value as maps, lists, texts, booleans, nil and json.Number, as Validate and Core take it.
func (d *Document) Value() any { return d.value(0) }

// Decode is the Value of a Document. Errors as of Parse.
func Decode(text []byte) (any, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	defer d.Release()
	return d.Value(), nil
}

func (d *Document) value(at int32) any {
	switch n := &d.nodes[at]; n.kind {
	case isBool:
		return n.yes
	case isNumber:
		return json.Number(d.text[n.start:n.end])
	case isText:
		return d.text[n.start:n.end]
	case isList:
		out := make([]any, 0, n.size)
		for kid := at + 1; kid < n.next; kid = d.nodes[kid].next {
			out = append(out, d.value(kid))
		}
		return out
	case isObject:
		out := make(map[string]any, n.size)
		for kid := at + 1; kid < n.next; kid = d.nodes[kid].next {
			out[d.key(kid)] = d.value(kid)
		}
		return out
	}
	return nil
}

func (d *Document) key(at int32) string {
	n := &d.nodes[at]
	return d.text[n.keyStart:n.keyEnd]
}

// member is the node of an object's member, 0 when there is none.
func (d *Document) member(of int32, name string) int32 {
	hash, end := nameHash(name), d.nodes[of].next
	for kid := of + 1; kid < end; kid = d.nodes[kid].next {
		if d.nodes[kid].hash == hash && d.key(kid) == name {
			return kid
		}
	}
	return 0
}

// nameHash hashes names by their length, their first and their last eight bytes.
func nameHash[T string | []byte](s T) uint32 {
	n := len(s)
	a, b := uint64(n), uint64(0)
	switch {
	case n >= 8:
		t := s[n-8:]
		a ^= uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		b = uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
	default:
		for i := range n {
			b = b<<8 | uint64(s[i])
		}
	}
	const mix1, mix2 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	hash := a*mix1 ^ b*mix2
	return uint32((hash ^ hash>>29) * mix1 >> 32)
}

// parser goes over a text that is known to be valid.
type parser struct {
	raw   []byte
	at    int
	nodes []node
	more  []byte // unescaped texts
	fault string
}

func (p *parser) fail(what string) {
	if p.fault == "" {
		p.fault = what
	}
}

// space goes to the next byte that is no white space.
func (p *parser) space() byte {
	for ; p.at < len(p.raw); p.at++ {
		if c := p.raw[p.at]; c > ' ' {
			return c
		}
	}
	p.fail("the text ends early")
	return 0
}

// value adds the value that begins here, with its children. n holds the name of a member.
func (p *parser) value(depth int, n node) {
	if depth == 0 {
		p.fail("nested more than " + strconv.Itoa(maxDepth) + " levels deep")
		return
	}
	at := len(p.nodes)
	n.next = int32(at + 1)
	switch c := p.space(); c {
	case '{', '[':
		if n.kind = isList; c == '{' {
			n.kind = isObject
		}
		p.nodes = append(p.nodes, n)
		size := p.inside(depth-1, c == '{')
		p.nodes[at].size, p.nodes[at].next = size, int32(len(p.nodes))
		return
	case '"':
		n.kind = isText
		n.start, n.end = p.quoted()
	case 't':
		n.kind, n.yes = isBool, true
		p.at += len("true")
	case 'f':
		n.kind = isBool
		p.at += len("false")
	case 'n':
		n.kind = isNull
		p.at += len("null")
	default:
		n.kind = isNumber
		n.start, n.end = p.number()
	}
	p.nodes = append(p.nodes, n)
}

// inside adds the children of a list or an object.
func (p *parser) inside(depth int, object bool) (size int32) {
	p.at++
	for p.fault == "" {
		switch p.space() {
		case '}', ']':
			p.at++
			return size
		case ',':
			p.at++
			p.space()
		}
		var n node
		if object {
			n.keyStart, n.keyEnd = p.quoted()
			if n.keyEnd <= uint32(len(p.raw)) {
				n.hash = nameHash(p.raw[n.keyStart:n.keyEnd])
			} else {
				n.hash = nameHash(p.more[n.keyStart-uint32(len(p.raw)) : n.keyEnd-uint32(len(p.raw))])
			}
			p.space()
			p.at++ // the colon
		}
		p.value(depth, n)
		size++
	}
	return size
}

// quoted skips the text that begins here, and returns the place of its unescaped form.
func (p *parser) quoted() (start, end uint32) {
	if p.at >= len(p.raw) {
		p.fail("the text ends early")
		return 0, 0
	}
	p.at++
	from := p.at
	switch p.at += closing(p.raw[p.at:]); {
	case p.at >= len(p.raw):
		p.fail("the text ends early")
		return 0, 0
	case p.raw[p.at] == '\\':
		return p.escaped(from)
	}
	p.at++
	return uint32(from), uint32(p.at - 1)
}

// closing counts the bytes before the first quote or backslash, eight at a time: in special, the highest bit of each
// byte of a word marks such a byte, exactly for the lowest one.
func closing(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		special := ((quote - ones) &^ quote) | ((slash - ones) &^ slash)
		if special &= highs; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(text) && text[i] != '"' && text[i] != '\\'; i++ {
	}
	return i
}

// escaped is the rest of quoted, for a text with a backslash.
func (p *parser) escaped(from int) (start, end uint32) {
	for p.at < len(p.raw) && p.raw[p.at] != '"' {
		if p.raw[p.at] == '\\' {
			p.at++
		}
		p.at++
	}
	if p.at >= len(p.raw) {
		p.fail("the text ends early")
		return 0, 0
	}
	p.at++
	start = uint32(len(p.raw) + len(p.more))
	more, err := jsontext.AppendUnquote(p.more, p.raw[from-1:p.at])
	if err != nil {
		p.fail("bad text: " + err.Error())
	}
	p.more = more
	return start, uint32(len(p.raw) + len(p.more))
}

func (p *parser) number() (start, end uint32) {
	from, exponent := p.at, -1
scan:
	for ; p.at < len(p.raw); p.at++ {
		switch c := p.raw[p.at]; {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+':
		case c == 'e', c == 'E':
			exponent = p.at + 1
		default:
			break scan
		}
	}
	if n := p.at - from; n == 0 || n > maxNumber {
		p.fail("a number of " + strconv.Itoa(n) + " characters")
	}
	if exponent >= 0 {
		if n, err := strconv.Atoi(string(p.raw[exponent:p.at])); err != nil || n > maxExponent || n < -maxExponent {
			p.fail("the exponent of a number is beyond " + strconv.Itoa(maxExponent))
		}
	}
	return uint32(from), uint32(p.at)
}
