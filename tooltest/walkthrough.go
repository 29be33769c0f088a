package tooltest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Walkthrough is one section of CONTRIBUTING.md that shows a change: what its blocks say, ready to be applied.
type Walkthrough struct {
	Title   string   // "Adding an action"
	New     []string // files that the change adds, tests aside
	Changed []string // files of which it changes lines
	Lines   int      // of those, how many it adds
	Written []string // files that a command writes anew
	Console []Console
}

// Console is a command that the section shows, with lines that its output must have.
type Console struct {
	Args  []string // of stepwell
	Asks  string   // or the path that a server is asked for
	Wants []string
}

// Tree is the module with all changes of CONTRIBUTING.md applied: the files that are not what they were, by path.
type Tree map[string]string

var (
	newBlock    = regexp.MustCompile("^New file `([^`]+)`:$")
	changeBlock = regexp.MustCompile("^In `([^`]+)`, below `([^`]+)`:$")
	writtenLine = regexp.MustCompile("^`[^`]+` writes `([^`]+)`")
)

// Walkthroughs reads the sections of CONTRIBUTING.md whose titles begin with "Adding", and applies their blocks: a line
// "New file `PATH`:" or "In `PATH`, below `TEXT`:" stands before the block that it is about.
func Walkthroughs(t testing.TB) ([]Walkthrough, Tree) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []Walkthrough
	tree := Tree{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(title, "Adding ") {
			continue
		}
		w := Walkthrough{Title: title}
		w.read(t, tree, body)
		all = append(all, w)
	}
	return all, tree
}

func (w *Walkthrough) read(t testing.TB, tree Tree, body string) {
	t.Helper()
	said := "" // the last line before a block
	var block []string
	inside := false
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && inside:
			if err := w.apply(t, tree, said, block); err != nil {
				t.Fatalf("CONTRIBUTING.md, %s: %v", w.Title, err)
			}
			inside, block, said = false, nil, ""
		case fence:
			inside = true
		case inside:
			block = append(block, line)
		case line != "":
			said = line
			if m := writtenLine.FindStringSubmatch(line); m != nil {
				w.Written = append(w.Written, m[1])
			}
		}
	}
}

func (w *Walkthrough) apply(t testing.TB, tree Tree, said string, block []string) error {
	text := strings.Join(block, "\n") + "\n"
	if m := newBlock.FindStringSubmatch(said); m != nil {
		if tree[m[1]] = text; !strings.HasSuffix(m[1], "_test.go") {
			w.New = append(w.New, m[1])
		}
		return nil
	}
	if m := changeBlock.FindStringSubmatch(said); m != nil {
		before, changed := tree[m[1]]
		if !changed {
			raw, err := os.ReadFile(filepath.Join(Root(t), m[1]))
			if err != nil {
				return err
			}
			before = string(raw)
		}
		at := strings.Index(before, m[2])
		if at < 0 {
			return fmt.Errorf("%s has no line %q", m[1], m[2])
		}
		at += strings.IndexByte(before[at:], '\n') + 1
		tree[m[1]] = before[:at] + text + before[at:]
		if w.Lines += len(block); !slices.Contains(w.Changed, m[1]) {
			w.Changed = append(w.Changed, m[1])
		}
		return nil
	}
	for _, line := range block {
		if args, ok := strings.CutPrefix(line, "$ stepwell "); ok {
			w.Console = append(w.Console, Console{Args: strings.Fields(args)})
		} else if url, ok := strings.CutPrefix(line, "$ curl http://127.0.0.1:8010"); ok {
			w.Console = append(w.Console, Console{Asks: url})
		} else if n := len(w.Console); n > 0 && !strings.HasPrefix(line, "$") {
			w.Console[n-1].Wants = append(w.Console[n-1].Wants, line)
		}
	}
	return nil
}

// Build builds a package of the module with the changes applied and returns the program's path. The module's own files
// are not touched.
func (tree Tree) Build(t testing.TB, pkg string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range tree {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(Root(t), filepath.FromSlash(name))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "changed.exe")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, pkg)
	cmd.Dir = Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
