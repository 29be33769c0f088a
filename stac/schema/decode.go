package schema

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
)

// Bounds of a value.
const (
	maxDepth    = 500  // nesting
	maxNumber   = 4096 // characters of a number
	maxExponent = 9999
)

// Decode makes of a valid JSON text, such as an item's Bytes, what Validate and Core take: maps, lists,
// texts, booleans, nil and json.Number. Errors are CodeInvalid: the value is nested more than 500 levels
// deep, or holds a number that nobody can compute with.
func Decode(text []byte) (any, error) {
	d := decoder{text: string(text)}
	v := d.value(maxDepth)
	if d.fault != "" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: d.fault + " at byte " + strconv.Itoa(d.at)}
	}
	return v, nil
}

// decoder goes over a text that is known to be valid. The texts that it makes share its memory.
type decoder struct {
	text  string
	at    int
	fault string
}

func (d *decoder) space() byte {
	for d.at < len(d.text) && d.text[d.at] <= ' ' {
		d.at++
	}
	if d.at == len(d.text) {
		d.fail("the text ends early")
		return 0
	}
	return d.text[d.at]
}

func (d *decoder) fail(what string) {
	if d.fault == "" {
		d.fault = what
	}
}

func (d *decoder) value(depth int) any {
	if depth == 0 {
		d.fail("nested more than " + strconv.Itoa(maxDepth) + " levels deep")
		return nil
	}
	switch c := d.space(); c {
	case '{':
		return d.object(depth)
	case '[':
		return d.list(depth)
	case '"':
		return d.quoted()
	case 't':
		d.at += 4
		return true
	case 'f':
		d.at += 5
		return false
	case 'n':
		d.at += 4
		return nil
	default:
		return d.number()
	}
}

func (d *decoder) object(depth int) any {
	out := make(map[string]any)
	d.at++
	for d.fault == "" {
		switch d.space() {
		case '}':
			d.at++
			return out
		case ',':
			d.at++
			d.space()
		}
		key := d.quoted()
		d.space()
		d.at++ // the colon
		out[key] = d.value(depth - 1)
	}
	return nil
}

func (d *decoder) list(depth int) any {
	out := []any{}
	d.at++
	for d.fault == "" {
		switch d.space() {
		case ']':
			d.at++
			return out
		case ',':
			d.at++
		}
		out = append(out, d.value(depth-1))
	}
	return nil
}

func (d *decoder) quoted() string {
	start := d.at
	for i := start + 1; i < len(d.text); i++ {
		switch d.text[i] {
		case '\\':
			return d.escaped(i)
		case '"':
			d.at = i + 1
			return d.text[start+1 : i]
		}
	}
	d.fail("the text ends early")
	return ""
}

// escaped is the rest of quoted, for a text with a \ at i.
func (d *decoder) escaped(i int) string {
	start := d.at
	for ; i < len(d.text) && d.text[i] != '"'; i++ {
		if d.text[i] == '\\' {
			i++
		}
	}
	if i >= len(d.text) {
		d.fail("the text ends early")
		return ""
	}
	d.at = i + 1
	out, err := jsontext.AppendUnquote(nil, d.text[start:d.at])
	if err != nil {
		d.fail("bad text: " + err.Error())
	}
	return string(out)
}

func (d *decoder) number() any {
	start, exponent := d.at, -1
scan:
	for ; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+':
		case c == 'e', c == 'E':
			exponent = d.at - start
		default:
			break scan
		}
	}
	text := d.text[start:d.at]
	if text == "" || len(text) > maxNumber {
		d.fail("a number of " + strconv.Itoa(len(text)) + " characters")
	}
	if exponent >= 0 {
		if n, err := strconv.Atoi(text[exponent+1:]); err != nil || n > maxExponent || n < -maxExponent {
			d.fail("the exponent of a number is beyond " + strconv.Itoa(maxExponent))
		}
	}
	return json.Number(text)
}
