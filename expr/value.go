package expr

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Scope gives the root names of an evaluation, such as params and steps.
// The values it returns are never modified. With a method Keys() []string, the error for an
// unknown root name can suggest the nearest one.
type Scope interface {
	Lookup(name string) (any, bool)
}

// Vars is a Scope made of a map.
type Vars map[string]any

// Lookup implements Scope.
func (v Vars) Lookup(name string) (any, bool) {
	value, ok := v[name]
	return value, ok
}

// Keys lists the names, for hints in errors.
func (v Vars) Keys() []string { return sortedKeys(v) }

// Raw is JSON that is decoded when an expression first uses it, once per Eval.
type Raw []byte

// MarshalJSON returns r itself, like json.RawMessage.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// Object is a value whose attributes are looked up on use. To be iterated, compared or copied out, it also has Keys()
// []string.
type Object interface {
	Attr(name string) (any, bool)
}

type keyed interface{ Keys() []string }

// Layered is a Scope with names on top of another one.
type Layered struct {
	Extra map[string]any
	Under Scope
}

// Lookup implements Scope.
func (l Layered) Lookup(name string) (any, bool) {
	if v, ok := l.Extra[name]; ok {
		return v, true
	}
	return l.Under.Lookup(name)
}

// Watcher reports values that templates derive from secrets.
func (l Layered) Watcher() Watcher { return WatcherOf(l.Under) }

// Err is the reason that a value below could not be opened.
func (l Layered) Err() error {
	if s, ok := l.Under.(interface{ Err() error }); ok {
		return s.Err()
	}
	return nil
}

// Keys lists the names, for hints in errors.
func (l Layered) Keys() []string {
	var names []string
	if keyed, ok := l.Under.(keyed); ok {
		names = keyed.Keys()
	}
	for name := range l.Extra {
		names = append(names, name)
	}
	return names
}

// hint suggests the nearest existing name.
func (u *undefined) hint() string {
	var keys []string
	hint := ""
	switch p := u.parent.(type) {
	case map[string]any:
		keys = sortedKeys(p)
	case keyed:
		keys = slices.Clone(p.Keys())
	case []any:
		hint = "the list has " + strconv.Itoa(len(p)) + " elements"
	case nil:
		if u.key != "" {
			hint = clip(u.key) + " is looked up in none"
		}
		if u.absent != nil {
			hint = defaultHint
		}
	}
	if near := didYouMean(u.key, keys); near != "" {
		return near
	}
	if p, ok := u.parent.(advised); ok {
		return p.Advice(u.key)
	}
	return hint
}

// advised is an Object that says how to give it an attribute that it lacks.
type advised interface{ Advice(name string) string }

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type rawKey struct {
	first *byte
	size  int
}

func (st *state) decodeRaw(r Raw) (any, error) {
	if len(r) == 0 {
		return nil, nil
	}
	key := rawKey{&r[0], len(r)}
	if v, ok := st.raws[key]; ok {
		return v, nil
	}
	v, err := Decode(r)
	if err != nil {
		return nil, err
	}
	if st.raws == nil {
		st.raws = make(map[rawKey]any, 4)
	}
	st.raws[key] = v
	return v, nil
}

// norm turns a Scope's value into the value model, one level deep.
func (st *state) norm(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, string, []any, map[string]any, *undefined, *loop:
		return v, nil
	case Raw:
		return st.decodeRaw(v)
	case json.RawMessage:
		return st.decodeRaw(Raw(v))
	case Vars:
		return map[string]any(v), nil
	case json.Number:
		return numberValue(v)
	case []string:
		st.growList(len(v))
		return anyList(v), nil
	case []map[string]any:
		st.growList(len(v))
		return anyList(v), nil
	case map[string]string:
		m := make(map[string]any, len(v))
		for k, s := range v {
			m[k] = s
		}
		st.grow(len(m) * entrySize)
		return m, nil
	case Object:
		return v, nil
	case *Absent:
		return &undefined{absent: v}, nil
	}
	return normNumber(v)
}

func anyList[T any](in []T) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}

func normNumber(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return normUint(uint64(v))
	case uint64:
		return normUint(v)
	case float32:
		return float64(v), nil
	}
	return nil, failf(CodeType, "a value of Go type %T cannot be used in an expression", v)
}

func normUint(v uint64) (any, error) {
	if v > math.MaxInt64 {
		return nil, failf(CodeBudget, "%d does not fit in a 64-bit integer", v)
	}
	return int64(v), nil
}

// truth is Python's bool(v); undefined is false.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	case keyed:
		return len(v.Keys()) > 0
	}
	return true
}

// typeName is the word for v's type in error messages.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "none"
	case bool:
		return "a boolean"
	case int64, json.Number:
		return "an integer"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any, Object, *loop:
		return "a mapping"
	case *undefined:
		return "undefined"
	}
	return "a value"
}

// elements lists the iteration over v: elements, sorted keys or characters.
func (st *state) elements(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[string]any:
		st.growList(len(v))
		return anyList(sortedKeys(v))
	case string:
		return st.characters(v)
	case *undefined:
		panic(v.err(st))
	case keyed:
		keys := slices.Clone(v.Keys())
		slices.Sort(keys)
		st.growList(len(keys))
		return anyList(keys)
	}
	panic(failf(CodeType, "%s cannot be iterated", typeName(v)))
}

func (st *state) characters(s string) []any {
	st.growList(len(s))
	out := make([]any, 0, len(s))
	for _, part := range strings.Split(s, "") {
		out = append(out, part)
	}
	return out
}

// mapping returns v as a map, materialising an Object that has keys.
func (st *state) mapping(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case *loop:
		return nil, false
	case Object:
		k, ok := v.(keyed)
		if !ok {
			return nil, false
		}
		keys := k.Keys()
		st.growList(len(keys))
		m := make(map[string]any, len(keys))
		for _, key := range keys {
			if item, ok := v.Attr(key); ok {
				m[key] = item
			}
		}
		return m, true
	}
	return nil, false
}

// plain turns a result into the seven plain types and reports whether anything changed; a plain value is returned as
// it is, not copied.
func (st *state) plain(v any, depth int) (any, bool, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, string, json.Number:
		st.walk()
		return v, false, nil
	case *undefined:
		return nil, false, v.err(st)
	case []any:
		return st.plainList(v, depth)
	case map[string]any:
		return st.plainMap(v, depth)
	case *loop:
		return nil, false, failf(CodeType, "loop is not a value; use loop.index and its other attributes")
	case Object:
		m, ok := st.mapping(v)
		if !ok {
			return nil, false, failf(CodeType, "this object has attributes but is not a value itself")
		}
		p, _, err := st.plainMap(m, depth)
		return p, true, err
	}
	n, err := st.norm(v)
	if err != nil {
		return nil, false, err
	}
	p, _, err := st.plain(n, depth)
	return p, true, err
}

func (st *state) enterValue(depth int) {
	st.deeper(depth + 1)
	st.walk()
}

func (st *state) plainList(in []any, depth int) (any, bool, error) {
	st.enterValue(depth)
	var out []any
	for i, item := range in {
		p, changed, err := st.plain(item, depth+1)
		if err != nil {
			return nil, false, err
		}
		if !changed {
			continue
		}
		if out == nil {
			st.growList(len(in))
			out = slices.Clone(in)
		}
		out[i] = p
	}
	if out == nil {
		return in, false, nil
	}
	return out, true, nil
}

// plainMap visits the entries in Go's random order, because sorting would cost more than the
// visit; of several errors it returns the one with the smallest key, so that it is always the same.
func (st *state) plainMap(in map[string]any, depth int) (any, bool, error) {
	st.enterValue(depth)
	var out map[string]any
	var failed error
	var failedKey string
	for k, item := range in {
		p, changed, err := st.plain(item, depth+1)
		if err != nil {
			if failed == nil || k < failedKey {
				failed, failedKey = err, k
			}
		}
		if !changed || failed != nil {
			continue
		}
		if out == nil {
			st.grow(len(in) * entrySize)
			out = maps.Clone(in)
		}
		out[k] = p
	}
	switch {
	case failed != nil:
		return nil, false, failed
	case out == nil:
		return in, false, nil
	}
	return out, true, nil
}
