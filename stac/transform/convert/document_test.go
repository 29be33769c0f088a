package convert

import (
	"strings"
	"testing"
)

func TestDocument(t *testing.T) {
	for _, c := range []struct{ in, want, fault string }{
		{"{\"b\": 1.50, \"a\": [1e21]}", "{\"b\": 1.50, \"a\": [1e21]}", ""},
		{"b: 1.50\na: [x, 2020-01-01, null, yes, 'q', 12, 0x10]\n", `{"b":1.50,"a":["x","2020-01-01",null,"yes","q",12,16]}`, ""},
		{"t: 2020-01-01 10:00:00\n", `{"t":"2020-01-01 10:00:00"}`, ""},
		{"assets: {x: {href: \"{item_id}.tif\"}}", `{"assets":{"x":{"href":"{item_id}.tif"}}}`, ""},
		{"", "", "empty"}, {"a: &x 1\nb: *x\n", "", "aliases"}, {"a: 1\na: 2\n", "", "a"}, {`{"a":1`, "", ""}, {"a: [", "", "YAML"}, {"? [1]\n: 2\n", "", "is not a name"},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100) + "x", "", "YAML"}, {"a: .nan\n", "", "line 1"},
	} {
		got, err := readDocument(strings.NewReader(c.in))
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%q: %s, %v, want %q", c.in, got.Bytes(), err, c.fault)
			}
			continue
		}
		if err != nil || string(got.Bytes()) != c.want {
			t.Errorf("%q: %s, %v, want %s", c.in, got.Bytes(), err, c.want)
		}
	}
	if _, err := readDocument(strings.NewReader(strings.Repeat(" ", MaxDocument+1))); err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("a large one: %v", err)
	}
}

func FuzzDocument(f *testing.F) {
	f.Add("a: [1, {b: c}]\n")
	f.Add("{\"a\":1}")
	f.Add("- !!binary aGVsbG8=\n- 1e999\n- 2020-01-01\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Document([]byte(text))
		if err != nil {
			return
		}
		if again, err := Document(v.Bytes()); err != nil || again.Kind() != v.Kind() {
			t.Errorf("%q is %s, then %v", text, v.Bytes(), err)
		}
	})
}
