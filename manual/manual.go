// Package manual is what a command says about itself: its help, the commands that are suggested for a misspelt one, and its
// man pages. It works on any tree of cobra commands and runs none of them.
package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group is a heading of the help with the names of the commands below it, in the order in which they are shown.
type Group struct {
	Title    string
	Commands []string
}

// Layout gives root and all commands below it a help whose lines have at most width() characters. The commands of root stand
// below the headings of the groups; those in no group come last.
func Layout(root *cobra.Command, groups []Group, width func() int) {
	help := func(cmd *cobra.Command, _ []string) {
		p := page{out: cmd.OutOrStdout(), width: width(), cmd: cmd}
		if cmd == root {
			p.groups = groups
		}
		p.write()
	}
	root.SetHelpFunc(help)
	root.SetUsageFunc(func(cmd *cobra.Command) error { help(cmd, nil); return nil })
}

// page is the help of one command.
type page struct {
	out    io.Writer
	width  int
	cmd    *cobra.Command
	groups []Group
}

func (p *page) write() {
	c := p.cmd
	text := c.Long
	if text == "" {
		text = c.Short
	}
	p.lines(Fill(text, p.width))
	p.heading("Usage:")
	if c.Runnable() && !c.HasAvailableSubCommands() {
		p.lines(hang("  "+c.UseLine(), 6, p.width))
	}
	if c.HasAvailableSubCommands() {
		p.lines("  " + c.CommandPath() + " COMMAND")
	}
	if len(c.Aliases) > 0 {
		p.heading("Aliases:")
		p.lines("  " + strings.Join(c.Aliases, ", "))
	}
	if c.Example != "" {
		p.heading("Examples:")
		p.lines(c.Example)
	}
	p.commands()
	p.flags("Flags:", c.LocalFlags())
	p.flags("Flags of all commands:", c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		p.lines("")
		p.lines(Fill(fmt.Sprintf("`%s COMMAND --help` tells more about a command.", c.CommandPath()), p.width))
	}
}

func (p *page) lines(text string) { fmt.Fprintln(p.out, strings.TrimRight(text, " \n")) }

func (p *page) heading(title string) { fmt.Fprintf(p.out, "\n%s\n", title) }

// commands lists the subcommands, below their headings where there are groups.
func (p *page) commands() {
	left := map[string]*cobra.Command{}
	var order []string
	names := 0
	for _, sub := range p.cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			left[sub.Name()] = sub
			order = append(order, sub.Name())
			names = max(names, len(sub.Name()))
		}
	}
	list := func(title string, wanted []string) {
		for _, name := range wanted {
			sub, ok := left[name]
			if !ok {
				continue
			}
			if title != "" {
				p.heading(title)
				title = ""
			}
			p.entry(name, names, sub.Short)
			delete(left, name)
		}
	}
	for _, g := range p.groups {
		list(g.Title, g.Commands)
	}
	title := "Commands:"
	if len(p.groups) > 0 {
		title = "Other commands:"
	}
	list(title, order)
}

// entry is a name and what it is about, in as many lines as it takes.
func (p *page) entry(name string, names int, about string) {
	indent := strings.Repeat(" ", names+4)
	text := strings.ReplaceAll(Fill(about, p.width-len(indent)), "\n", "\n"+indent)
	p.lines(fmt.Sprintf("  %-*s  %s", names, name, text))
}

func (p *page) flags(title string, f *pflag.FlagSet) {
	if f.HasAvailableFlags() {
		p.heading(title)
		p.lines(f.FlagUsagesWrapped(p.width))
	}
}

// hang breaks a line that is too long: what follows is indented by so many spaces.
func hang(line string, indent, width int) string {
	if len([]rune(line)) <= width {
		return line
	}
	head, rest := string([]rune(line)[:indent]), string([]rune(line)[indent:])
	return head + strings.ReplaceAll(Fill(strings.TrimLeft(rest, " "), width-indent), "\n", "\n"+strings.Repeat(" ", indent))
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// hanging is where the lines go on that a line of a list is broken into: below the text behind its name.
func hanging(line string) int {
	indent := indentOf(line)
	body := line[indent:]
	if name, text, ok := strings.Cut(body, "  "); ok {
		return indent + len([]rune(name)) + 2 + len(text) - len(strings.TrimLeft(text, " "))
	}
	return indent
}

// Fill breaks the paragraphs of a text anew, at width. Lines that begin with a space stay, but for those of a list (a name, two
// spaces, a text) that are too long, and those that go on below the text.
func Fill(text string, width int) string {
	var out, words []string
	item, below := "", 0 // a line of a list, and where its text goes on
	flush := func() {
		if item != "" {
			out = append(out, hang(item, below, width))
		}
		line := ""
		item = ""
		for _, w := range words {
			switch {
			case line == "":
				line = w
			case len([]rune(line))+1+len([]rune(w)) > width:
				out = append(out, line)
				line = w
			default:
				line += " " + w
			}
		}
		if line != "" {
			out = append(out, line)
		}
		words = words[:0]
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			flush()
			out = append(out, "")
		case item != "" && below > indentOf(item) && indentOf(line) == below:
			item += " " + strings.TrimSpace(line)
		case strings.HasPrefix(line, " "):
			flush()
			item, below = line, hanging(line)
		default:
			words = append(words, strings.Fields(line)...)
		}
	}
	flush()
	return strings.Join(out, "\n")
}
