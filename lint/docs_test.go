package lint_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
)

var chapter = regexp.MustCompile(`(?m)^### (SW\d+) .*$`)

// TestDocumentation: docs/lint.md has all rules, and of each example the first half breaks its rule and no other, the second none.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	sub, _ := definition.Parse([]byte(strings.Replace(child, "steps:", "  - {name: token, type: string, secret: true, default: \"\"}\nsteps:", 1)), definition.ParseOptions{})
	others := map[string]*definition.Definition{"child": sub}
	text := string(page)
	places := chapter.FindAllStringSubmatchIndex(text, -1)
	var codes []string
	for i, at := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		code, body := text[at[2]:at[3]], text[at[1]:end]
		codes = append(codes, code)
		m := fence.FindStringSubmatch(body)
		if m == nil {
			if code != lint.CodeInvalid && code[:3] != "SW5" {
				t.Errorf("%s has no example", code)
			}
			continue
		}
		wrong, right, ok := strings.Cut(m[1], "# right\n")
		if !ok {
			t.Errorf("%s has no right example", code)
		}
		if got := codesOf(read(t, "wrong.yaml", []byte("name: example\n"+wrong), others, lint.Facts{})); !slices.Contains(got, code) || len(got) != 1 && code != "SW002" {
			t.Errorf("%s: the wrong example breaks %v", code, got)
		}
		if got := codesOf(read(t, "right.yaml", []byte("name: example\n"+right), others, lint.Facts{})); len(got) > 0 {
			t.Errorf("%s: the right example breaks %v", code, got)
		}
	}
	var want []string
	for _, r := range lint.Rules {
		want = append(want, r.Code)
	}
	if !slices.Equal(codes, want) {
		t.Errorf("the page has %v, not %v", codes, want)
	}
}

func codesOf(problems definition.Problems, _ *definition.Definition) (codes []string) {
	for _, p := range problems {
		codes = append(codes, p.Code)
	}
	return codes
}
