package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/starter"
	"github.com/stepwell/stepwell/view"
)

// extension is that of pipeline files which editors recognise.
const extension = ".stepwell.yaml"

func (p *program) newInitCommand() *cobra.Command {
	var list, force bool
	var output *choice
	cmd := &cobra.Command{
		Use:   "init [TEMPLATE [FILE]]",
		Short: "Write a pipeline file from a template",
		Long: "Write a pipeline file to begin with, TEMPLATE" + extension + " unless FILE is named (- is the output). It runs at\n" +
			"once and says in its comments what to change. --list lists the templates.",
		Example: "  stepwell init\n  stepwell init etl\n  stepwell init --list",
		Args:    arguments(0, 2, "TEMPLATE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if list {
				return p.listTemplates(output.value)
			}
			args = append(args, starter.Default)[:max(1, len(args))]
			t, err := starter.Find(args[0])
			if err != nil {
				return err
			}
			file := t.Name + extension
			if len(args) > 1 {
				file = args[1]
			}
			return p.writeTemplate(&t, file, force)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the templates")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	output = format(cmd.Flags(), "text", "json")
	return cmd
}

func (p *program) listTemplates(output string) error {
	if output == "json" {
		return view.WriteJSON(p.out, starter.All())
	}
	widest := 0
	for _, t := range starter.All() {
		widest = max(widest, len(t.Name))
	}
	for _, t := range starter.All() {
		if _, err := fmt.Fprintln(p.out, manual.Fill(fmt.Sprintf("  %-*s  %s", widest, t.Name, t.Summary), p.helpWidth())); err != nil {
			return err
		}
	}
	return nil
}

// writeTemplate writes a template to a file that is not there, unless it may be replaced.
func (p *program) writeTemplate(t *starter.Template, file string, replace bool) error {
	if file == "-" {
		_, err := fmt.Fprint(p.out, t.Text)
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replace {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, how, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return stepwell.Errorf(stepwell.CodeConflict, "name another file, or replace it with --force: stepwell init "+t.Name+" "+file+" --force", "%s already exists", file)
	}
	if err != nil {
		return fileError(file, err)
	}
	_, err = f.WriteString(t.Text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "Wrote %s. Run it:\n\n  stepwell run %s\n", file, file)
	return err
}
