package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/definition"
)

func TestStepLines(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"block": {`# first
name: x
steps:
  - id: a   # one
    action: util.log
    params:
      message: |
        # not a comment to YAML

        two

  # about b
  - {id: b, action: util.log}
  - id: each
    for_each: "{{ [1] }}"
    steps:
      - id: in
        action: util.log
finally:
- id: last
  action: util.log
`, "[{a 4 10} {b 13 13} {each 14 18} {each.in 17 18} {finally.last 20 21}]"},
		"json, one line": {`{"name":"x","steps":[{"id":"a","action":"util.log"},{"id":"b","action":"util.log"}]}`, "[{a 1 1} {b 1 1}]"},
		"json, lines":    {"{\"name\": \"x\", \"steps\": [\n  {\n    \"id\": \"a\",\n    \"action\": \"util.log\"\n  },\n  {\n    \"id\": \"b\"\n  }\n]}", "[{a 2 5} {b 6 8}]"},
		"carriage":       {"name: x\r\nsteps:\r\n  - id: a\r\n    action: util.log\r\n\r\n", "[{a 3 4}]"},
		"no pipeline":    {"- [", "[]"},
		"nothing":        {"", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(definition.StepLines([]byte(c.text))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestTextOfASnapshot(t *testing.T) {
	text := "# why\nname: x\nsteps: [{id: a, action: util.log, params: {message: \"one\\ntwo\", list: []}}]\n"
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if d == nil {
		t.Fatal(problems)
	}
	plain, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	d.Keep([]byte(text))
	whole, err := definition.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	rest, got, err := definition.Untold(whole)
	if err != nil || got != text || string(rest) != string(plain) {
		t.Errorf("%q %s %v", got, rest, err)
	}
	if rest, got, err = definition.Untold(plain); err != nil || got != "" || string(rest) != string(plain) {
		t.Errorf("%q %s %v", got, rest, err)
	}
	if d.Keep(make([]byte, definition.MaxText+1)); d.Text != "" {
		t.Error("a text that is too large is kept")
	}
	written, err := definition.YAML(plain)
	if err != nil || !strings.HasPrefix(written, "name: x\n") || !strings.Contains(written, "  - id: a\n") || !strings.Contains(written, "message: |-\n") || !strings.Contains(written, "list: []\n") {
		t.Errorf("%s %v", written, err)
	}
	if again, problems := definition.Parse([]byte(written), definition.ParseOptions{}); again == nil {
		t.Error(problems)
	}
}
