package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newActionsCommand() *cobra.Command {
	return p.newCatalogCommand("action", "List the actions that steps can use, or show one in full",
		func(s *spec.Spec) bool { return s.Stream == nil && !s.Internal })
}

func (p *program) newModulesCommand() *cobra.Command {
	return p.newCatalogCommand("module", "List the stream modules that steps can use, or show one",
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
				return view.WriteSpecs(p.out, specs, output.value)
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
			return view.WriteSpec(p.out, s, output.value)
		},
	}
	output = format(cmd.Flags(), "text", "json")
	return cmd
}

func (p *program) newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Write the JSON Schema of pipeline files, for editors",
		Long: "Write the JSON Schema (draft 2020-12) of pipeline files. Editors with a YAML language server use\n" +
			"it after a first line such as:\n\n" +
			"  # yaml-language-server: $schema=stepwell.schema.json",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return view.WriteJSON(p.out, definition.Schema()) },
	}
}

func (p *program) newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  arguments(0, 0, ""),
		RunE:  func(*cobra.Command, []string) error { return p.writeVersion() },
	}
}

func (p *program) writeVersion() error {
	_, err := fmt.Fprintln(p.out, manual.VersionLine())
	return err
}
