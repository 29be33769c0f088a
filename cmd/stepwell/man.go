package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

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
			root, release := cmd.Root(), "stepwell "+version()
			if len(args) == 0 {
				return manual.WriteMan(p.out, root, release, built())
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fileError(args[0], err)
			}
			if err := manual.WriteManTree(args[0], root, release, built()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.out, "Wrote the man pages into %s. Read one: man -l %s/stepwell-run.1\n", args[0], args[0])
			return err
		},
	}
}

// built is when the program's source was committed; where that is not known, the beginning of time, so that the same source
// makes the same pages.
func built() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
				return t
			}
		}
	}
	return time.Unix(0, 0).UTC()
}
