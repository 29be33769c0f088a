// Command wordcount is a program of its own that adds an action to Stepwell and runs a pipeline with
// it: the way to write steps in Go without touching Stepwell.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// words counts the words of a text file. The Spec is its documentation, the check of its parameters
// and its page in any form, all at once.
func words() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:     "words.count",
			Summary:  "Counts the words of a text file.",
			Params:   []spec.Field{{Name: "file", Type: spec.String, Required: true, Doc: "File to read."}},
			Outputs:  []spec.Field{{Name: "words", Type: spec.Integer, Doc: "How many words it has."}},
			KeyParam: "file",
		},
		Handler: counter{},
	}
}

// counter is the action's code. One value serves all steps at once.
type counter struct{}

// Validate finds what a Spec cannot say, before anything runs.
func (counter) Validate(params map[string]any) []error {
	if file, ok := params["file"].(string); ok && filepath.Ext(file) == ".zip" {
		return []error{fmt.Errorf("%s is packed; unpack it in a step before", file)}
	}
	return nil
}

// Run counts. A file that is not there will not come by trying again; anything else may pass.
func (counter) Run(ctx context.Context, call *action.Call) (any, error) {
	name := call.Params["file"].(string)
	if !filepath.IsAbs(name) {
		name = filepath.Join(call.Dir, name)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeNotFound, Message: name + " does not exist"})
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := 0
	scan := bufio.NewScanner(f)
	scan.Split(bufio.ScanWords)
	for scan.Scan() {
		if n++; n%100_000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err() // cancelled, or out of time
		}
	}
	call.Log("counted", slog.String("file", name), slog.Int("words", n))
	return map[string]any{"words": n}, scan.Err()
}
