package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/action"
)

// A dotenv file is NAME=value lines with comments, export and quotes; what is no such line is told with its place.
func TestDotenv(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".env")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\ufeff# secrets\nexport A=1\r\n\nB = two words # a remark\nC='it is # all'\nD=\"a\\nb\\\\\" # quoted\nE=\nF=a=b\n")
	got, err := dotenv(".env", dir) // not in the working directory: beside the document
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "1", "B": "two words", "C": "it is # all", "D": "a\nb\\", "E": "", "F": "a=b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{"A=1\nno line": "line 2", "A='open": "not closed", `A="x" y`: "text follows", "a b=c": "line 1", "=x": "line 1"} {
		write(text)
		if _, err := dotenv(file, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := dotenv("absent.env", dir); err == nil || !strings.Contains(err.Error(), "absent.env") {
		t.Errorf("a missing file: %v", err)
	}
}

// The numbers of a stream step: what came in, what differs from it, how fast, and how long still.
func TestItemsText(t *testing.T) {
	now := time.Unix(0, 0)
	var i items
	i.take(&action.Counts{In: 1000}, now)
	if got := i.text(); got != "1,000 items" {
		t.Error(got)
	}
	i.take(&action.Counts{In: 3000, Out: 2990, Failed: 10, Skipped: 500, Total: 13_500}, now.Add(time.Second))
	if got := i.text(); got != "3,000 items, 2,990 passed on, 10 failed, 500 done before, 2,000/s, 5.00s left" {
		t.Error(got)
	}
	i.take(&action.Counts{In: 3100, Out: 3100}, now.Add(1100*time.Millisecond)) // too soon for another measurement
	if got := i.text(); got != "3,100 items, 2,000/s" {
		t.Error(got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
