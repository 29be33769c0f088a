package stepwell

import (
	"strings"
	"unicode/utf8"
)

// Clip returns text, or its first most characters and "…" where it is longer: what came from outside
// never makes a message huge.
func Clip[T ~string | ~[]byte](text T, most int) string {
	if len(text) <= most || utf8.RuneCountInString(string(text)) <= most {
		return string(text)
	}
	return string([]rune(string(text[:min(len(text), utf8.UTFMax*most)]))[:most]) + "…"
}

// Head returns at most the first most bytes of text, always as UTF-8 and without half a character at the
// end: for what is stored, where the limit is one of bytes.
func Head(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
