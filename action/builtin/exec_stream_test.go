package builtin

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func linesOf(text string) []string {
	var lines []string
	streamLines(strings.NewReader(text), newTail(16), func(line string) { lines = append(lines, line) })
	return lines
}

func TestStreamLines(t *testing.T) {
	x := strings.Repeat("x", maxLine)
	tests := map[string]struct {
		text string
		want []string
	}{
		"empty":            {"", nil},
		"no end":           {"a", []string{"a"}},
		"blank lines":      {"\n\na\r\n", []string{"", "", "a"}},
		"longest":          {x + "\r\n" + x, []string{x, x}},
		"one more":         {x + "y\nz", []string{x + " … [line of 16386 bytes cut]", "z"}},
		"far more":         {x + x + x + "\nz\n", []string{x + " … [line of 49153 bytes cut]", "z"}},
		"cut in character": {x[1:] + "üü\n", []string{x[1:] + " … [line of 16388 bytes cut]"}},
		"garbage":          {"a\xff\xfe\x00b\n", []string{"a\uFFFD\uFFFDb"}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, linesOf(test.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestStreamLinesWhole: nothing is lost whatever the size of the reads, and every line is valid text.
func TestStreamLinesWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n\r\xc3\xbc\x00")), 0, 200).Draw(t, "text")
		keep := newTail(len(text) + 1)
		var lines []string
		streamLines(iotest.OneByteReader(bytes.NewReader(text)), keep, func(line string) { lines = append(lines, line) })
		if !bytes.Equal(keep.bytes(), text) {
			t.Fatalf("kept %q", keep.bytes())
		}
		if want := len(bytes.SplitAfter(text, []byte("\n"))) - 1; len(lines) < want {
			t.Fatalf("%d lines, want at least %d", len(lines), want)
		}
		for _, line := range lines {
			if !utf8.ValidString(line) {
				t.Fatalf("invalid %q", line)
			}
		}
	})
}

// TestTail compares with a slice that keeps everything.
func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		tail, all := newTail(size), []byte{}
		for _, piece := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 50), 0, 10).Draw(t, "pieces") {
			tail.write(piece)
			all = append(all, piece...)
		}
		want := all[max(0, len(all)-size):]
		if !bytes.Equal(tail.bytes(), want) {
			t.Fatalf("kept %q, want %q", tail.bytes(), want)
		}
		text, truncated := tail.text()
		if truncated != (len(all) > size) || !utf8.ValidString(text) {
			t.Fatalf("text %q, truncated %v", text, truncated)
		}
	})
}

func TestTailText(t *testing.T) {
	tail := newTail(4)
	tail.write([]byte("aüüb\n\n"))
	if text, truncated := tail.text(); text != "b" || !truncated {
		t.Errorf("text %q, %v; the rest of a cut character must go", text, truncated)
	}
	tail = newTail(100)
	tail.write([]byte("one\n\n two \r\nthree\n\n"))
	if got := tail.lastLines(2); got != " two\nthree" {
		t.Errorf("last lines %q", got)
	}
}
