package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/manual"
)

func (p *program) newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man [DIRECTORY]",
		Short:   "Write the man pages",
		Long:    "Write the man pages of all commands into DIRECTORY, or that of stepwell to the output.",
		Example: "  stepwell man | man -l -\n  stepwell man /usr/local/share/man/man1",
		Args:    arguments(0, 1, "DIRECTORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, release := cmd.Root(), "stepwell "+manual.Version()
			if len(args) == 0 {
				return manual.WriteMan(p.out, root, release, manual.Built())
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fileError(args[0], err)
			}
			if err := manual.WriteManTree(args[0], root, release, manual.Built()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.out, "Wrote the man pages into %s. Read one: man -l %s/stepwell-run.1\n", args[0], args[0])
			return err
		},
	}
}
