// Package merge merges what several branches made of the same JSON value: a three-way merge, as version control does
// with files (docs/streams.md, "Joins").
//
// Only changes count: a branch's value is compared with the base, the value where the branches parted. Changes of
// different paths are all taken, removals included; equal changes are one; different values for one path are a
// conflict. Values that no branch changed keep their text and are not decoded. Pure.
package merge

import (
	"slices"

	"github.com/stepwell/stepwell/item"
)

// Prefer says which branch wins a conflict.
type Prefer uint8

// The preferences.
const (
	Neither Prefer = iota // a conflict is reported
	First                 // the first branch that changed the path wins
	Last                  // the last one does
)

// Merger merges the values of a fixed number of branches. The zero value merges branches that all parted at bases[0] of
// Merge. It may be used by several goroutines.
type Merger struct {
	// Base is the number of the base at which branches i and j parted. Defaults to 0 for all of them.
	Base   func(i, j int) int
	Prefer Prefer
	// Resolve resolves a conflict at a path: it returns one of the values (nil is a removal) and true; or false when
	// the conflict stands. Defaults to none.
	Resolve func(path item.Path, values []*item.Value) (*item.Value, bool)
}

// Conflict is a path that branches set to different values.
type Conflict struct {
	Path     item.Path
	Branches []int         // one for each of the values
	Values   []*item.Value // nil: removed
}

// maxConflicts bounds the conflicts that are reported of one value.
const maxConflicts = 20

// Merge merges the branches' values, objects derived from bases. The result is in branches[0], which is changed; the
// other branches must not be used any more, the bases only for reading. When there are conflicts, the result holds the
// first branch's values at their paths.
func (m *Merger) Merge(branches, bases []*item.Value) []Conflict {
	r := run{m: m, branches: len(branches)}
	all := slices.Concat(branches, bases)
	if got := r.value(all); got != branches[0] {
		branches[0].Replace(got)
	}
	return r.conflicts
}

// run is one merge. A slice of values holds those of the branches, and behind them those of the bases; nil is absent.
type run struct {
	m         *Merger
	branches  int
	path      item.Path
	conflicts []Conflict
}

// value is the result at the path: one of the branches' values, changed in place where they are merged in depth, or nil.
func (r *run) value(all []*item.Value) *item.Value {
	left := r.left(all)
	if len(left) == 1 {
		return all[left[0]]
	}
	if every(all, left, item.Object) {
		return r.object(all, left[0])
	}
	if sets(r.path, all, left) {
		return r.set(all)
	}
	values := make([]*item.Value, len(left))
	for i, at := range left {
		values[i] = all[at]
	}
	if r.m.Resolve != nil {
		if got, ok := r.m.Resolve(r.path, values); ok {
			return got
		}
	}
	switch r.m.Prefer {
	case First:
		return values[0]
	case Last:
		return values[len(values)-1]
	}
	if len(r.conflicts) < maxConflicts {
		for i, v := range values {
			values[i] = v.Clone()
		}
		r.conflicts = append(r.conflicts, Conflict{Path: slices.Clone(r.path), Branches: left, Values: values})
	}
	return all[left[0]]
}

func every(all []*item.Value, of []int, kind item.Kind) bool {
	for _, i := range of {
		if all[i].Kind() != kind {
			return false
		}
	}
	return true
}

// left are the branches whose values count, one for each different value, in order. The value of a branch does not
// count when another branch has changed it since the two parted, and it has not.
func (r *run) left(all []*item.Value) []int {
	if r.m.Base != nil {
		return r.leftOfMany(all)
	}
	var few [4]int
	left, base := few[:0], all[r.branches]
	for i, v := range all[:r.branches] {
		if !v.Equal(base) && !slices.ContainsFunc(left, func(other int) bool { return v.Equal(all[other]) }) {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return append(left, 0)
	}
	return left
}

// leftOfMany is left for branches that did not all part at one place.
func (r *run) leftOfMany(all []*item.Value) []int {
	values := all[:r.branches]
	if !slices.ContainsFunc(values[1:], func(v *item.Value) bool { return !v.Equal(values[0]) }) {
		return []int{0}
	}
	var left, distinct []int
	add := func(to *[]int, i int) {
		if !slices.ContainsFunc(*to, func(other int) bool { return values[i].Equal(values[other]) }) {
			*to = append(*to, i)
		}
	}
	for i, v := range values {
		add(&distinct, i)
		if !r.outdated(all, i, v) {
			add(&left, i)
		}
	}
	if len(left) == 0 {
		return distinct // each is outdated by another, in a circle: there is no winner
	}
	return left
}

func (r *run) outdated(all []*item.Value, i int, v *item.Value) bool {
	for j, other := range all[:r.branches] {
		if i != j && v.Equal(all[r.branches+r.m.Base(i, j)]) && !v.Equal(other) {
			return true
		}
	}
	return false
}

// object merges objects member by member, into the first branch's one if it has one. Other values have no members.
func (r *run) object(all []*item.Value, into int) *item.Value {
	if all[0].Kind() == item.Object {
		into = 0
	}
	target := all[into]
	at := make([]*item.Value, len(all))
	var gone []string
	for i := range target.Len() {
		key, val := target.Member(i)
		members(at, all, key, i)
		switch got := r.at(item.Step{Key: key}, at); got {
		case val:
		case nil:
			gone = append(gone, key)
		default:
			val.Replace(got)
		}
	}
	type addition struct {
		key string
		val *item.Value
	}
	var added []addition
	for b, from := range all[:r.branches] {
		if b == into {
			continue
		}
		i := -1
		for key := range from.Members() {
			i++
			if has(target, key, i) || slices.ContainsFunc(added, func(a addition) bool { return a.key == key }) {
				continue
			}
			members(at, all, key, i)
			added = append(added, addition{key, r.at(item.Step{Key: key}, at)})
		}
	}
	for _, key := range gone {
		target.Delete(key)
	}
	for _, a := range added {
		if a.val != nil {
			target.Set(a.key, a.val)
		}
	}
	return target
}

// at goes one step down.
func (r *run) at(step item.Step, all []*item.Value) *item.Value {
	r.path = append(r.path, step)
	got := r.value(all)
	r.path = r.path[:len(r.path)-1]
	return got
}

// members finds the member of a name in all objects; most have it at the same place.
func members(to, of []*item.Value, key string, place int) {
	for i, v := range of {
		if k, val := v.Member(place); val != nil && k == key {
			to[i] = val
			continue
		}
		to[i] = nil
		if v.Kind() == item.Object {
			to[i] = v.Get(key)
		}
	}
}

func has(v *item.Value, key string, place int) bool {
	if k, val := v.Member(place); val != nil && k == key {
		return true
	}
	return v.Get(key) != nil
}
