package expr

import (
	"bytes"
	"encoding/json"
)

// Member is the value of a member of an object, nil if r is none or has no such member. It shares r's memory, and of r,
// which must be valid JSON, nothing is decoded.
func (r Raw) Member(name string) (value Raw) {
	if r = bytes.TrimSpace(r); len(r) == 0 || r[0] != '{' {
		return nil
	}
	for at := 1; at < len(r); {
		if at += skipSpace(r[at:]); at == len(r) || r[at] != '"' {
			return value
		}
		key := r[at : at+textLen(r[at:])]
		at += len(key)
		at += skipSpace(r[at:]) + 1 // the colon
		at += skipSpace(r[min(at, len(r)):])
		from := min(at, len(r))
		if at = from + valueLen(r[from:]); isKey(key, name) {
			value = bytes.TrimSpace(r[from:at])
		}
		at++ // the comma
	}
	return value
}

func skipSpace(r []byte) int { return len(r) - len(bytes.TrimLeft(r, " \t\r\n")) }

// textLen is the length of the string, in quotes, at the beginning of r.
func textLen(r []byte) int {
	for i := 1; i < len(r); i++ {
		switch r[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(r)
}

// valueLen is the length of what lies before the comma or brace that ends the member's value.
func valueLen(r []byte) int {
	depth := 0
	for i := 0; i < len(r); i++ {
		switch r[i] {
		case '"':
			i += textLen(r[i:]) - 1
		case '{', '[':
			depth++
		case ',':
			if depth == 0 {
				return i
			}
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return len(r)
}

// isKey reports whether a key in quotes is the name.
func isKey(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return len(key) == len(name)+2 && string(key[1:len(key)-1]) == name
	}
	var text string
	return json.Unmarshal(key, &text) == nil && text == name
}
