//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	goformat "go/format"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/settings"
	"github.com/stepwell/stepwell/tooltest"
)

// TestDocs runs or checks every block of the documentation as its marking says. CONTRIBUTING.md, "Documentation", has
// the markings. With -update the outputs of commands are written into the pages.
func TestDocs(t *testing.T) {
	root := tooltest.Root(t)
	for _, name := range pageNames(t, root) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, filepath.FromSlash(name))
			raw, err := os.ReadFile(path)
			must(t, err)
			p := readPage(name, string(raw))
			p.check(t)
			for _, finding := range p.findings {
				t.Error(finding)
			}
			if *update && p.changed {
				must(t, os.WriteFile(path, []byte(p.text()), 0o644))
			}
		})
	}
}

// pageNames are the Markdown files of the repository, those of vendored programs and test data left out.
func pageNames(t *testing.T, root string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name()[0] == '.') {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") && filepath.ToSlash(name) != "docs/commands.md" { // which the commands write themselves
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	}))
	return names
}

var testLine = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// allTests are the names of the tests of the repository.
var allTests = sync.OnceValue(func() (names []string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if raw, readErr := os.ReadFile(path); err == nil && readErr == nil && strings.HasSuffix(path, "_test.go") {
			for _, m := range testLine.FindAllSubmatch(raw, -1) {
				names = append(names, string(m[1]))
			}
		}
		return nil // what cannot be read has no test that is found
	})
	return names
})

// page is one Markdown file.
type page struct {
	name     string
	lines    []string
	blocks   []block
	usual    string   // the marking of blocks that have none of their own
	needs    []string // programs without which the page is not run
	findings []string
	changed  bool // its lines are not those of the file any more
}

// block is one fenced block.
type block struct {
	at       int // index of its first line in the page
	indent   string
	language string
	marking  string
	lines    []string
}

func (b *block) text() string { return strings.Join(b.lines, "\n") + "\n" }

var (
	fenceLine   = regexp.MustCompile("^( *)(`{3,})([A-Za-z]*)(.*)$")
	commentLine = regexp.MustCompile(`^ *<!-- (.*) -->$`)
)

// readPage finds the blocks of a page and their markings.
func readPage(name, text string) *page {
	p := &page{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	var open *block
	var fence, marking string
	for i, line := range p.lines {
		m := fenceLine.FindStringSubmatch(line)
		switch comment := commentLine.FindStringSubmatch(line); {
		case open != nil && m != nil && m[2] == fence && m[3]+m[4] == "":
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, strings.TrimPrefix(line, open.indent))
		case m != nil:
			open, fence = &block{at: i + 1, indent: m[1], language: m[3], marking: cmp.Or(marking, p.usual)}, m[2]
			marking = ""
		case comment != nil:
			kind, rest, _ := strings.Cut(comment[1], ": ")
			switch kind {
			case "blocks":
				p.usual = rest
			case "needs":
				p.needs = strings.Fields(rest)
			default:
				marking = comment[1]
			}
		case line != "":
			marking = ""
		}
	}
	if open != nil {
		p.find(open.at, "the block does not end")
	}
	return p
}

func (p *page) text() string { return strings.Join(p.lines, "\n") + "\n" }

// find adds a finding at a line, by its index.
func (p *page) find(at int, format string, args ...any) {
	p.findings = append(p.findings, fmt.Sprintf("%s:%d: %s", p.name, at+1, fmt.Sprintf(format, args...)))
}

// check carries out the markings of all blocks.
func (p *page) check(t *testing.T) {
	var s *pageSession
	defer func() {
		if s != nil {
			s.close(t)
		}
	}()
	p.checkSpans()
	for _, b := range slices.Clone(p.blocks) {
		kind, rest, _ := strings.Cut(b.marking, ": ")
		if kind != "run by" {
			p.checkCommands(&b)
		}
		switch {
		case kind == "":
			p.find(b.at-2, "the block has no marking: say <!-- run -->, <!-- file: NAME -->, <!-- validate --> or <!-- not run: REASON --> above it")
		case kind == "not run" && rest == "":
			p.find(b.at-2, "why is the block not run?")
		case kind == "validate":
			p.validate(t, &b, rest)
		case kind == "run" || kind == "file":
			if s == nil {
				s = newPageSession(t, p)
			}
			if kind == "run" {
				s.run(t, &b, rest)
				continue
			}
			s.write(t, &b, rest)
			if (b.language == "yaml" || b.language == "json") && kindOf(&b) != "" {
				p.validate(t, &b, "")
			}
		case kind == "run by":
			if !slices.Contains(allTests(), rest) {
				p.find(b.at-2, "there is no test %q", rest)
			}
		case kind != "not run":
			p.find(b.at-2, "unknown marking %q", b.marking)
		}
	}
}

// span is code in a line of text that shows a command.
var span = regexp.MustCompile("`(stepwell [^`]+)`")

// checkSpans checks the commands that the text between the blocks shows. What they leave out does not matter.
func (p *page) checkSpans() {
	inside := map[int]bool{}
	for _, b := range p.blocks {
		for i := range b.lines {
			inside[b.at+i] = true
		}
	}
	for i, line := range p.lines {
		if inside[i] || p.name == "CHANGELOG.md" || p.name == "docs/decisions.md" { // which speak of the past
			continue
		}
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			commands, _ := splitCommands(m[1])
			for _, words := range commands {
				if slices.Contains(words, "COMMAND") {
					continue
				}
				if err := knownCommand(words, false); err != nil && !strings.Contains(err.Error(), "flag needs an argument") {
					p.find(i, "`%s`: %v", m[1], err)
				}
			}
		}
	}
}

// checkCommands checks every stepwell command of a block against the commands and flags that there are.
func (p *page) checkCommands(b *block) {
	if b.language != "sh" && b.language != "console" {
		return
	}
	for _, c := range b.commands() {
		commands, whole := splitCommands(c.text)
		if !whole {
			p.find(b.at+c.at, "the command has no end: %s", c.text)
		}
		for _, words := range commands {
			if err := knownCommand(words, true); err != nil {
				p.find(b.at+c.at, "%s: %v", strings.Join(words, " "), err)
			}
		}
	}
}

// knownCommand checks a command of stepwell: that it and its flags exist and, if whole, that it has its arguments. Other
// programs are not looked at.
func knownCommand(words []string, whole bool) error {
	if len(words) == 0 || words[0] != "stepwell" {
		return nil
	}
	p := &program{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func(string) (string, bool) { return "", false }, environ: func() []string { return nil }}
	root := p.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var args []string
	for _, w := range words[1:] {
		if w != "…" && w != "..." {
			args = append(args, w)
		}
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 && !strings.ContainsAny(cmd.Flags().Arg(0), "|<[") {
		return cmd.ValidateArgs(cmd.Flags().Args())
	}
	if whole && !cmd.HasSubCommands() && !cmd.Flags().Changed("help") {
		return cmd.ValidateArgs(cmd.Flags().Args())
	}
	return nil
}

// kindOf tells what the YAML of a block is: a pipeline, steps or settings; "": none of these.
func kindOf(b *block) string {
	var n any
	if yaml.Unmarshal([]byte(b.text()), &n) != nil {
		return ""
	}
	switch n := n.(type) {
	case []any:
		if first, ok := n[0].(map[string]any); ok && first["id"] != nil {
			return "steps"
		}
	case map[string]any:
		switch {
		case n["steps"] != nil:
			return "pipeline"
		case n["id"] != nil && (n["action"] != nil || n["module"] != nil):
			return "step"
		case settingsKeys(n):
			return "settings"
		case n["settings"] != nil || n["strategy"] != nil || n["progress"] != nil || n["parameters"] != nil:
			return "part"
		}
	}
	return ""
}

// settingsKeys reports whether stepwell.yaml has all these keys.
func settingsKeys(n map[string]any) bool {
	for key := range n {
		if _, _, err := settings.Parse("stepwell.yaml", []byte("{"+key+": null}")); err != nil && strings.Contains(err.Error(), "unknown") {
			return false
		}
	}
	return len(n) > 0
}

// otherSteps are problems of steps that name steps outside of the block.
var otherSteps = regexp.MustCompile(`is not a step|no step|unknown step|does not exist|no items reach|has no value`)

// validate checks the text of a block by its language.
func (p *page) validate(t *testing.T, b *block, kind string) {
	var err error
	switch b.language {
	case "json":
		for d := json.NewDecoder(strings.NewReader(b.text())); err == nil; {
			var v any
			err = d.Decode(&v)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case "go":
		_, err = goformat.Source([]byte(b.text()))
	case "yaml":
		err = p.validateYAML(t, b, cmp.Or(kind, kindOf(b)))
	case "sh", "console": // their commands are checked in every case
	default:
		err = fmt.Errorf("blocks of %s cannot be validated: run it, or say why not", cmp.Or(b.language, "text"))
	}
	if err != nil {
		p.find(b.at, "%v", err)
	}
}

func (p *page) validateYAML(t *testing.T, b *block, kind string) error {
	text, fragment := b.text(), true
	switch kind {
	case "settings":
		_, _, err := settings.Parse("stepwell.yaml", []byte(text))
		return err
	case "steps":
		text = "steps:\n" + indented(b.lines, "  ")
	case "step":
		text = "steps:\n  - " + strings.TrimPrefix(indented(b.lines, "    "), "    ")
	case "part":
		text += "steps: [{id: only, action: util.noop}]\n"
	case "pipeline":
		fragment = !strings.Contains("\n"+text, "\nname:")
	default:
		return errors.New("this YAML is not a pipeline, step or settings: say why it is not validated")
	}
	if fragment {
		text = "name: fragment\n" + text
	}
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, out, errs := command(t, "validate", "-o", "json", file)
	var list []struct{ Problems definition.Problems }
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		return fmt.Errorf("%v: %s", err, errs)
	}
	var all []error
	for _, problem := range list[0].Problems {
		own := strings.HasPrefix(b.marking, "file") && strings.HasPrefix(problem.Message, "unknown action") &&
			strings.HasPrefix(problem.Hint, "list the known ones") // an action of the page's own worker or plugin
		if !problem.Warning && !own && (!fragment || !otherSteps.MatchString(problem.Message)) {
			all = append(all, errors.New(problem.String()))
		}
	}
	return errors.Join(all...)
}

func indented(lines []string, by string) string {
	var b bytes.Buffer
	for _, line := range lines {
		b.WriteString(by + line + "\n")
	}
	return b.String()
}
