package definition_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

// Parse and Check never panic, on any text; an accepted definition survives a snapshot.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		entries, err := os.ReadDir("testdata/" + folder)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			src, err := os.ReadFile("testdata/" + folder + "/" + e.Name())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	known := actions()
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		d, problems := definition.Parse(src, definition.ParseOptions{Env: variables})
		if d == nil {
			if problems.Err() == nil {
				t.Fatal("neither a definition nor an error")
			}
			return
		}
		for _, p := range problems {
			if p.Message == "" {
				t.Fatalf("an empty message: %+v", p)
			}
		}
		definition.Check(d, known, "")
		if problems.Err() != nil {
			return
		}
		raw, err := definition.Encode(d)
		if err != nil {
			t.Fatalf("accepted, but not encoded: %v", err)
		}
		back, err := definition.Decode(raw)
		if err != nil {
			t.Fatalf("not decoded: %v", err)
		}
		again, err := definition.Encode(back)
		if err != nil || !bytes.Equal(raw, again) {
			t.Fatalf("encoded differently: %v\n%s\n%s", err, raw, again)
		}
	})
}
