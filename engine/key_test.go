package engine

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "event:order ä", strings.Repeat("x", MaxKey)} {
		if err := CheckKey(key); err != nil {
			t.Errorf("%.20q: %v", key, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("x", MaxKey+1), "a\nb", "a\xff", "\x00"} {
		if err := CheckKey(key); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%.20q: %v", key, err)
		}
	}
}
