package manual_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/manual"
)

func tree() *cobra.Command {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things", Run: nothing}
	things := &cobra.Command{Use: "things", Aliases: []string{"th"}, Short: "Manage things, of which there are so many that this line does not fit at all", Run: nothing}
	things.AddCommand(&cobra.Command{Use: "start NAME", Short: "Start a thing", Run: nothing}, &cobra.Command{Use: "list", Short: "List things", Run: nothing})
	others := &cobra.Command{Use: "others", Short: "Manage others", Run: nothing}
	others.AddCommand(&cobra.Command{Use: "start NAME", Short: "Start another", Run: nothing})
	root.AddCommand(things, others, &cobra.Command{Use: "stac", Short: "Something else", Run: nothing})
	return root
}

func TestSuggest(t *testing.T) {
	root := tree()
	for word, want := range map[string][]string{
		"strat":  {"tool others start", "tool things start"},
		"stak":   {"tool stac"},
		"thinks": {"tool things"},
		"lists":  {"tool things list"},
		"zzzz":   nil,
	} {
		if got := manual.Suggest(root, word); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// TestSuggestElsewhere: words of other systems lead to the commands that do the same, the second word to one of theirs.
func TestSuggestElsewhere(t *testing.T) {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Run: nothing}
	add := func(name string, below ...string) *cobra.Command {
		group := &cobra.Command{Use: name, Run: nothing}
		for _, b := range below {
			group.AddCommand(&cobra.Command{Use: b, Run: nothing})
		}
		root.AddCommand(group)
		return group
	}
	pipelines := add("pipelines", "start", "list", "show")
	add("schedules", "trigger", "resume")
	add("executions", "show", "list", "resume", "cancel")
	add("events", "send")
	add("actions")
	add("run")
	for words, want := range map[string][]string{
		"dags trigger":      {"tool pipelines start", "tool schedules trigger"},
		"dags unpause":      {"tool schedules resume", "tool executions resume"},
		"workflow start":    {"tool pipelines start"},
		"workflow signal":   {"tool events send"},
		"workflow describe": {"tool pipelines show", "tool executions show"},
		"tasks list":        {"tool actions"},
		"trigger":           {"tool pipelines start", "tool schedules trigger"},
		"start":             {"tool run", "tool pipelines start"},
		"stop":              {"tool executions cancel"},
	} {
		if got := manual.Suggest(root, strings.Fields(words)...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	if got := manual.Suggest(pipelines, "trigger"); !slices.Equal(got, []string{"tool pipelines start"}) {
		t.Errorf("below pipelines: %q", got)
	}
}

func TestHelpIsGroupedAndFits(t *testing.T) {
	root := tree()
	manual.Layout(root, []manual.Group{{Title: "First:", Commands: []string{"stac", "things"}}, {Title: "Empty:", Commands: []string{"none"}}}, func() int { return 40 })
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs(nil)
	root.Run = func(cmd *cobra.Command, _ []string) { _ = cmd.Help() }
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 41 {
			t.Errorf("too long: %s", line)
		}
	}
	at := -1
	for _, want := range []string{"First:\n", "  stac ", "  things ", "Other commands:\n", "  others "} {
		next := strings.Index(text, want)
		if next <= at {
			t.Errorf("%q is not where it should be:\n%s", want, text)
		}
		at = next
	}
	if strings.Contains(text, "Empty:") {
		t.Error("a group without commands is shown")
	}
}

func TestFill(t *testing.T) {
	got := manual.Fill("one two three four\nfive\n\n  name   a list whose line is long\nend", 15)
	want := "one two three\nfour five\n\n  name   a list\n         whose\n         line\n         is\n         long\nend"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestManPage: the page of a command says all that its help does, and no text of it is read as a command of the formatter.
func TestManPage(t *testing.T) {
	root := tree()
	things, _, err := root.Find([]string{"things"})
	if err != nil {
		t.Fatal(err)
	}
	things.Long = "Manage `all` things.\n.hidden is no command\n\n  tool things list \\\n    --all\n\nThe end."
	things.Example = "  tool things list"
	things.Flags().StringP("size", "s", "big", "the `size` of things")
	things.Flags().Bool("secret", false, "")
	if err := things.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := manual.WriteMan(&b, things, "tool 1", time.Unix(0, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	want := `.nh
.TH "TOOL-THINGS" "1" "Jan 1970" "tool 1" "Stepwell"
.SH NAME
tool\-things \- Manage things, of which there are so many that this line does not fit at all
.SH SYNOPSIS
\fBtool things [flags]\fP
.SH DESCRIPTION
Manage \fBall\fP things.
\&.hidden is no command
.PP
.nf
  tool things list \e
    \-\-all
.PP
.fi
The end.
.SH OPTIONS
.TP
\fB\-h\fP, \fB\-\-help\fP
help for things
.TP
\fB\-s\fP, \fB\-\-size\fP \fIsize\fP
the size of things (default big)
.SH EXAMPLE
.nf
  tool things list
.fi
.SH SEE ALSO
\fBtool(1)\fP, \fBtool\-things\-list(1)\fP, \fBtool\-things\-start(1)\fP
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
