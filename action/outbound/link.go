package outbound

import (
	"net/http"
	"strings"

	"github.com/stepwell/stepwell"
)

// NextLink is the target of the Link header with rel=next (RFC 8288 §3), by which servers page; "" when there is none.
func NextLink(h http.Header) (string, error) {
	for _, rest := range h.Values("Link") {
		for {
			_, after, ok := strings.Cut(rest, "<")
			if !ok {
				break
			}
			href, params, ok := strings.Cut(after, ">")
			if !ok {
				return "", stepwell.Invalid("", "the Link header is not well formed")
			}
			rel := ""
			if rel, rest = linkRel(params); hasWord(rel, "next") {
				return strings.TrimSpace(href), nil
			}
		}
	}
	return "", nil
}

// linkRel reads the parameters of a link up to the comma before the next one.
func linkRel(text string) (rel, rest string) {
	for {
		text = strings.TrimLeft(text, " \t;")
		if text == "" || text[0] == ',' {
			return rel, text
		}
		end := strings.IndexAny(text, "=;,")
		if end < 0 {
			return rel, ""
		}
		name := strings.TrimSpace(text[:end])
		if text[end] != '=' {
			text = text[end:]
			continue
		}
		var value string
		value, text = linkValue(strings.TrimLeft(text[end+1:], " \t"))
		if strings.EqualFold(name, "rel") && rel == "" {
			rel = value
		}
	}
}

// linkValue reads a token or a quoted text.
func linkValue(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ";,")
		if end < 0 {
			end = len(text)
		}
		return strings.TrimSpace(text[:end]), text[end:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}
