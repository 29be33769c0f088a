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
	var list, force, agents bool
	var output *choice
	cmd := &cobra.Command{
		Use:   "init [TEMPLATE [FILE]]",
		Short: "Write a pipeline file from a template",
		Long: "Write a pipeline file to begin with, TEMPLATE" + extension + " unless FILE is named (- is the output). It runs at\n" +
			"once and says in its comments what to change. --list lists the templates. --agents writes AGENTS.md instead,\n" +
			"which tells coding agents how to write, check, test and crash pipelines.",
		Example: "  stepwell init\n  stepwell init etl\n  stepwell init --list",
		Args:    arguments(0, 2, "TEMPLATE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if list {
				return p.listTemplates(output.value)
			}
			if agents {
				if len(args) > 0 {
					return stepwell.Invalid("leave one of them out", "--agents writes AGENTS.md, and no pipeline")
				}
				return p.writeStarter(starter.Agents, "AGENTS.md", "stepwell init --agents", "", force)
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
			return p.writeStarter(t.Text, file, "stepwell init "+t.Name+" "+file, " Run it:\n\n  stepwell run "+file, force)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the templates")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	cmd.Flags().BoolVar(&agents, "agents", false, "write AGENTS.md, for coding agents")
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

// writeStarter writes a file that is not there, unless it may be replaced, and says what is next.
func (p *program) writeStarter(text, file, command, next string, replace bool) error {
	if file == "-" {
		_, err := fmt.Fprint(p.out, text)
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replace {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, how, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return stepwell.Errorf(stepwell.CodeConflict, "name another file, or replace it with --force: "+command+" --force", "%s already exists", file)
	}
	if err != nil {
		return fileError(file, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "Wrote %s.%s\n", file, next)
	return err
}
