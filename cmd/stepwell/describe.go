package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

func (p *program) newActionsCommand() *cobra.Command {
	return p.newCatalogCommand("action", "Lists the actions that steps can use, or shows one in full",
		func(s *spec.Spec) bool { return s.Stream == nil && !s.Internal })
}

func (p *program) newModulesCommand() *cobra.Command {
	return p.newCatalogCommand("module", "Lists the stream modules that steps can use, or shows one in full",
		func(s *spec.Spec) bool { return s.Stream != nil })
}

// newCatalogCommand lists one kind of what the registry has.
func (p *program) newCatalogCommand(kind, short string, listed func(*spec.Spec) bool) *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:   kind + "s [NAME]",
		Short: short,
		Args:  arguments(0, 1, "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := p.registry()
			if err != nil {
				return err
			}
			specs := slices.DeleteFunc(all.Specs(), func(s spec.Spec) bool { return !listed(&s) })
			if len(args) == 0 {
				return listSpecs(p.out, specs, output.value)
			}
			s, ok := all.Spec(args[0])
			if !ok || !listed(s) {
				var names []string
				for i := range specs {
					names = append(append(names, specs[i].Name), specs[i].Aliases...)
				}
				hint := "`stepwell " + kind + "s` lists them"
				if near := spec.Closest(args[0], names); near != "" {
					hint = "did you mean " + near + "?"
				}
				return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("unknown %s %q", kind, args[0]), Hint: hint}
			}
			if output.value == "json" {
				return writeJSON(p.out, describe(s))
			}
			return writeAction(p.out, s)
		},
	}
	output = format(cmd.Flags(), "text", "json")
	return cmd
}

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

func listSpecs(w io.Writer, specs []spec.Spec, output string) error {
	if output == "json" {
		list := make([]described, len(specs))
		for i := range specs {
			list[i] = describe(&specs[i])
		}
		return writeJSON(w, list)
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

// writeAction shows an action in full.
func writeAction(w io.Writer, s *spec.Spec) error {
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

func (p *program) newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Write the JSON Schema of pipeline files, for editors",
		Long: "Write the JSON Schema (draft 2020-12) of pipeline files. Editors with a YAML language server use\n" +
			"it after a first line such as:\n\n" +
			"  # yaml-language-server: $schema=stepwell.schema.json",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return writeJSON(p.out, definition.Schema()) },
	}
}

func (p *program) newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.out, versionLine())
			return err
		},
	}
}

// versionLine says all about this program in a line.
func versionLine() string {
	revision, at := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = " " + s.Value[:min(12, len(s.Value))]
			case "vcs.time":
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					at = " of " + t.Format(time.DateOnly)
				}
			}
		}
	}
	return fmt.Sprintf("stepwell %s%s%s, %s, %s/%s", version(), revision, at, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is that of the module, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(info.Main.Version, "(unknown)")
	}
	return "(unknown)"
}
