package item_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/item"
)

// The model of a value is what encoding/json makes of it, numbers as texts.

var keys = rapid.SampledFrom([]string{"a", "b", "c", "", "*", "a.b", `q"`, `back\slash`, "eo:x", "ünï", "\n", "😀"})

func scalars() *rapid.Generator[any] {
	return rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]string{"0", "-0", "1e21", "100.0", "1E-7", "123456789012345678901234567890", "4.464995307918359"}), func(s string) any { return json.Number(s) }))
}

func models(deep int) *rapid.Generator[any] {
	if deep == 0 {
		return scalars()
	}
	return rapid.OneOf(scalars(), rapid.Map(rapid.SliceOfN(models(deep-1), 0, 3), func(l []any) any { return l }), objects(deep))
}

func objects(deep int) *rapid.Generator[any] {
	return rapid.Map(rapid.MapOfN(keys, models(deep-1), 0, 4), func(m map[string]any) any { return m })
}

// valueOf makes a Value of a model, with white space and escapes that nobody needs.
func valueOf(t *rapid.T, m any) *item.Value {
	v, err := item.Parse(loose(t, nil, m))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func loose(t *rapid.T, dst []byte, m any) []byte {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
	dst = append(dst, space...)
	switch m := m.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for i, k := range rapid.Permutation(sortedKeys(m)).Draw(t, "order") {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(looseText(t, append(dst, space...), k), space...)
			dst = append(loose(t, append(dst, ':'), m[k]), space...)
		}
		dst = append(append(dst, space...), '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range m {
			if i > 0 {
				dst = append(append(dst, space...), ',')
			}
			dst = loose(t, dst, e)
		}
		dst = append(append(dst, space...), ']')
	case string:
		dst = looseText(t, dst, m)
	default:
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		dst = append(dst, text...)
	}
	return append(dst, space...)
}

func looseText(t *rapid.T, dst []byte, s string) []byte {
	if rapid.Bool().Draw(t, "ascii") {
		dst = append(dst, '"')
		for _, r := range s {
			if r > 0xFFFF {
				r -= 0x10000
				dst = fmt.Appendf(dst, `\u%04x\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
				continue
			}
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		return append(dst, '"')
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return append(dst, text...)
}

func sortedKeys(m map[string]any) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func copyOf(m any) any {
	switch m := m.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range m {
			out[k] = copyOf(v)
		}
		return out
	case []any:
		out := []any{}
		for _, v := range m {
			out = append(out, copyOf(v))
		}
		return out
	}
	return m
}

// mergeModel and patchModel are the definitions, as RFC 7386 §2 has them.
func mergeModel(target, from any, patch bool) any {
	members, ok := from.(map[string]any)
	mine, isObject := target.(map[string]any)
	if !ok || !isObject && !patch {
		return copyOf(from)
	}
	if !isObject {
		mine = map[string]any{}
	}
	for k, v := range members {
		old, exists := mine[k]
		switch {
		case patch && v == nil:
			delete(mine, k)
		case !patch && !exists:
			mine[k] = copyOf(v)
		default:
			mine[k] = mergeModel(old, v, patch)
		}
	}
	return mine
}

// place goes to a random place inside; both sides are asked for the same one.
func place(t *rapid.T, v *item.Value, m any, set func(any)) (*item.Value, any, func(any)) {
	for rapid.IntRange(0, 2).Draw(t, "deeper") > 0 {
		switch x := m.(type) {
		case map[string]any:
			if len(x) == 0 {
				return v, m, set
			}
			k := rapid.SampledFrom(sortedKeys(x)).Draw(t, "member")
			v, m, set = v.Get(k), x[k], func(n any) { x[k] = n }
		case []any:
			if len(x) == 0 {
				return v, m, set
			}
			i := rapid.IntRange(0, len(x)-1).Draw(t, "element")
			v, m, set = v.At(i), x[i], func(n any) { x[i] = n }
		default:
			return v, m, set
		}
	}
	return v, m, set
}

func same(t *rapid.T, what string, v *item.Value, m any) {
	text := v.AppendTo(nil)
	var got any
	if got = plain(t, text); !reflect.DeepEqual(got, copyOf(m)) {
		t.Fatalf("%s: %s\nis not %#v", what, text, m)
	}
	if string(v.Bytes()) != string(text) {
		t.Fatalf("%s: Bytes %s", what, v.Bytes())
	}
}

// TestModel changes values in every way, through pointers to their insides, and compares them with plain
// maps; clones made on the way stay as they were.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := objects(3).Draw(t, "start")
		v := valueOf(t, m)
		type snapshot struct {
			v *item.Value
			m any
		}
		var clones []snapshot
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			at, am, set := place(t, v, m, func(n any) { m = n })
			what := change(t, at, am, set)
			if rapid.Bool().Draw(t, "write the place first") {
				at.Bytes() // what is around must still notice
			}
			if rapid.Bool().Draw(t, "write") {
				same(t, what, v, m)
			}
			if rapid.IntRange(0, 3).Draw(t, "clone") == 0 {
				clones = append(clones, snapshot{v.Clone(), copyOf(m)})
			}
			for _, c := range clones {
				if rapid.IntRange(0, 3).Draw(t, "of clone") == 0 {
					c.v.Set("only here", item.OfText(""))
					c.v.Delete("only here")
				}
			}
		}
		same(t, "the end", v, m)
		for _, c := range clones {
			if _, ok := c.m.(map[string]any); ok {
				same(t, "clone", c.v, c.m)
			}
		}
	})
}

func change(t *rapid.T, v *item.Value, m any, set func(any)) string {
	val := models(2).Draw(t, "value")
	key := keys.Draw(t, "key")
	object, isObject := m.(map[string]any)
	switch what := rapid.SampledFrom([]string{"set", "delete", "append", "replace", "merge", "patch", "put", "drop"}).Draw(t, "change"); what {
	case "set":
		v.Set(key, valueOf(t, val))
		if !isObject {
			object = map[string]any{}
			set(object)
		}
		object[key] = val
		return what
	case "delete":
		_, there := object[key]
		if v.Delete(key) != there {
			t.Fatalf("delete %q: not %v", key, there)
		}
		delete(object, key)
		return what
	case "append":
		list, _ := m.([]any)
		v.Append(valueOf(t, val))
		set(append(slices.Clone(list), val))
		return what
	case "replace":
		v.Replace(valueOf(t, val))
		set(val)
		return what
	case "merge", "patch":
		from := valueOf(t, val)
		if what == "merge" {
			v.Merge(from)
		} else {
			v.Patch(from)
		}
		set(mergeModel(m, val, what == "patch"))
		same(t, "from", from, val)
		return what
	case "drop":
		p := paths(t)
		if n, want := v.Drop(p), dropModel(m, p, set); n != want {
			t.Fatalf("drop %s: %d, want %d", p, n, want)
		}
		return what + " " + p.String()
	default:
		p, create := paths(t), rapid.Bool().Draw(t, "create")
		err := v.Put(p, create, func([]string, *item.Value) (*item.Value, error) { return valueOf(t, val), nil })
		after, ok := putModel(copyOf(m), p, create, val)
		if ok != (err == nil) {
			t.Fatalf("put %s: error %v", p, err)
		}
		if err != nil { // places before the error have been set: begin anew
			v.Replace(valueOf(t, val))
			after = val
		}
		set(after)
		return what + " " + p.String()
	}
}

func paths(t *rapid.T) item.Path {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item.Step {
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0:
			return item.Step{Any: true}
		case 1:
			return item.Step{IsIndex: true, Index: rapid.IntRange(0, 2).Draw(t, "index")}
		}
		return item.Step{Key: keys.Draw(t, "key")}
	}), 1, 4).Draw(t, "path")
}

// putModel says what Put makes, slowly; false when it must fail.
func putModel(m any, p item.Path, create bool, val any) (any, bool) {
	if len(p) == 0 {
		return copyOf(val), true
	}
	ok := true
	object, isObject := m.(map[string]any)
	list, isList := m.([]any)
	switch step := p[0]; {
	case step.Any && isObject:
		for k := range object {
			var fine bool
			object[k], fine = putModel(object[k], p[1:], create, val)
			ok = ok && fine
		}
	case step.Any && isList:
		for i := range list {
			var fine bool
			list[i], fine = putModel(list[i], p[1:], create, val)
			ok = ok && fine
		}
	case step.Any:
	case step.IsIndex && (!isList || step.Index >= len(list)):
		return m, !create
	case step.IsIndex:
		list[step.Index], ok = putModel(list[step.Index], p[1:], create, val)
	case !isObject && m != nil:
		return m, false
	default:
		old, exists := object[step.Key]
		if exists {
			object[step.Key], ok = putModel(old, p[1:], create, val)
			return m, ok
		}
		for _, s := range p[1:] {
			if s.Any {
				return m, true
			}
			if s.IsIndex {
				return m, !create
			}
		}
		if !create {
			return m, true
		}
		if object == nil {
			object = map[string]any{}
		}
		object[step.Key], ok = putModel(nil, p[1:], create, val)
		return object, ok
	}
	return m, ok
}

func dropModel(m any, p item.Path, set func(any)) int {
	n := 0
	switch m := m.(type) {
	case map[string]any:
		for _, k := range sortedKeys(m) {
			switch {
			case !p[0].Any && (p[0].IsIndex || p[0].Key != k):
			case len(p) == 1:
				delete(m, k)
				n++
			default:
				n += dropModel(m[k], p[1:], func(x any) { m[k] = x })
			}
		}
	case []any:
		kept := []any{}
		for i, e := range m {
			hit := p[0].Any || p[0].IsIndex && p[0].Index == i
			if hit && len(p) == 1 {
				n++
				continue
			}
			at := len(kept)
			kept = append(kept, e)
			if hit {
				n += dropModel(e, p[1:], func(x any) { kept[at] = x })
			}
		}
		set(kept)
	}
	return n
}

// TestWalkModel: Walk and Find see what a walk over the model sees.
func TestWalkModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := objects(4).Draw(t, "value")
		v, p := valueOf(t, m), paths(t)
		want := map[string]any{}
		walkModel(m, p, "", want)
		got := map[string]any{}
		v.Walk(p, func(stars []string, at *item.Value) bool {
			key := ""
			for _, s := range stars {
				key += strconv.Quote(s)
			}
			got[key] = plain(t, at.Bytes())
			return true
		})
		if !reflect.DeepEqual(got, copyOf(want)) {
			t.Fatalf("walk %s: %v, want %v", p, got, want)
		}
		if found := v.Find(p); (found == nil) != (len(want) == 0) {
			t.Fatalf("find %s: %v", p, found)
		}
	})
}

func walkModel(m any, p item.Path, key string, out map[string]any) {
	if len(p) == 0 {
		out[key] = m
		return
	}
	switch m := m.(type) {
	case map[string]any:
		for k, x := range m {
			if p[0].Any {
				walkModel(x, p[1:], key+strconv.Quote(k), out)
			} else if !p[0].IsIndex && p[0].Key == k {
				walkModel(x, p[1:], key, out)
			}
		}
	case []any:
		for i, x := range m {
			if p[0].Any {
				walkModel(x, p[1:], key+strconv.Quote(strconv.Itoa(i)), out)
			} else if p[0].IsIndex && p[0].Index == i {
				walkModel(x, p[1:], key, out)
			}
		}
	}
}
