package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/stepwell/stepwell/spec"
)

// described is an action in `actions -o json`. Params and outputs are JSON Schemas.
type described struct {
	Name       string         `json:"name"`
	Role       spec.Role      `json:"role,omitempty"` // of a stream module
	Aliases    []string       `json:"aliases,omitempty"`
	Summary    string         `json:"summary"`
	Doc        string         `json:"doc,omitempty"`
	Params     map[string]any `json:"params"`
	Outputs    map[string]any `json:"outputs"`
	Spawns     []string       `json:"spawns,omitempty"`
	Timeout    float64        `json:"timeout_seconds,omitempty"`
	Idempotent bool           `json:"idempotent"`
	Examples   []example      `json:"examples,omitempty"`
}

type example struct {
	Title string `json:"title"`
	YAML  string `json:"yaml"`
}

func describe(s *spec.Spec) described {
	d := described{Name: s.Name, Aliases: s.Aliases, Summary: s.Summary, Doc: s.Doc, Params: spec.JSONSchema(s.Params, s.OpenParams),
		Outputs: spec.JSONSchema(s.Outputs, true), Spawns: s.Spawns, Timeout: s.Timeout.Seconds(), Idempotent: !s.NotIdempotent}
	if s.Stream != nil {
		d.Role = s.Stream.Role
	}
	for _, e := range s.Examples {
		d.Examples = append(d.Examples, example{e.Title, strings.TrimSpace(e.YAML)})
	}
	return d
}

// WriteSpecs shows a line for each action (name, summary) or stream module (name, role, summary); as "json", a list of the
// objects of WriteSpec.
func WriteSpecs(w io.Writer, specs []spec.Spec, output string) error {
	if output == "json" {
		list := make([]described, len(specs))
		for i := range specs {
			list[i] = describe(&specs[i])
		}
		return WriteJSON(w, list)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i := range specs {
		role := ""
		if s := specs[i].Stream; s != nil {
			role = "\t" + string(s.Role)
		}
		fmt.Fprintf(t, "%s%s\t%s\n", specs[i].Name, role, specs[i].Summary)
	}
	return t.Flush()
}

// WriteSpec shows an action or a stream module in full; as "json", an object with name, summary, doc, examples and the like,
// whose params and outputs are JSON Schemas.
func WriteSpec(w io.Writer, s *spec.Spec, output string) error {
	if output == "json" {
		return WriteJSON(w, describe(s))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n", s.Name, s.Summary)
	if len(s.Aliases) > 0 {
		fmt.Fprintf(&b, "  also called %s\n", strings.Join(s.Aliases, ", "))
	}
	if s.Doc != "" {
		fmt.Fprintf(&b, "\n%s\n", indented(strings.TrimSpace(s.Doc), "  "))
	}
	fields := "params"
	if s.Stream != nil {
		fields = "config"
	}
	writeFields(&b, fields, s.Params)
	writeFields(&b, "outputs", s.Outputs)
	for _, e := range s.Examples {
		fmt.Fprintf(&b, "\nexample: %s\n%s\n", e.Title, indented(strings.TrimSpace(e.YAML), "  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeFields(b *strings.Builder, title string, fields []spec.Field) {
	if len(fields) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for i := range fields {
		f := &fields[i]
		facts := []string{string(f.Type)}
		if f.Required {
			facts = append(facts, "required")
		}
		if f.Default != nil {
			if raw, err := json.Marshal(f.Default); err == nil {
				facts = append(facts, "default "+string(raw))
			}
		}
		if len(f.Enum) > 0 {
			facts = append(facts, "one of "+strings.Join(f.Enum, ", "))
		}
		fmt.Fprintf(b, "  %s (%s)\n      %s\n", f.Name, strings.Join(facts, "; "), f.Doc)
	}
}

func indented(text, with string) string {
	return with + strings.ReplaceAll(text, "\n", "\n"+with)
}
