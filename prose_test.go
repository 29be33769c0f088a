package stepwell_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// pageWidth is the number of characters that a line of Markdown has at most, tables and code excepted.
const pageWidth = 120

// hard are words and phrases that make a reader guess: each has a plain word in its place. Only literal text that is always wrong is listed.
var hard = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`is no (size|duration|address|list|date)\b`,
	`lets? nobody`, `(sees|seen) to it that`, `made up for`, `beside itself`, `who has joined`, `readiness goes`, `triggers rest`,
	`orderly stop`, `is put one into the other`, `one of one's own`, `and nobody sees`, `Reaching out is`,
	`they need Go and git only`, `it is shown this once`, `what clocks do`,
}, "|") + `)`)

// tracked returns the files of the repository that match a pattern of git, without test data and the record of decisions.
func tracked(t *testing.T, pattern string) []string {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern).Output()
	if err != nil {
		t.Skipf("git lists no files: %v", err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(name); err == nil && !strings.Contains(name, "testdata/") && name != "docs/decisions.md" {
			files = append(files, name)
		}
	}
	return files
}

// hardPhrase returns the first hard phrase of a text, nil without one. "There is no file" is plain.
func hardPhrase(text []byte) []byte {
	return hard.Find(bytes.ReplaceAll(text, []byte("here is no "), nil))
}

// TestProse holds the prose of all Markdown to pageWidth and keeps hard phrases out of it, README, CHANGELOG and
// CONTRIBUTING included; docs/commands.md is the help of all commands, and shows what --help shows.
func TestProse(t *testing.T) {
	pages := tracked(t, "*.md")
	if len(pages) < 20 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code := false // commands, output and blocks of code keep their lines
		for i, line := range bytes.Split(text, []byte("\n")) {
			if bytes.HasPrefix(line, []byte("```")) {
				code = !code
			}
			if n := utf8.RuneCount(line); n > pageWidth && !code && !strings.HasPrefix(name, "docs/recipes/") && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("|")) {
				t.Errorf("%s:%d has %d characters; %d fit", name, i+1, n, pageWidth)
			}
			if phrase := hardPhrase(line); phrase != nil {
				t.Errorf("%s:%d: say %q in plain words", name, i+1, phrase)
			}
		}
	}
}
