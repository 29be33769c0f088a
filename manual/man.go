package manual

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteMan writes the man page of one command. Pages are the same whenever they are made of the same version.
func WriteMan(w io.Writer, cmd *cobra.Command, version string, built time.Time) error {
	cmd.InitDefaultHelpFlag()
	var b bytes.Buffer
	fmt.Fprintf(&b, ".nh\n.TH \"%s\" \"1\" \"%s\" \"%s\" \"Stepwell\"\n", strings.ToUpper(pageName(cmd)), built.Format("Jan 2006"), version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n\\fB%s\\fP\n.SH DESCRIPTION\n", roff(pageName(cmd)), roff(cmd.Short), roff(cmd.UseLine()))
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	writeText(&b, text)
	writeFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	writeFlags(&b, "OPTIONS INHERITED FROM PARENT COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLE\n")
		writeText(&b, cmd.Example)
	}
	var others []string
	if cmd.HasParent() {
		others = append(others, pageName(cmd.Parent()))
	}
	for _, sub := range pagesBelow(cmd) {
		others = append(others, pageName(sub))
	}
	for i, name := range others {
		others[i] = "\\fB" + roff(name) + "(1)\\fP"
	}
	if len(others) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(others, ", ") + "\n")
	}
	_, err := b.WriteTo(w)
	return err
}

// WriteManTree writes the man pages of a command and all below it into a folder: stepwell-executions-show.1.
func WriteManTree(dir string, cmd *cobra.Command, version string, built time.Time) error {
	var b bytes.Buffer
	if err := WriteMan(&b, cmd, version, built); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), b.Bytes(), 0o644); err != nil {
		return err
	}
	for _, sub := range pagesBelow(cmd) {
		if err := WriteManTree(dir, sub, version, built); err != nil {
			return err
		}
	}
	return nil
}

// pageName is the name of a command's page.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// pagesBelow are the commands of cmd that have a page of their own.
func pagesBelow(cmd *cobra.Command) (list []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			list = append(list, sub)
		}
	}
	return list
}

func writeFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + title + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "\\fB" + roff("--"+f.Name) + "\\fP"
		if f.Shorthand != "" && f.ShorthandDeprecated == "" {
			name = "\\fB" + roff("-"+f.Shorthand) + "\\fP, " + name
		}
		if value != "" {
			name += " \\fI" + roff(value) + "\\fP"
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" && !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", name, roff(usage))
	})
}

// writeText writes paragraphs, which a blank line parts. Lines that begin with a space stay lines.
func writeText(b *bytes.Buffer, text string) {
	literal := false
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if indented := strings.HasPrefix(line, " "); indented != literal && line != "" {
			literal = indented
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[literal])
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		b.WriteString(line + "\n")
	}
	if literal {
		b.WriteString(".fi\n")
	}
}

// code is text between backquotes.
var code = regexp.MustCompile("`([^`\n]+)`")

// roff is text as the formatter reads it: code is bold, and neither a backslash nor the beginning of a line is a command.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	text = code.ReplaceAllString(text, `\fB$1\fP`)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
