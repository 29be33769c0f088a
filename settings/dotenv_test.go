package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	read := func(name string, _ int64) ([]byte, error) { return os.ReadFile(name) }
	write("\ufeff# secrets\nexport A=1\r\n\nB = two words # a remark\nC='it is # all'\nD=\"a\\nb\\\\\" # quoted\nE=\nF=a=b\n")
	got, err := Dotenv(".env", dir, read) // not in the working directory: beside the document
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "1", "B": "two words", "C": "it is # all", "D": "a\nb\\", "E": "", "F": "a=b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{"A=1\nno line": "line 2", "A='open": "not closed", `A="x" y`: "text follows", "a b=c": "line 1", "=x": "line 1"} {
		write(text)
		if _, err := Dotenv(file, dir, read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Dotenv("absent.env", dir, read); err == nil || !strings.Contains(err.Error(), "absent.env") {
		t.Errorf("a missing file: %v", err)
	}
}
