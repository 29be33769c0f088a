package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// tryWorkflow lets the modules of a workflow look at what they would read, once the file itself is right.
func (p *program) tryWorkflow(file string) error {
	d, actions, err := p.loadWithActions(file)
	if err != nil {
		return err
	}
	if err := d.problems.Err(); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	var found definition.Problems
	for _, def := range append([]*definition.Definition{d.def}, entries(d.def)...) {
		problems, err := trySteps(actions, def, def.Steps, d.file, dir)
		if err != nil {
			return err
		}
		found = append(found, problems...)
	}
	return found.Err()
}

func entries(d *definition.Definition) []*definition.Definition {
	var out []*definition.Definition
	for _, name := range d.Matrix {
		out = append(out, d.Pipelines[name])
	}
	return out
}

func trySteps(actions *action.Registry, d *definition.Definition, steps []definition.Step, file, dir string) (definition.Problems, error) {
	var found definition.Problems
	for i := range steps {
		s := &steps[i]
		inner, err := trySteps(actions, d, s.Steps, file, dir)
		if err != nil {
			return nil, err
		}
		found = append(found, inner...)
		about, ok := actions.Spec(s.Module)
		if s.Module == "" || !ok {
			continue
		}
		config := definition.ModuleConfig(d, s, about)
		if spec.Contains(config, templated) {
			continue // known only when it runs
		}
		wrong, err := stream.Try(context.Background(), actions, s.Module, dir, config)
		if err != nil {
			return nil, err
		}
		for _, w := range wrong {
			at := s.At["config"]
			found = append(found, definition.Problem{File: file, Line: at.Line, Column: at.Column, Path: s.ID + ".config", Message: w.Error(), Hint: stepwell.HintOf(unwrapHint(w))})
		}
	}
	return found, nil
}

func templated(v any) bool {
	text, _ := v.(string)
	return strings.Contains(text, "{{")
}
