package schema

import (
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
)

// Patterns of published schemas, and how they are matched here.
func TestPatterns(t *testing.T) {
	for source, c := range map[string]struct {
		text     string
		match    bool
		cached   bool
		portable bool
	}{
		`^(?!eo:)`:                      {"eo:x", false, false, false},
		`^(?!eo:|view:)`:                {"view:x", false, true, false},
		`(\+00:00|Z)$`:                  {"2020-01-01T00:00:00Z", true, false, true},
		`^[\w\-\.\+]+$`:                 {"CC-BY-4.0", true, false, true},
		`^[A-Z0-9]+-[-_.A-Za-z0-9]+$`:   {"MGRS-31T", true, false, true},
		`^10\.[0-9a-zA-Z]{4,}/[^\s]+$`:  {"10.5067/x", true, true, false},
		`^\d\d?[CDEFGHJKLMNPQRSTUVWX]$`: {"31T", true, false, true},
		`^[\w\+.-]+://`:                 {"s3://x", true, false, true},
	} {
		re, err := compilePattern(source)
		if err != nil {
			t.Error(source, err)
			continue
		}
		p := re.(*pattern)
		for range 2 {
			if p.MatchString(c.text) != c.match {
				t.Errorf("%s on %q is not %v", source, c.text, c.match)
			}
		}
		if known := p.known.Load(); (known != nil) != c.cached || portable.MatchString(source) != c.portable || c.cached && len(*known) != 1 {
			t.Errorf("%s: cached %v, portable %v", source, known, portable.MatchString(source))
		}
	}
	re, _ := compilePattern(`^(?=a)`)
	for i := range 2 * cachedTexts {
		re.MatchString(strings.Repeat("b", i%cachedText) + string(rune('a'+i%26)) + string(rune('0'+i/26)))
	}
	if n := len(*re.(*pattern).known.Load()); n > cachedTexts {
		t.Error(n, "answers kept")
	}
	if _, err := compilePattern(strings.Repeat("(?=a)", 1000)); err == nil {
		t.Error("a pattern of any length is taken")
	}
}

// FuzzPortable: what is left to the standard library means the same there.
func FuzzPortable(f *testing.F) {
	f.Add(`^[\w\-\.\+]+$`, "CC-BY")
	f.Add(`(\+00:00|Z)$`, "Z")
	f.Add(`a{2,3}(b|c)?\d\D\W`, "aab1 x")
	f.Fuzz(func(t *testing.T, source, text string) {
		if len(source) > 60 || len(text) > 60 || !portable.MatchString(source) || strings.Contains(text, "\n") { // $ of regexp2 is before a last \n too
			return
		}
		re, err := compilePattern(source)
		if err != nil || re.(*pattern).known.Load() != nil {
			return
		}
		other, err := regexp2.Compile(source, regexp2.ECMAScript)
		if err != nil {
			return // stricter: nothing to compare
		}
		other.MatchTimeout = matchTime
		want, err := other.MatchString(text)
		if err == nil && re.MatchString(text) != want {
			t.Errorf("%q on %q: %v here", source, text, !want)
		}
	})
}
