package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/view"
)

// newStacCommand is stac-manager's command line (source-systems A.8).
func (p *program) newStacCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stac",
		Short: "Discover, ingest and validate STAC; run its workflows",
		Long: "Work with STAC items and collections. Workflow files of stac-manager run as they are, here as with\n" +
			"`stepwell run`; docs/stac.md has the modules and their settings.",
		Args: p.unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newStacRunCommand(), p.newStacValidateWorkflowCommand(), p.newStacDiscoverCommand(), p.newStacIngestCommand(),
		p.newStacValidateCommand(), p.newStacExtensionsCommand())
	return cmd
}

// workflowFile is --config, or the argument.
type workflowFile struct{ config string }

func (w *workflowFile) add(f *pflag.FlagSet) {
	f.StringVar(&w.config, "config", "", "the workflow `file`; it may stand without the flag")
}

func (w *workflowFile) of(args []string) (string, error) {
	switch {
	case w.config != "" && len(args) > 0:
		return "", stepwell.Invalid("", "the workflow is named twice: %s and %s", w.config, args[0])
	case w.config != "":
		return w.config, nil
	case len(args) > 0:
		return args[0], nil
	}
	return "", stepwell.Invalid("give it with --config FILE", "FILE is missing")
}

func (p *program) newStacRunCommand() *cobra.Command {
	var w workflowFile
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run-workflow [--config] FILE",
		Short: "Run a workflow file; the same as `stepwell run FILE`",
		Long: "Run a workflow file. Exit codes: 0 completed, also when every item was done before; 1 failed; 2 wrong\n" +
			"input; 3 completed, but some items failed: failures.json says which and why.",
		Args: arguments(0, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := w.of(args)
			if err != nil {
				return err
			}
			if f.dryRun {
				if err := p.tryWorkflow(file); err != nil {
					return err
				}
			}
			return p.run(file, &f)
		},
	}
	flags := cmd.Flags()
	w.add(flags)
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything, open what the modules read, show the plan, but run nothing")
	flags.BoolVar(&f.resume, "resume", false, "continue with the newest unfinished execution of the workflow")
	flags.StringArrayVarP(&f.params, "param", "p", nil, "`key=value` of a parameter; lists and objects as JSON")
	f.addReport(flags)
	f.output = format(flags, "text", "json")
	p.settings.addRun(flags)
	p.settings.addLenient(flags)
	return cmd
}

func (p *program) newStacValidateWorkflowCommand() *cobra.Command {
	var w workflowFile
	cmd := &cobra.Command{
		Use:   "validate-workflow [--config] FILE",
		Short: "Find what is wrong with a workflow file and with what its modules read",
		Long:  "Check a workflow file, as `stepwell validate` does, and also what its modules would read: missing files, tables and schemas. Nothing is changed.",
		Args:  arguments(0, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := w.of(args)
			if err != nil {
				return err
			}
			if err := p.tryWorkflow(file); err != nil {
				return err
			}
			return p.validateHere([]string{file}, "text", "")
		},
	}
	w.add(cmd.Flags())
	p.settings.addLenient(cmd.Flags())
	return cmd
}

func (p *program) newStacExtensionsCommand() *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:   "list-extensions",
		Short: "List the STAC extensions that stac.extension knows by name",
		Args:  arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			all := schema.Extensions()
			if output.value == "json" {
				type extension struct {
					Name   string `json:"name"`
					Prefix string `json:"prefix"`
					Schema string `json:"schema_uri"`
					Assets bool   `json:"of_assets"`
				}
				list := make([]extension, len(all))
				for i, e := range all {
					list[i] = extension{e.Name, e.Prefix, e.URI, e.Assets}
				}
				return view.WriteJSON(p.out, list)
			}
			t := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
			for _, e := range all {
				fmt.Fprintf(t, "%s\t%s:*\t%s\n", e.Name, e.Prefix, e.URI)
			}
			return t.Flush()
		},
	}
	output = format(cmd.Flags(), "text", "json")
	return cmd
}
