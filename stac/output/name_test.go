package output

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFileName(t *testing.T) {
	for id, want := range map[string]string{
		"LC08_L2SP_205001":    "LC08_L2SP_205001",
		"a/b":                 "a%2Fb",
		`a\b`:                 "a%5Cb",
		"..":                  "%2E%2E",
		"../../etc/passwd":    "%2E.%2F..%2Fetc%2Fpasswd",
		".hidden":             "%2Ehidden",
		"trailing.":           "trailing%2E",
		"trailing ":           "trailing%20",
		"CON":                 "%43ON",
		"nul.txt":             "%6Eul.txt",
		"collection":          "%63ollection",
		"снимок-7":            "снимок-7",
		"大地":                  "大地",
		"a:b?c*d":             "a%3Ab%3Fc%2Ad",
		"100%":                "100%25",
		"a~b":                 "a%7Eb",
		"-rf":                 "%2Drf",
		"line\nbreak\x00\x7f": "line%0Abreak%00%7F",
		"\u202eevil":          "%E2%80%AEevil",
		"":                    "%",
	} {
		if got := fileName(id); got != want {
			t.Errorf("fileName(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestFileNameLong(t *testing.T) {
	a, b := fileName(strings.Repeat("x", 300)), fileName(strings.Repeat("x", 299)+"y")
	if a == b || len(a) > maxName || len(b) > maxName {
		t.Errorf("%d %d bytes, same: %t", len(a), len(b), a == b)
	}
	if wide := fileName(strings.Repeat("é/", 200)); len(wide) > maxName || !utf8.ValidString(wide) {
		t.Errorf("%d bytes: %s", len(wide), wide)
	}
}

func TestTwin(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"Aa", "aA", "AA", strings.Repeat("A", 300), strings.Repeat("a", 300)} {
		name := fold(twin(id))
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q share %q", id, other, name)
		}
		seen[name] = id
	}
}

// FuzzFileName holds names to what they promise: safe, inside their directory, and never shared.
func FuzzFileName(f *testing.F) {
	for _, pair := range [][2]string{{"a", "A"}, {"..", "%2E%2E"}, {"con", "%63on"}, {"a~", "a%7E"}, {"\xff", "�"}, {"", "%"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := fileName(a), fileName(b)
		if a != b && x == y {
			t.Fatalf("%q and %q share %q", a, b, x)
		}
		for _, name := range []string{x, twin(a), dirName(a)} {
			if !filepath.IsLocal(name) || filepath.Base(name) != name || len(name) > maxName+10 || strings.ContainsAny(name, "/\\\x00:") {
				t.Fatalf("%q becomes %q", a, name)
			}
		}
	})
}
