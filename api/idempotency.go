package api

import (
	"crypto/sha256"
	"strings"

	"github.com/stepwell/stepwell"
)

const maxIdempotencyKey = 255

// idempotencyKey reads the header: 1 to 255 printable ASCII characters, as they are or as a quoted string of
// RFC 8941. "" without the header.
func idempotencyKey(header string) (string, error) {
	bad := stepwell.Invalid("up to 255 printable ASCII characters, such as a UUID", "Idempotency-Key is not a key")
	key := strings.TrimSpace(header)
	if header == "" {
		return "", nil
	}
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = unquoted(key); !ok {
			return "", bad
		}
	}
	if key == "" || len(key) > maxIdempotencyKey {
		return "", bad
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return "", bad
		}
	}
	return key, nil
}

// unquoted reads a quoted string of RFC 8941, in which a backslash stands before a quote or a backslash only.
func unquoted(text string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), i == len(text)-1
		case '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// startKey is the idempotency key of a start in the store, and the hash that identifies a repeated request. Each
// principal has keys of its own.
func startKey(principal, key, method, path string, body []byte) (string, []byte) {
	if key == "" {
		return "", nil
	}
	h := sha256.New()
	h.Write([]byte(method + " " + path + "\n"))
	h.Write(body)
	return "idem:" + principal + ":" + key, h.Sum(nil)
}
