package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// Diff is the difference between two versions.
type Diff struct {
	From     int      `json:"from"`
	To       int      `json:"to"`
	Text     string   `json:"text" doc:"In unified form; empty when the documents are equal."`
	Added    []string `json:"added" nullable:"false" doc:"Steps, by id."` // those of finally and on_failure too
	Removed  []string `json:"removed" nullable:"false"`
	Changed  []string `json:"changed" nullable:"false"`
	Settings bool     `json:"settings" doc:"Name, parameters, settings or outputs changed."`
}

// Diff compares two versions of a pipeline; 0 stands for the newest one.
func (l *Library) Diff(ctx context.Context, idOrName string, from, to int) (*Diff, error) {
	a, err := l.Version(ctx, idOrName, from)
	if err != nil {
		return nil, err
	}
	b, err := l.Version(ctx, idOrName, to)
	if err != nil {
		return nil, err
	}
	d := &Diff{From: a.Version, To: b.Version, Added: []string{}, Removed: []string{}, Changed: []string{}}
	name := func(v *Version) string { return fmt.Sprintf("%s version %d", v.Name, v.Version) }
	if d.Text, err = unified(name(a), name(b), a.Document, b.Document); err != nil {
		return nil, err
	}
	return d, d.structure(a.Document, b.Document)
}

// structure compares the parsed definitions.
func (d *Diff) structure(from, to string) error {
	a, _ := definition.Parse([]byte(from), definition.ParseOptions{Stored: true})
	b, _ := definition.Parse([]byte(to), definition.ParseOptions{Stored: true})
	if a == nil || b == nil { // they were read when they were stored
		return stepwell.Invalid("", "a stored document can no longer be read")
	}
	before, after := flat(a), flat(b)
	for _, s := range after {
		i := slices.IndexFunc(before, func(o definition.Step) bool { return o.ID == s.ID })
		if i < 0 {
			d.Added = append(d.Added, s.ID)
			continue
		}
		same, err := equal(&definition.Definition{Steps: []definition.Step{before[i]}}, &definition.Definition{Steps: []definition.Step{s}})
		if err != nil {
			return err
		}
		if !same {
			d.Changed = append(d.Changed, s.ID)
		}
	}
	for _, s := range before {
		if !slices.ContainsFunc(after, func(o definition.Step) bool { return o.ID == s.ID }) {
			d.Removed = append(d.Removed, s.ID)
		}
	}
	frame := func(d *definition.Definition) *definition.Definition {
		return &definition.Definition{Name: d.Name, Description: d.Description, Parameters: d.Parameters, Settings: d.Settings, Outputs: d.Outputs}
	}
	same, err := equal(frame(a), frame(b))
	d.Settings = !same
	return err
}

// flat lists all steps; a group stands without its members, which come behind it.
func flat(d *definition.Definition) []definition.Step {
	var list []definition.Step
	var walk func([]definition.Step)
	walk = func(steps []definition.Step) {
		for _, s := range steps {
			inner := s.Steps
			s.Steps = nil
			list = append(list, s)
			walk(inner)
		}
	}
	for _, steps := range [][]definition.Step{d.Steps, d.OnFailure, d.Finally} {
		walk(steps)
	}
	return list
}

func equal(a, b *definition.Definition) (bool, error) {
	x, err := definition.Encode(a)
	if err != nil {
		return false, err
	}
	y, err := definition.Encode(b)
	return bytes.Equal(x, y), err
}

// unified is the difference of two texts with three lines of context.
func unified(nameA, nameB, a, b string) (string, error) {
	return udiff.ToUnified(nameA, nameB, a, udiff.Lines(a, b), udiff.DefaultContextLines)
}
