package merge

import (
	"strconv"

	"github.com/stepwell/stepwell/item"
)

// sets reports whether the values that count can be merged as sets: lists of texts, or links, which rel and href tell
// apart. A branch that has removed the list, or a base without one, has an empty set.
func sets(path item.Path, all []*item.Value, left []int) bool {
	if len(path) == 0 {
		return false
	}
	links := path[len(path)-1].Key == "links"
	for _, i := range left {
		if v := all[i]; v != nil && v.Kind() != item.List {
			return false
		}
	}
	some := false
	for _, v := range all {
		for _, e := range v.Elements() {
			if e.Kind() != item.Text && !(links && isLink(e)) {
				return false
			}
			some = true
		}
	}
	return some
}

func isLink(v *item.Value) bool {
	return v.Kind() == item.Object && v.Get("rel").Kind() == item.Text && v.Get("href").Kind() == item.Text
}

// element identifies an element of a set. Equal ones are counted, so that a list with the same text twice keeps both.
type element struct {
	rel, text string
	number    int
}

// set merges lists as sets: removals and additions of every branch apply, in the order of base and branches.
func (r *run) set(all []*item.Value) *item.Value {
	found := make([]map[element]*item.Value, len(all))
	for i, v := range all {
		found[i] = elements(v)
	}
	list := item.NewList()
	seen := map[element]bool{}
	at := make([]*item.Value, len(all))
	take := func(key element) {
		if seen[key] {
			return
		}
		seen[key] = true
		for i := range all {
			at[i] = found[i][key]
		}
		if got := r.at(item.Step{Key: key.String()}, at); got != nil {
			list.Append(got)
		}
	}
	for _, from := range [][]*item.Value{all[r.branches:], all[:r.branches]} {
		for _, v := range from {
			eachElement(v, func(key element, _ *item.Value) { take(key) })
		}
	}
	if list.Len() == 0 {
		for _, v := range all[:r.branches] {
			if v == nil { // removing the last element removes the list
				return nil
			}
		}
	}
	return list
}

func (e element) String() string {
	if e.rel == "" {
		return e.text
	}
	text := e.rel + " " + e.text
	if e.number > 0 {
		text += " #" + strconv.Itoa(e.number+1)
	}
	return text
}

func elements(v *item.Value) map[element]*item.Value {
	out := make(map[element]*item.Value, v.Len())
	eachElement(v, func(key element, e *item.Value) { out[key] = e })
	return out
}

func eachElement(v *item.Value, do func(element, *item.Value)) {
	counts := map[element]int{}
	for _, e := range v.Elements() {
		var key element
		if e.Kind() == item.Object {
			key.rel, _ = e.Get("rel").Str()
			key.text, _ = e.Get("href").Str()
		} else {
			key.text, _ = e.Str()
		}
		n := counts[key]
		counts[key]++
		key.number = n
		do(key, e)
	}
}
