package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// MaxKey is the length of a signal's key in bytes.
const MaxKey = 2048

// CheckKey checks the key of a signal. Its error is CodeInvalid.
func CheckKey(key string) error {
	switch {
	case key == "":
		return stepwell.Invalid("", "the key of a signal is empty")
	case len(key) > MaxKey:
		return stepwell.Invalid("", "the key of a signal is %d bytes long, at most %d are allowed", len(key), MaxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return stepwell.Invalid("", "the key of a signal holds something else than text")
	}
	return nil
}
