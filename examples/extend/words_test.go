package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/actiontest"
)

// The action by itself.
func TestWords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("to be or not\nto be"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := actiontest.Run(t.Context(), words(), actiontest.Call{Params: map[string]any{"file": file}})
	if r.Err != nil || r.Outputs["words"] != int64(6) {
		t.Errorf("outputs %v, error %v", r.Outputs, r.Err)
	}
	r = actiontest.Run(t.Context(), words(), actiontest.Call{Params: map[string]any{"file": file + ".none"}})
	if stepwell.CodeOf(r.Err) != stepwell.CodeNotFound {
		t.Errorf("a missing file gives %v", r.Err)
	}
}

// The action in a pipeline.
func TestPipeline(t *testing.T) {
	dir := t.TempDir()
	var files []any
	for name, text := range map[string]string{"a": "one two", "b": "three", "c": ""} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	x, err := count(t.Context(), filepath.Join(dir, "test.db"), files)
	if err != nil {
		t.Fatal(err)
	}
	if x.Status != stepwell.ExecutionCompleted || string(x.Outputs) != `{"total":3}` {
		t.Errorf("%s %s", x.Status, x.Outputs)
	}
}
