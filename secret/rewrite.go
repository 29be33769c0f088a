package secret

import (
	"bytes"
	"encoding/json"
	"unsafe"
)

// rewrite replaces strings and numbers in JSON, names of members included, with other JSON. The rest stays as it was
// written.
func rewrite(raw []byte, text, number func(string) (string, bool)) []byte {
	w := writer{raw: raw, text: text, number: number}
	for w.at < len(raw) {
		switch c := raw[w.at]; {
		case c == '"':
			w.string()
		case c == '-' || '0' <= c && c <= '9':
			w.digits()
		default:
			w.at++
		}
	}
	if w.out == nil {
		return raw
	}
	return append(w.out, raw[w.kept:]...)
}

// writer is a rewrite under way: raw up to kept is in out.
type writer struct {
	raw          []byte
	at, kept     int
	out          []byte
	text, number func(string) (string, bool)
}

func (w *writer) put(from, to int, text string) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.raw)+256)
	}
	w.out = append(append(w.out, w.raw[w.kept:from]...), text...)
	w.kept = to
}

func (w *writer) string() {
	from := w.at
	end, escaped := from+1, false
	for end < len(w.raw) && w.raw[end] != '"' {
		if w.raw[end] == '\\' {
			escaped = true
			end++
		}
		end++
	}
	w.at = min(end+1, len(w.raw))
	if end >= len(w.raw) {
		return
	}
	body := w.raw[from+1 : end]
	value := view(body)
	if escaped {
		var decoded string
		if json.Unmarshal(w.raw[from:w.at], &decoded) == nil {
			value = decoded
		}
	}
	if fresh, changed := w.text(value); changed {
		w.put(from, w.at, fresh)
	}
}

func (w *writer) digits() {
	from := w.at
	for w.at < len(w.raw) && bytes.IndexByte([]byte("+-.eE0123456789"), w.raw[w.at]) >= 0 {
		w.at++
	}
	if w.at-from < MinValue {
		return
	}
	if fresh, changed := w.number(view(w.raw[from:w.at])); changed {
		w.put(from, w.at, fresh)
	}
}

// quote writes a JSON string without escapes for HTML.
func quote(text string) string { return `"` + jsonForm{}.quote(text) + `"` }

// view is a text that shares its bytes: it must not outlive the call that it is for.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
