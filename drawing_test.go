package stepwell_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// drawingSize is the number of bytes that a drawing of docs/pictures has at most.
const drawingSize = 12_000

// TestDrawings checks the drawings of docs/concepts.md: all have one style with colours for light and dark pages, a title
// and a description for screen readers, text as text, and nothing that a browser would fetch or run.
func TestDrawings(t *testing.T) {
	page, err := os.ReadFile("docs/concepts.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("docs/pictures/concept-*.svg")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d drawings: %v", len(files), err)
	}
	var style []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, []byte("](pictures/"+filepath.Base(file)+")")) {
			t.Errorf("%s is not in docs/concepts.md", file)
		}
		if len(text) > drawingSize {
			t.Errorf("%s has %d bytes; %d are the most", file, len(text), drawingSize)
		}
		elements := make(map[string]int)
		for decoder := xml.NewDecoder(bytes.NewReader(text)); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if start, ok := token.(xml.StartElement); ok {
				elements[start.Name.Local]++
			}
		}
		for _, name := range []string{"title", "desc", "style"} {
			if elements[name] != 1 {
				t.Errorf("%s has %d elements %s instead of one", file, elements[name], name)
			}
		}
		if elements["text"] < 10 {
			t.Errorf("%s has %d texts", file, elements["text"])
		}
		for _, name := range []string{"image", "script", "foreignObject", "a", "use"} {
			if elements[name] > 0 {
				t.Errorf("%s has an element %s", file, name)
			}
		}
		from, to := bytes.Index(text, []byte("<style>")), bytes.Index(text, []byte("</defs>"))
		if from < 0 || to < from || !bytes.Contains(text[from:to], []byte("prefers-color-scheme:dark")) {
			t.Fatalf("%s has no style for dark pages, or no arrow head after it", file)
		}
		if style == nil {
			style = text[from:to]
		}
		if !bytes.Equal(style, text[from:to]) {
			t.Errorf("%s has another style than %s: copy it", file, files[0])
		}
	}
}
