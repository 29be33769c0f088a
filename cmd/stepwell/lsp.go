package main

import (
	"context"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/lsp"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/spec"
)

// typingPause is how long nothing is typed before a document is checked.
const typingPause = 100 * time.Millisecond

func (p *program) newLSPCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve editors: problems, completion, renaming",
		Long: "Serve an editor over the Language Server Protocol, on standard input and output: problems while you type,\n" +
			"completion, hover, definitions and references, renaming of steps and parameters, quick fixes. Editors\n" +
			"start it by themselves (docs/editors.md).",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return p.serveEditor() },
	}
	cmd.Flags().Bool("stdio", true, "use standard input and output, the only way there is")
	p.settings.addLenient(cmd.Flags())
	return cmd
}

func (p *program) serveEditor() error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p.moreGarbage(documentGarbage)
	return lsp.Serve(ctx, p.in, p.out, lsp.Options{
		Version: manual.Version(),
		Catalog: actions,
		Specs:   slices.DeleteFunc(actions.Specs(), func(s spec.Spec) bool { return s.Internal }),
		Load: func(file string, read func(string) ([]byte, error)) (*lsp.Pipeline, definition.Problems, error) {
			d, err := p.resolved(file, actions, read)
			if err != nil || d.def == nil {
				if d != nil {
					return nil, d.problems, err
				}
				return nil, nil, err
			}
			return &lsp.Pipeline{Definition: d.def, Files: d.files, Survey: d.survey}, d.problems, nil
		},
		Read: func(file string) ([]byte, error) { return readFile(file, maxDocument) },
		Tests: func(file string, src []byte) definition.Problems {
			_, problems := scenario.Parse(file, src)
			return problems
		},
		TestSchema: scenario.Schema(),
		Facts:      lint.Facts{Now: clock()},
		Quiet:      typingPause,
	})
}
