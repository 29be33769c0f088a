package manual

import (
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// header of the pages: they are the same whenever they are made of the same version.
func header(version string, built time.Time) *doc.GenManHeader {
	return &doc.GenManHeader{Section: "1", Source: version, Manual: "Stepwell", Date: &built}
}

// WriteMan writes the man page of one command.
func WriteMan(w io.Writer, cmd *cobra.Command, version string, built time.Time) error {
	cmd.DisableAutoGenTag = true
	return doc.GenMan(cmd, header(version, built), w)
}

// WriteManTree writes the man pages of a command and all below it into a folder: stepwell-executions-show.1.
func WriteManTree(dir string, cmd *cobra.Command, version string, built time.Time) error {
	cmd.DisableAutoGenTag = true
	return doc.GenManTreeFromOpts(cmd, doc.GenManTreeOptions{Header: header(version, built), Path: dir, CommandSeparator: "-"})
}
