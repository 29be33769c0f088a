package definition_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

const outlined = `name: outlined
progress: {items: each}
steps:
  - id: a
    action: util.log
    params: {message: "a"}
  - id: each
    for_each: "{{ steps.a.outputs.list }}"
    depends_on: [a]
    steps:
      - {id: inner, action: util.log, params: {message: "{{ item }}"}}
      - id: second
        action: util.log
        depends_on: inner
        params:
          message: |
            two lines: {{ steps["inner"].status }}
            and {{ steps.inner.outputs.x | default(steps.a.status) }}
  - id: choose
    action: conditional
    depends_on: ["each"]
    params:
      branches:
        - {condition: "steps.each.outputs.failed == 0", target_step: chosen}
  - id: chosen
    action: util.noop
    condition: steps.choose.status == "completed"
    params:
      folded: >
        a folded
        text {{ steps.a.status }}
      quoted: "\u0041 {{ steps.a.status }}"
      results: "{{ steps.each.outputs.results[0].inner.x }}"
finally:
  - {id: last, action: util.log, params: {message: "{{ steps.chosen.status }}"}}
outputs:
  done: "{{ steps . choose.status }}"
`

func outlineOf(t *testing.T, text string) (*definition.Definition, *definition.Outline) {
	t.Helper()
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if d == nil {
		t.Fatal(problems)
	}
	return d, definition.OutlineOf(d, actions(), []byte(text))
}

func TestOutlineUses(t *testing.T) {
	_, o := outlineOf(t, outlined)
	lines := strings.Split(outlined, "\n")
	exact, mapped := map[string]int{}, map[string][]string{}
	for _, u := range o.Uses {
		if !u.Exact {
			mapped[u.Step] = append(mapped[u.Step], u.Path)
			continue
		}
		exact[u.Step]++
		if got := lines[u.At.Line-1][u.At.Column-1:]; !strings.HasPrefix(got, u.Step) {
			t.Errorf("%s at %d:%d of %s, where %q stands", u.Step, u.At.Line, u.At.Column, u.Path, got)
		}
	}
	// the condition of the branch is none to this catalogue
	want := map[string]int{"a": 4, "each": 4, "inner": 5, "second": 1, "choose": 3, "chosen": 3, "last": 1}
	if fmt.Sprint(exact) != fmt.Sprint(want) {
		t.Errorf("uses %v, want %v", exact, want)
	}
	if got := fmt.Sprint(mapped); got != "map[a:[steps[3].params.folded steps[3].params.quoted]]" {
		t.Errorf("not exact: %s", got)
	}
}

func TestOutlineLists(t *testing.T) {
	_, o := outlineOf(t, outlined)
	var lists []string
	for _, l := range o.Lists {
		lists = append(lists, fmt.Sprintf("%s|%s|%d|%d|%v", l.Name, l.Path, l.Up, l.At, l.Deps))
	}
	want := []string{"|steps|-1|-1|[[] [0] [1] [2]]", "|steps[1].steps|0|1|[[] [0]]", "finally|finally|-1|-1|[[]]"}
	if !slices.Equal(lists, want) {
		t.Errorf("lists %q, want %q", lists, want)
	}
}

// Renaming a step by the places that an outline gives leaves a document with the same problems, in which nothing is called by the
// old id any more.
func TestOutlineRenamesEveryDocument(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*/*.yaml", "../starter/templates/*.yaml", "../examples/*.yaml", "../examples/*/*.yaml", "../plan/testdata/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	documents, renamed := 0, 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := definition.Parse(src, definition.ParseOptions{})
		if d == nil || len(d.Matrix) > 0 {
			continue
		}
		before := append(problems, definition.Check(d, actions(), "")...)
		if strings.Contains(file, "/bad/") { // some of their problems are about ids
			continue
		}
		documents++
		uses := map[string][]definition.Use{}
		for _, u := range definition.OutlineOf(d, actions(), src).Uses {
			uses[u.Step] = append(uses[u.Step], u)
		}
		for id, places := range uses {
			if slices.ContainsFunc(places, func(u definition.Use) bool { return !u.Exact }) {
				continue
			}
			text := rename(string(src), places, "renamed")
			again, problems := definition.Parse([]byte(text), definition.ParseOptions{})
			if again == nil {
				t.Errorf("%s: with %s renamed: %v\n%s", file, id, problems, text)
				continue
			}
			after := append(problems, definition.Check(again, actions(), "")...)
			if len(after) != len(before) {
				t.Errorf("%s: with %s renamed the problems are\n%v\nwere\n%v", file, id, after, before)
			}
			for _, u := range definition.OutlineOf(again, actions(), []byte(text)).Uses {
				if u.Step == id {
					t.Errorf("%s: %s is still named at %d:%d", file, id, u.At.Line, u.At.Column)
				}
			}
			renamed++
		}
	}
	if documents < 20 || renamed < 100 {
		t.Errorf("only %d documents with %d renamed steps", documents, renamed)
	}
	t.Logf("%d documents, %d renamed steps", documents, renamed)
}

// rename writes another id at the places, from the last to the first.
func rename(text string, places []definition.Use, to string) string {
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	places = slices.Clone(places)
	slices.SortFunc(places, func(a, b definition.Use) int {
		if a.At.Line != b.At.Line {
			return b.At.Line - a.At.Line
		}
		return b.At.Column - a.At.Column
	})
	for i, u := range places {
		if i > 0 && places[i-1].At == u.At {
			continue
		}
		line := []rune(lines[u.At.Line-1])
		from := u.At.Column - 1
		lines[u.At.Line-1] = string(line[:from]) + to + string(line[from+len([]rune(u.Step)):])
	}
	return strings.Join(lines, "\n")
}
