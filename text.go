package stepwell

import (
	"strings"
	"unicode/utf8"
)

// Clip returns text, cut to its first most characters and "…" if it is longer: outside text never makes a message
// huge.
func Clip[T ~string | ~[]byte](text T, most int) string {
	if len(text) <= most || utf8.RuneCountInString(string(text)) <= most {
		return string(text)
	}
	return string([]rune(string(text[:min(len(text), utf8.UTFMax*most)]))[:most]) + "…"
}

// Head returns at most the first most bytes of text, always as UTF-8 without half a character at the end: for stored
// text, limited in bytes.
func Head(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Unnumbered is the key of a step without the numbers of iterations: convert[3].resize is convert.resize.
func Unnumbered(key string) string {
	if !strings.Contains(key, "[") {
		return key
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(key, "[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, key, _ = strings.Cut(rest, "]")
	}
}
