package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// trial is one value under test. lost means that the answer does not count.
type trial struct {
	depth int
	lost  bool
}

const maxTrial = 2000 // rules inside rules: a schema may go in circles

// fits reports whether a value is valid for sure.
func (r *rule) fits(doc any) bool {
	var t trial
	return t.fits(r, doc) && !t.lost
}

func (t *trial) fits(r *rule, v any) bool {
	if r == nil || r.always {
		return true
	}
	if t.depth++; r.never || t.depth > maxTrial {
		t.lost = t.lost || t.depth > maxTrial
		t.depth--
		return false
	}
	ok := t.plain(r, v) && t.content(r, v) && t.combined(r, v)
	t.depth--
	return ok
}

// plain is what is about the value as a whole.
func (t *trial) plain(r *rule, v any) bool {
	if r.types != 0 && !isOf(r.types, v) {
		return false
	}
	if r.equals != nil {
		found := false
		for _, want := range r.equals {
			if found = same(v, want); found {
				break
			}
		}
		if !found {
			return false
		}
	}
	if r.format != nil && r.format.Validate(v) != nil {
		return false
	}
	return t.fits(r.ref, v)
}

func (t *trial) combined(r *rule, v any) bool {
	if r.not != nil && t.fits(r.not, v) {
		return false
	}
	for _, inner := range r.all {
		if !t.fits(inner, v) {
			return false
		}
	}
	if r.any != nil && t.count(r.any, v, 1) == 0 || r.one != nil && t.count(r.one, v, 2) != 1 {
		return false
	}
	if r.when == nil {
		return true
	}
	if t.fits(r.when, v) {
		return t.fits(r.then, v)
	}
	return t.fits(r.or, v)
}

// count is how many of the rules fit, up to enough.
func (t *trial) count(rules []*rule, v any, enough int) (n int) {
	for _, inner := range rules {
		if t.fits(inner, v) {
			if n++; n == enough {
				break
			}
		}
	}
	return n
}

func (t *trial) content(r *rule, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return t.object(r, v)
	case []any:
		return t.array(r, v)
	case string:
		if r.long != [2]int{0, -1} {
			if n := utf8.RuneCountInString(v); n < r.long[0] || r.long[1] >= 0 && n > r.long[1] {
				return false
			}
		}
		return r.pattern == nil || r.pattern.MatchString(v)
	case json.Number:
		return number(r, v)
	}
	return true
}

func (t *trial) object(r *rule, obj map[string]any) bool {
	if len(obj) < r.least || r.most >= 0 && len(obj) > r.most {
		return false
	}
	for _, name := range r.required {
		if _, ok := obj[name]; !ok {
			return false
		}
	}
	for _, d := range r.dependencies {
		if _, ok := obj[d.name]; !ok {
			continue
		}
		for _, name := range d.needs {
			if _, ok := obj[name]; !ok {
				return false
			}
		}
		if !t.fits(d.rule, obj) {
			return false
		}
	}
	for i := range r.members {
		if v, ok := obj[r.members[i].name]; ok && !t.fits(r.members[i].rule, v) {
			return false
		}
	}
	return !r.looks || t.members(r, obj)
}

// members are the rules that are about every member.
func (t *trial) members(r *rule, obj map[string]any) bool {
	for name, v := range obj {
		known := r.others == nil
		if !known && len(r.known) > 0 {
			_, known = r.known[name]
		}
		for i := range r.patterns {
			if r.patterns[i].pattern.MatchString(name) {
				known = true
				if !t.fits(r.patterns[i].rule, v) {
					return false
				}
			}
		}
		if !known && !t.fits(r.others, v) || r.names != nil && !t.fits(r.names, name) {
			return false
		}
	}
	return true
}

func (t *trial) array(r *rule, list []any) bool {
	if len(list) < r.listed[0] || r.listed[1] >= 0 && len(list) > r.listed[1] || r.unique && !t.distinct(list) {
		return false
	}
	found := r.contains == nil
	for i, v := range list {
		switch {
		case r.elements != nil:
			if !t.fits(r.elements, v) {
				return false
			}
		case i < len(r.tuple):
			if !t.fits(r.tuple[i], v) {
				return false
			}
		case r.tuple != nil && !t.fits(r.rest, v):
			return false
		}
		found = found || t.fits(r.contains, v)
	}
	return found
}

func (t *trial) distinct(list []any) bool {
	if len(list) > 100 {
		t.lost = true // the library counts better
	}
	for i := 1; i < len(list) && !t.lost; i++ {
		for j := range i {
			if same(list[i], list[j]) {
				return false
			}
		}
	}
	return true
}

func isOf(types uint8, v any) bool {
	switch v := v.(type) {
	case nil:
		return types&isNull != 0
	case bool:
		return types&isBool != 0
	case json.Number:
		return types&isNumber != 0 || types&isInteger != 0 && whole(v)
	case string:
		return types&isText != 0
	case []any:
		return types&isList != 0
	case map[string]any:
		return types&isObject != 0
	}
	return false
}

func whole(n json.Number) bool {
	if _, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return true
	}
	r, ok := new(big.Rat).SetString(string(n))
	return ok && r.IsInt()
}

// number compares rounded values, which is exact unless they are equal.
func number(r *rule, n json.Number) bool {
	if r.bounds == nil && r.divisor == nil {
		return true
	}
	near, err := strconv.ParseFloat(string(n), 64)
	for i := range r.bounds {
		b := &r.bounds[i]
		order := 0
		switch {
		case err == nil && near < b.near:
			order = -1
		case err == nil && near > b.near:
			order = 1
		default:
			exact, ok := new(big.Rat).SetString(string(n))
			if !ok {
				return false
			}
			order = exact.Cmp(b.limit)
		}
		if b.upper && order > 0 || !b.upper && order < 0 || b.not && order == 0 {
			return false
		}
	}
	if r.divisor == nil {
		return true
	}
	exact, ok := new(big.Rat).SetString(string(n))
	return ok && exact.Quo(exact, r.divisor).IsInt()
}

// same is equality as JSON Schema has it: of numbers, by value.
func same(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		x, ok1 := new(big.Rat).SetString(string(a))
		y, ok2 := new(big.Rat).SetString(string(b))
		return ok1 && ok2 && x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			other, ok := b[key]
			if !ok || !same(v, other) {
				return false
			}
		}
		return true
	}
	return a == b
}
