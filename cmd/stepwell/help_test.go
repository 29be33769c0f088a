package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/manual"
)

// everyCommand calls f with all commands of the program.
func everyCommand(f func(cmd *cobra.Command)) {
	p := &program{env: func(string) (string, bool) { return "", false }, environ: func() []string { return nil }}
	root := p.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		f(cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// TestHelp holds the help of every command: it fits into 80 columns, its summary is a short imperative, and the commands
// are listed by task.
func TestHelp(t *testing.T) {
	var grouped []string
	for _, g := range groups {
		grouped = append(grouped, g.Commands...)
	}
	everyCommand(func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%s: a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		first, _, _ := strings.Cut(cmd.Short, " ")
		if len(cmd.Short) > 80 || first == "" || strings.HasSuffix(first, "s") && first != "Pass" || strings.ToUpper(first[:1]) != first[:1] || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q is no short imperative", cmd.CommandPath(), cmd.Short)
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && !slices.Contains(grouped, cmd.Name()) {
			t.Errorf("%s stands in no group of the help", cmd.CommandPath())
		}
	})
}

// TestCommandsPage holds docs/commands.md to the help of the commands.
func TestCommandsPage(t *testing.T) {
	const path = "../../docs/commands.md"
	p := &program{env: func(string) (string, bool) { return "", false }, environ: func() []string { return nil }}
	root := p.root()
	root.InitDefaultCompletionCmd()
	var page strings.Builder
	if err := manual.WriteMarkdown(&page, root, groups); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	current, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(current), page.String()); diff != "" {
		t.Errorf("%s is out of date; go test ./cmd/stepwell -run CommandsPage -update:\n%s", path, diff)
	}
}
