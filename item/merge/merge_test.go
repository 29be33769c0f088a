package merge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/item/merge"
)

func value(t testing.TB, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// What merges how. Each case is a base, what the branches made of it, and the result or the paths in conflict.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, base, a, b, want string
		conflicts              string
	}{
		{name: "nothing changed", base: `{"x":100.0, "y":1e21}`, a: `{"x":100.0, "y":1e21}`, b: `{"x":100.0, "y":1e21}`, want: `{"x":100.0, "y":1e21}`},
		{name: "different paths", base: `{"p":{"x":1,"y":1}}`, a: `{"p":{"x":2,"y":1}}`, b: `{"p":{"x":1,"y":2}}`, want: `{"p":{"x":2,"y":2}}`},
		{name: "an untouched value of the second branch does not undo a change of the first", base: `{"x":1}`, a: `{"x":2}`, b: `{"x":1}`, want: `{"x":2}`},
		{name: "a removal", base: `{"x":1,"y":1}`, a: `{"y":1}`, b: `{"x":1,"y":2}`, want: `{"y":2}`},
		{name: "a removal in the second branch", base: `{"x":1,"y":1}`, a: `{"x":1,"y":2}`, b: `{"y":1}`, want: `{"y":2}`},
		{name: "both remove", base: `{"x":1}`, a: `{}`, b: `{}`, want: `{}`},
		{name: "both add different members", base: `{}`, a: `{"p":{"x":1}}`, b: `{"p":{"y":2}}`, want: `{"p":{"x":1,"y":2}}`},
		{name: "equal changes are one", base: `{"x":1}`, a: `{"x":{"k":1,"l":2}}`, b: `{"x":{"l":2,"k":1}}`, want: `{"x":{"k":1,"l":2}}`},
		{name: "different values", base: `{"x":1}`, a: `{"x":2}`, b: `{"x":3}`, conflicts: "x"},
		{name: "added with different values", base: `{}`, a: `{"x":2}`, b: `{"x":3}`, conflicts: "x"},
		{name: "changed and removed", base: `{"x":1}`, a: `{"x":2}`, b: `{}`, conflicts: "x"},
		{name: "changed inside of what is removed", base: `{"x":{"y":1}}`, a: `{"x":{"y":2}}`, b: `{}`, conflicts: "x"},
		{name: "an object for a text", base: `{"x":"t"}`, a: `{"x":{"y":2}}`, b: `{"x":"u"}`, conflicts: "x"},
		{name: "objects for a text", base: `{"x":"t"}`, a: `{"x":{"y":2}}`, b: `{"x":{"z":3}}`, want: `{"x":{"y":2,"z":3}}`},
		{name: "null is a value", base: `{"x":1}`, a: `{"x":null}`, b: `{"x":1}`, want: `{"x":null}`},
		{name: "several conflicts", base: `{"p":{"x":1,"y.z":1}}`, a: `{"p":{"x":2,"y.z":2}}`, b: `{"p":{"x":3,"y.z":3}}`, conflicts: `p.x p."y.z"`},
		{name: "numbers digit by digit", base: `{"x":100.0}`, a: `{"x":100}`, b: `{"x":100.0}`, want: `{"x":100}`},

		{name: "lists are values", base: `{"x":[1]}`, a: `{"x":[1,2]}`, b: `{"x":[1,3]}`, conflicts: "x"},
		{name: "one branch changes a list", base: `{"x":[1]}`, a: `{"x":[1]}`, b: `{"x":[1,3]}`, want: `{"x":[1,3]}`},
		{name: "lists of texts are sets", base: `{"k":["a","b","c"]}`, a: `{"k":["a","c","d"]}`, b: `{"k":["a","b","e"]}`, want: `{"k":["a","d","e"]}`},
		{name: "both add the same", base: `{}`, a: `{"stac_extensions":["u"]}`, b: `{"stac_extensions":["v","u"]}`, want: `{"stac_extensions":["u","v"]}`},
		{name: "a text that is there twice", base: `{"k":["a","a"]}`, a: `{"k":["a","a","b"]}`, b: `{"k":["a"]}`, want: `{"k":["a","b"]}`},
		{name: "one removes the list, the other adds to it", base: `{"k":["a"]}`, a: `{}`, b: `{"k":["a","b"]}`, want: `{"k":["b"]}`},
		{name: "one removes the list, the other its element", base: `{"k":["a","b"]}`, a: `{}`, b: `{"k":["a"]}`, want: `{}`},
		{name: "texts and numbers", base: `{"k":["a"]}`, a: `{"k":["a",1]}`, b: `{"k":["a","b"]}`, conflicts: "k"},
		{name: "links by rel and href", base: `{"links":[{"rel":"self","href":"s"},{"rel":"via","href":"v"}]}`,
			a:    `{"links":[{"rel":"self","href":"s","title":"T"},{"rel":"via","href":"v"},{"rel":"license","href":"l"}]}`,
			b:    `{"links":[{"rel":"self","href":"s","type":"x"},{"rel":"about","href":"l"}]}`,
			want: `{"links":[{"rel":"self","href":"s","title":"T","type":"x"},{"rel":"license","href":"l"},{"rel":"about","href":"l"}]}`},
		{name: "links that differ", base: `{"links":[]}`, a: `{"links":[{"rel":"via","href":"v","title":"A"}]}`, b: `{"links":[{"rel":"via","href":"v","title":"B"}]}`, conflicts: `links.via v.title`},
		{name: "other lists of objects are values", base: `{"bands":[]}`, a: `{"bands":[{"rel":"a","href":"b"}]}`, b: `{"bands":[{"rel":"c","href":"d"}]}`, conflicts: "bands"},
	} {
		t.Run(c.name, func(t *testing.T) {
			branches := []*item.Value{value(t, c.a), value(t, c.b)}
			conflicts := new(merge.Merger).Merge(branches, []*item.Value{value(t, c.base)})
			var paths []string
			for _, c := range conflicts {
				paths = append(paths, c.Path.String())
			}
			if got := strings.Join(paths, " "); got != c.conflicts {
				t.Fatalf("conflicts at %q, want %q", got, c.conflicts)
			}
			if c.conflicts == "" && string(branches[0].Bytes()) != c.want {
				t.Errorf("got %s, want %s", branches[0].Bytes(), c.want)
			}
		})
	}
}

// merge: first and last say who wins, removals included; what does not conflict is merged all the same.
func TestPrefer(t *testing.T) {
	for prefer, want := range map[merge.Prefer]string{merge.First: `{"x":2,"z":1,"w":1}`, merge.Last: `{"x":3,"y":5,"z":1,"w":1}`} {
		branches := []*item.Value{value(t, `{"x":2,"z":1}`), value(t, `{"x":1,"y":1,"w":1}`), value(t, `{"x":3,"y":5}`)}
		m := &merge.Merger{Prefer: prefer}
		if c := m.Merge(branches, []*item.Value{value(t, `{"x":1,"y":1}`)}); c != nil || !branches[0].Equal(value(t, want)) {
			t.Errorf("%d: got %s, %v, want %s", prefer, branches[0].Bytes(), c, want)
		}
	}
}

// Branches that parted at different places are compared with what they had there.
func TestSeveralBases(t *testing.T) {
	// a → b → {c, d}; a → e. b sets x, c sets it again, d does not touch it.
	branches := []*item.Value{value(t, `{"x":"c","y":0}`), value(t, `{"x":"b","y":0}`), value(t, `{"x":"a","y":5}`)}
	bases := []*item.Value{value(t, `{"x":"a","y":0}`), value(t, `{"x":"b","y":0}`)}
	m := &merge.Merger{Base: func(i, j int) int {
		if i+j == 1 {
			return 1
		}
		return 0
	}}
	if c := m.Merge(branches, bases); c != nil || string(branches[0].Bytes()) != `{"x":"c","y":5}` {
		t.Errorf("got %s, %v", branches[0].Bytes(), c)
	}
}

// What nobody touched is not decoded: it keeps its text, white space and all.
func TestTextStays(t *testing.T) {
	base := value(t, `{"id": "a", "geometry": {"coordinates": [ 100.0, 1e21 ]}, "p": {"x": 1, "y" : [ 1.50 ]}}`)
	a, b := base.Clone(), base.Clone()
	a.Get("p").Set("x", item.OfText("new"))
	b.Set("q", item.OfText("other"))
	branches := []*item.Value{a, b}
	if c := new(merge.Merger).Merge(branches, []*item.Value{base}); c != nil {
		t.Fatal(c)
	}
	const want = `{"id":"a","geometry":{"coordinates": [ 100.0, 1e21 ]},"p":{"x":"new","y":[ 1.50 ]},"q":"other"}`
	if got := string(a.Bytes()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The model: a merge of Go values, written from the definition.

type absent struct{}

func model(base any, branches []any, path string) (any, []string) {
	var changed []any
	for _, v := range branches {
		if !reflect.DeepEqual(v, base) && !slices.ContainsFunc(changed, func(o any) bool { return reflect.DeepEqual(o, v) }) {
			changed = append(changed, v)
		}
	}
	switch len(changed) {
	case 0:
		return base, nil
	case 1:
		return changed[0], nil
	}
	if all(changed, func(v any) bool { _, ok := v.(map[string]any); return ok }) {
		return modelObject(base, branches, path)
	}
	isTexts := func(v any) bool { _, ok := texts(v); return ok }
	if all(changed, isTexts) && (isTexts(base) || reflect.TypeOf(base) != reflect.TypeFor[[]any]()) && !all(append(changed, base), func(v any) bool { l, _ := v.([]any); return len(l) == 0 }) {
		return modelSet(base, branches), nil
	}
	return changed[0], []string{path}
}

func all(list []any, f func(any) bool) bool {
	return !slices.ContainsFunc(list, func(v any) bool { return !f(v) })
}

// texts are the elements of a set; absent is an empty one.
func texts(v any) (map[string]bool, bool) {
	out := map[string]bool{}
	if v == (absent{}) {
		return out, true
	}
	list, ok := v.([]any)
	for _, e := range list {
		s, text := e.(string)
		if out[s] = true; !text {
			return nil, false
		}
	}
	return out, ok
}

func modelObject(base any, branches []any, path string) (any, []string) {
	out, keys := map[string]any{}, map[string]bool{}
	for _, v := range append([]any{base}, branches...) {
		m, _ := v.(map[string]any)
		for k := range m {
			keys[k] = true
		}
	}
	get := func(v any, k string) any {
		m, _ := v.(map[string]any)
		if got, ok := m[k]; ok {
			return got
		}
		return absent{}
	}
	var conflicts []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		var inner []any
		for _, v := range branches {
			inner = append(inner, get(v, k))
		}
		got, c := model(get(base, k), inner, path+"/"+k)
		conflicts = append(conflicts, c...)
		if got != any(absent{}) {
			out[k] = got
		}
	}
	return out, conflicts
}

func modelSet(base any, branches []any) any {
	was, _ := texts(base)
	is, gone := maps.Clone(was), false
	for _, v := range branches {
		now, _ := texts(v)
		gone = gone || v == any(absent{})
		for e := range now {
			if !was[e] {
				is[e] = true
			}
		}
		for e := range was {
			if !now[e] {
				delete(is, e)
			}
		}
	}
	if len(is) == 0 && gone {
		return absent{}
	}
	out := []any{}
	for _, e := range slices.Sorted(maps.Keys(is)) {
		out = append(out, e)
	}
	return out
}

func drawValue(depth int) *rapid.Generator[any] {
	scalar := rapid.SampledFrom([]any{nil, true, "t", json.Number("1"), json.Number("100.0")})
	set := rapid.Map(rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.ID[string]), func(l []string) any {
		slices.Sort(l)
		out := []any{}
		for _, e := range l {
			out = append(out, e)
		}
		return out
	})
	list := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]any{nil, json.Number("1"), json.Number("100.0")}), 0, 2), func(l []any) any { return l })
	if depth == 0 {
		return rapid.OneOf(scalar, set, list)
	}
	object := rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", "z", "w"}), drawValue(depth-1), 0, 4), func(m map[string]any) any { return m })
	return rapid.OneOf(scalar, set, list, object, object)
}

// edit changes some of a value.
func edit(t *rapid.T, v any, depth int) any {
	m, ok := v.(map[string]any)
	if !ok {
		return drawValue(depth).Draw(t, "value")
	}
	out := maps.Clone(m)
	for _, k := range []string{"x", "y", "z", "w"} {
		switch rapid.SampledFrom([]string{"", "", "", "set", "remove", "edit"}).Draw(t, k) {
		case "set":
			out[k] = drawValue(1).Draw(t, "new")
		case "remove":
			delete(out, k)
		case "edit":
			if old, ok := out[k]; ok && depth > 0 {
				out[k] = edit(t, old, depth-1)
			}
		}
	}
	return out
}

func TestMergeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", "z", "w"}), drawValue(2), 0, 4)
		base := any(object.Draw(t, "base"))
		var branches []any
		for range rapid.IntRange(2, 4).Draw(t, "branches") {
			branches = append(branches, edit(t, base, 3))
		}
		encode := func(v any) *item.Value {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			out, err := item.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		var values []*item.Value
		for _, v := range branches {
			values = append(values, encode(v))
		}
		was := string(encode(base).Bytes())
		wantValue, want := model(base, branches, "")
		of := encode(base)
		conflicts := new(merge.Merger).Merge(values, []*item.Value{of})
		var got []string
		for _, c := range conflicts {
			path := ""
			for _, step := range c.Path {
				path += "/" + step.Key
			}
			got = append(got, path)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("conflicts at %v, want %v", got, want)
		}
		if string(of.Bytes()) != was {
			t.Fatalf("the base became %s", of.Bytes())
		}
		if len(want) == 0 && !encode(sorted(t, values[0])).Equal(encode(wantValue)) {
			t.Fatalf("got %s, want %v", values[0].Bytes(), fmt.Sprint(wantValue))
		}
	})
}

// sorted decodes a value, with its lists of texts in order.
func sorted(t *rapid.T, v *item.Value) any {
	decoder := json.NewDecoder(strings.NewReader(string(v.Bytes())))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				visit(e)
			}
		case []any:
			if _, ok := texts(v); ok {
				slices.SortFunc(v, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
		}
	}
	visit(out)
	return out
}
