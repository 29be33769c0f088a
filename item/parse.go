package item

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
)

// MaxDepth is the maximum nesting of lists and objects in Parse.
const MaxDepth = 1000

// Parse takes one JSON value (RFC 8259, and I-JSON where it is stricter: RFC 7493 §2.1 and §2.3), with white
// space around it. The text belongs to the Value from then on and must not be changed. Errors are
// CodeInvalid and name the byte: bad syntax, invalid UTF-8 or an unpaired surrogate, a name twice in one
// object, text behind the value, more than MaxDepth levels.
func Parse(text []byte) (*Value, error) {
	if len(text) > math.MaxInt32 {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "a JSON text of more than 2 GiB"}
	}
	p := parser{text: text}
	p.space()
	start := p.at
	if p.value(0) {
		end := p.at
		if p.space(); p.at == len(text) {
			v := &Value{text: text[start:end:end], kind: KindOf(text[start])}
			if v.kind == Object {
				v.inner = p.cut.done(text)
			}
			return v, nil
		}
		p.fail("text follows the value")
	}
	message := "invalid JSON at byte " + strconv.Itoa(p.at) + ": " + p.wrong
	return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: message}
}

// parser checks a text in one pass, and splits the outermost object into its members, because every user of an item
// needs them.
type parser struct {
	text  []byte
	at    int
	cut   cutter
	wrong string // the error at `at`
}

func (p *parser) fail(what string) bool {
	if p.at >= len(p.text) {
		what = "it ends too early"
	}
	p.wrong = what
	return false
}

// peek is the next byte, 0 at the end: no valid text holds one outside of a value.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) space() {
	for p.at < len(p.text) && p.text[p.at] <= ' ' && white(p.text[p.at]) {
		p.at++
	}
}

func white(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (p *parser) value(depth int) bool {
	switch c := p.peek(); c {
	case '{', '[':
		if depth == MaxDepth {
			return p.fail("it nests deeper than " + strconv.Itoa(MaxDepth) + " levels")
		}
		if c == '{' {
			return p.object(depth)
		}
		return p.list(depth)
	case '"':
		_, ok := p.quoted()
		return ok
	case 't':
		return p.word("true")
	case 'f':
		return p.word("false")
	case 'n':
		return p.word("null")
	}
	return p.number()
}

func (p *parser) word(word string) bool {
	for i := range len(word) {
		if p.peek() != word[i] {
			return p.fail("expected " + word)
		}
		p.at++
	}
	return true
}

func (p *parser) list(depth int) bool {
	p.at++
	if p.space(); p.peek() == ']' {
		p.at++
		return true
	}
	for {
		if p.space(); !p.value(depth + 1) {
			return false
		}
		switch p.space(); p.peek() {
		case ',':
			p.at++
		case ']':
			p.at++
			return true
		default:
			return p.fail("expected a comma or ]")
		}
	}
}

func (p *parser) object(depth int) bool {
	p.at++
	if p.space(); p.peek() == '}' {
		p.at++
		return true
	}
	var seen nameSet
	for {
		name, ok := p.name(&seen)
		if !ok {
			return false
		}
		start := p.at
		if !p.value(depth + 1) {
			return false
		}
		if depth == 0 {
			p.cut.add(cut{key: name, start: int32(start), end: int32(p.at)})
		}
		switch p.space(); p.peek() {
		case ',':
			p.at++
			p.space()
		case '}':
			p.at++
			return true
		default:
			return p.fail("expected a comma or }")
		}
	}
}

// name goes behind a member's name and its colon.
func (p *parser) name(seen *nameSet) (name, bool) {
	if p.peek() != '"' {
		return name{}, p.fail("expected a name in quotes")
	}
	start := p.at
	escaped, ok := p.quoted()
	if !ok {
		return name{}, false
	}
	n := name{start: int32(start + 1), end: int32(p.at - 1), escaped: escaped}
	if !seen.add(p.text, n) {
		p.at = start
		return name{}, p.fail("the name " + strconv.Quote(stepwell.Clip(n.bytes(p.text), 100)) + " is twice in one object")
	}
	if p.space(); p.peek() != ':' {
		return name{}, p.fail("expected a colon")
	}
	p.at++
	p.space()
	return n, true
}

// name is where the name of a member stands, without its quotes.
type name struct {
	start, end int32
	escaped    bool
}

func (n name) bytes(text []byte) []byte {
	if n.escaped {
		return unescaped(nil, text[n.start-1:n.end+1])
	}
	return text[n.start:n.end]
}

// nameSet finds names that an object has twice.
type nameSet struct {
	few   [32]name
	n     int
	bloom uint64              // a bit for each hash: most names are told apart by it
	large map[string]struct{} // in place of few, when there are more
}

func (s *nameSet) add(text []byte, n name) bool {
	b := n.bytes(text)
	if s.n == len(s.few) {
		return s.addLarge(text, b)
	}
	hash := uint(len(b))
	if len(b) > 0 {
		hash += uint(b[len(b)-1])*7 + uint(b[len(b)/2])*31 + uint(b[0])*3
	}
	bit := uint64(1) << (hash & 63)
	if s.bloom&bit != 0 {
		for i := range s.n {
			if string(s.few[i].bytes(text)) == string(b) {
				return false
			}
		}
	}
	s.bloom |= bit
	s.few[s.n] = n
	s.n++
	return true
}

func (s *nameSet) addLarge(text, b []byte) bool {
	if s.large == nil {
		s.large = make(map[string]struct{}, 4*len(s.few))
		for _, n := range s.few {
			s.large[string(n.bytes(text))] = struct{}{}
		}
	}
	before := len(s.large)
	s.large[string(b)] = struct{}{}
	return len(s.large) > before
}

// number follows the grammar of RFC 8259 §6.
func (p *parser) number() bool {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	switch c := p.peek(); {
	case c == '0':
		p.at++
	case !p.digits():
		if p.at == start {
			return p.fail("expected a value")
		}
		return p.fail("expected a digit")
	}
	if p.peek() == '.' {
		if p.at++; !p.digits() {
			return p.fail("expected a digit")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if !p.digits() {
			return p.fail("expected a digit")
		}
	}
	return true
}

func (p *parser) digits() bool {
	start := p.at
	for p.at < len(p.text) && p.text[p.at]-'0' <= 9 {
		p.at++
	}
	return p.at > start
}

// quoted goes behind the text in quotes that begins here.
func (p *parser) quoted() (escaped, ok bool) {
	p.at++
	for {
		p.at += plain(p.text[p.at:])
		switch c := p.peek(); {
		case c == '"':
			p.at++
			return escaped, true
		case c == '\\':
			escaped = true
			if !p.escape() {
				return false, false
			}
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(p.text[p.at:])
			if r == utf8.RuneError && size == 1 {
				return false, p.fail("invalid UTF-8")
			}
			p.at += size
		default:
			return false, p.fail("a control character in a text")
		}
	}
}

// plain counts the leading bytes that need no escape: ASCII, no control character, quote or backslash. It checks eight
// at a time: the highest bit of each byte of a word marks a byte that needs one, exactly for the lowest such byte.
func plain(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		special := (w - ones*' ') | (quote - ones) | (slash - ones) | w
		if special &= highs; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// escape goes behind the escape that begins here; a surrogate must be followed by its other half.
func (p *parser) escape() bool {
	p.at++
	switch p.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		p.at++
		return true
	case 'u':
	default:
		return p.fail("unknown escape")
	}
	start := p.at - 1
	r, ok := p.hex4()
	if !ok {
		return false
	}
	if r < 0xD800 || r > 0xDFFF {
		return true
	}
	if r < 0xDC00 && p.peek() == '\\' {
		p.at++
		if p.peek() == 'u' {
			low, ok := p.hex4()
			if !ok {
				return false
			}
			if low >= 0xDC00 && low <= 0xDFFF {
				return true
			}
		}
	}
	p.at = start
	return p.fail("an unpaired surrogate")
}

// hex4 takes the u that stands here and its four digits.
func (p *parser) hex4() (r uint16, ok bool) {
	p.at++
	for range 4 {
		c := p.peek()
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.fail("expected four hexadecimal digits")
		}
		r = r<<4 | uint16(c)
		p.at++
	}
	return r, true
}

// unescaped appends the content of a valid text in quotes.
func unescaped(dst, quoted []byte) []byte {
	dst, err := jsontext.AppendUnquote(dst, quoted)
	if err != nil { // cannot be: it has been checked
		panic("item: " + err.Error())
	}
	return dst
}
