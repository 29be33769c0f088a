package spec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/spec"
)

type tree struct {
	Name  string           `json:"name" minLength:"2" maxLength:"3" pattern:"^[a-z]+$" aka:"title" doc:"Small letters."`
	Kind  string           `json:"kind" enum:"leaf,twig"`
	Wait  time.Duration    `json:"wait" maximum:"60" unit:" seconds"`
	Pause float64          `json:"pause" spec:"zero" minimum:"0"`
	Alive bool             `json:"dead" spec:"not"`
	Size  *int             `json:"size" minimum:"1"`
	Tags  []string         `json:"tags" maxItems:"2"`
	Marks map[string]int   `json:"marks"`
	Upper map[string]upper `json:"upper" doc:"Begin with a capital."`
	Below []tree           `json:"below"`
	More  *tree            `json:"more"`
	Free  any              `json:"free"`
	Inner struct {
		N int `json:"n"`
	} `json:"inner"`
}

var treeShape = spec.NewShape(tree{}, []spec.Keys{{Of: tree{}, What: "a tree", Idle: "color", Instead: map[string]string{"age": "write size"},
	Hints: map[string]string{"moss": "trees have none"}}})

func scalar(text string) *spec.Node { return &spec.Node{Text: text, Pos: spec.Pos{Line: 1, Column: 5}} }

// A key at a time: the value, or the problem with its hint.
func TestDecoder(t *testing.T) {
	list := func(items ...*spec.Node) *spec.Node { return &spec.Node{Kind: spec.ListNode, Items: items} }
	mapping := func(key string, v *spec.Node) *spec.Node {
		return &spec.Node{Kind: spec.MapNode, Entries: []spec.Entry{{Key: key, Value: v}}}
	}
	one := 1
	for _, c := range []struct {
		key   string
		value *spec.Node
		want  tree
		wrong string
	}{
		{"name", scalar("abc"), tree{Name: "abc"}, ""},
		{"name", scalar("a"), tree{}, "1:5: name has 1 characters, at least 2 are needed"},
		{"name", scalar("abcd"), tree{}, "1:5: name has 4 characters, at most 3 are allowed"},
		{"name", scalar("a_b"), tree{}, `1:5: name does not have the form ^[a-z]+$, it is "a_b" (Small letters.)`},
		{"kind", scalar("laef"), tree{}, `1:5: kind must be one of leaf, twig, not "laef" (did you mean leaf?)`},
		{"wait", scalar("30s"), tree{Wait: 30 * time.Second}, ""},
		{"wait", scalar("90"), tree{}, "1:5: wait must be at most 60 seconds, not 90"},
		{"wait", scalar("soon"), tree{}, `1:5: wait must be a number of seconds or a text such as "1h30m", not the text "soon"`},
		{"pause", scalar("0"), tree{Pause: 1e-6}, ""},
		{"dead", scalar("false"), tree{Alive: true}, ""},
		{"size", scalar("1_0"), tree{Size: ptrInt(10)}, ""},
		{"size", scalar("~"), tree{}, ""},
		{"size", scalar("0"), tree{Size: ptrInt(0)}, "1:5: size must be at least 1, not 0"},
		{"tags", scalar("a"), tree{Tags: []string{"a"}}, ""},
		{"tags", list(scalar("a"), scalar("b"), scalar("c")), tree{Tags: []string{"a", "b", "c"}}, "tags must have at most 2 elements, not 3"},
		{"marks", mapping("a", scalar("1")), tree{Marks: map[string]int{"a": 1}}, ""},
		{"upper", mapping("a", scalar("b")), tree{Upper: map[string]upper{"a": ""}}, `1:5: a: "b" has no capital (begin with one)`},
		{"below", list(mapping("below", list(mapping("name", scalar("abc"))))), tree{Below: []tree{{Below: []tree{{Name: "abc"}}}}}, ""},
		{"more", mapping("nmae", scalar("abc")), tree{More: &tree{}}, `unknown key "nmae" in a tree (did you mean name?)`},
		{"free", list(scalar("1"), scalar("a")), tree{Free: []any{int64(1), "a"}}, ""},
		{"inner", mapping("n", scalar("1")), tree{Inner: struct {
			N int `json:"n"`
		}{one}}, ""},
		{"inner", scalar("1"), tree{}, "1:5: inner must be a mapping of keys to values, not the number 1"},
		{"color", scalar("x"), tree{}, `warning: "color" has no effect`},
		{"age", scalar("x"), tree{}, `warning: "age" has no effect (write size)`},
		{"title", scalar("x"), tree{}, `unknown key "title" in a tree (write name)`},
		{"moss", scalar("x"), tree{}, `unknown key "moss" in a tree (trees have none)`},
	} {
		var got tree
		r := &spec.Report{}
		(&spec.Decoder{Report: r}).Struct(mapping(c.key, c.value), "", treeShape, &got, nil)
		text := ""
		for _, p := range r.Problems() {
			text += p.String()
		}
		if diff := cmp.Diff(c.want, got); diff != "" || text != c.wrong {
			t.Errorf("%s: says %s, want %s; -want +got:\n%s", c.key, text, c.wrong, diff)
		}
	}
}

func ptrInt(n int) *int { return &n }

// A variable of the environment is decoded as if it stood in the file.
func ExampleNodeAt() {
	var t tree
	r := &spec.Report{}
	d := &spec.Decoder{Report: r}
	d.Struct(spec.NodeAt([]string{"more", "tags"}, "a,b", true), "", treeShape, &t, nil)
	d.Struct(spec.NodeAt([]string{"size"}, "many", false), "", treeShape, &t, nil)
	fmt.Println(t.More.Tags, r.Found)
	// Output: [a b] size must be a whole number, not the text "many"
}

func TestLeaves(t *testing.T) {
	var paths []string
	for _, l := range treeShape.Leaves() {
		paths = append(paths, fmt.Sprint(l.Path, l.Type))
	}
	want := []string{"[name]string", "[kind]string", "[wait]duration", "[pause]number", "[dead]boolean", "[size]integer", "[tags]array", "[below]array", "[free]any", "[inner n]integer"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The schema accepts the same documents as the decoder, with the keys that have no effect.
func TestShapeJSONSchema(t *testing.T) {
	s := treeShape.JSONSchema("A tree.", map[string]any{"free": map[string]any{"description": "Whatever."}})
	properties := s["properties"].(map[string]any)
	want := map[string]any{"description": "Accepted without effect: write size.", "deprecated": true}
	if diff := cmp.Diff(want, properties["age"]); diff != "" || properties["free"].(map[string]any)["description"] != "Whatever." || s["description"] != "A tree." {
		t.Errorf("%v", s)
	}
}
