package manual

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pageWidth is how long a line of the reference gets: as all lines of the project's Markdown.
const pageWidth = 120

// WriteMarkdown writes the reference of root and all commands below it as one page: the same texts as their help and man pages.
func WriteMarkdown(w io.Writer, root *cobra.Command, groups []Group) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Commands\n\nThis page is generated from the help of the commands (`%s COMMAND --help`).\n\n%s\n", root.CommandPath(), prose(root))
	for _, g := range groups {
		fmt.Fprintf(b, "\n**%s**\n\n| command | task |\n|---|---|\n", strings.TrimSuffix(g.Title, ":"))
		for _, name := range g.Commands {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
				fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), anchor(cmd), cell(cmd.Short))
			}
		}
	}
	for _, g := range groups {
		for _, name := range g.Commands {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
				writeMarkdown(b, cmd, 2)
			}
		}
	}
	return b.Flush()
}

// writeMarkdown writes the part of one command and of those below it.
func writeMarkdown(b *bufio.Writer, cmd *cobra.Command, level int) {
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", strings.Repeat("#", level), cmd.CommandPath(), prose(cmd))
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n| command | task |\n|---|---|\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", sub.CommandPath(), anchor(sub), cell(sub.Short))
			}
		}
	} else {
		fmt.Fprintf(b, "\n```\n%s\n```\n", hang(cmd.UseLine(), 4, pageWidth))
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", unindent(cmd.Example))
	}
	if f := cmd.NonInheritedFlags(); f.HasAvailableFlags() {
		b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		f.VisitAll(func(flag *pflag.Flag) { writeFlag(b, flag) })
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			writeMarkdown(b, sub, min(level+1, 4))
		}
	}
}

func writeFlag(b *bufio.Writer, f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
	}
	value, about := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	fallback := ""
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		fallback = "`" + f.DefValue + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, fallback, cell(about))
}

// prose is the long text of a command as Markdown. Indented lines, which stand as they are in the help, become code blocks.
func prose(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	var out []string
	code := false
	for line := range strings.SplitSeq(Fill(text, pageWidth), "\n") {
		indented := strings.HasPrefix(line, " ")
		switch {
		case indented && !code:
			if len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
			out = append(out, "```")
		case !indented && code:
			out = append(out, "```")
			if line != "" {
				out = append(out, "")
			}
		}
		code = indented
		if indented {
			line = strings.TrimPrefix(line, "  ")
		} else {
			line = strings.ReplaceAll(line, "<", "&lt;")
		}
		out = append(out, line)
	}
	if code {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(strings.Trim(text, "\n"), "\n  ", "\n"), "  ")
}

// anchor is the fragment that renderers give the heading of a command.
func anchor(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// cell makes text safe within a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
