package stepwell

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClipCountsCharacters(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äöü…"},
		{"日本語テキスト", 2, "日本…"}, {strings.Repeat("x", 100), 1, "x…"},
	} {
		if got := Clip(c.text, c.most); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestHeadCountsBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"äöü", 3, "ä"}, {"äöü", 4, "äö"}, {"日", 2, ""}, {"a\xffb", 9, "ab"},
	} {
		if got := Head(c.text, c.most); got != c.want || !utf8.ValidString(got) {
			t.Errorf("Head(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestInvalidIsAnErrorWithCodeAndHint(t *testing.T) {
	err := Invalid("write it so", "%q is not %s", "x", "y")
	if err.Error() != `"x" is not y` || CodeOf(err) != CodeInvalid || HintOf(err) != "write it so" {
		t.Errorf("%+v", err)
	}
}
