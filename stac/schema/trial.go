package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// trial is one value under test. lost means that the answer does not count.
type trial struct {
	d     *Document
	depth int
	lost  bool
	slots []int32 // of the objects under test: the node for each member of the rule, 0 when it is not there
}

const maxTrial = 2000 // rules inside rules: a schema may go in circles

// fits reports whether a value is valid for sure.
func (r *rule) fits(d *Document) bool {
	t := &d.trial
	t.d, t.depth, t.lost, t.slots = d, 0, false, t.slots[:0]
	return t.fits(r, 0) && !t.lost
}

func (t *trial) fits(r *rule, at int32) bool {
	if r == nil || r.always {
		return true
	}
	start := t.depth
	for t.depth++; r.only && t.depth <= maxTrial; t.depth++ {
		r = r.ref
	}
	ok := false
	if t.depth > maxTrial {
		t.lost = true
	} else if n := &t.d.nodes[at]; !r.never && t.typed(r, n) {
		ok = r.always || (r.does&n.kind == 0 || t.content(r, at, n)) && (r.does&doesMore == 0 || t.plain(r, at, n) && t.combined(r, at))
	}
	t.depth = start
	return ok
}

// typed is the keyword type.
func (t *trial) typed(r *rule, n *node) bool {
	return r.types == 0 || r.types&n.kind != 0 || n.kind == isNumber && r.types&isInteger != 0 && whole(t.d.text[n.start:n.end])
}

// plain checks the value as a whole.
func (t *trial) plain(r *rule, at int32, n *node) bool {
	if r.equals != nil {
		found := false
		for _, want := range r.equals {
			if found = t.d.is(at, want); found {
				break
			}
		}
		if !found {
			return false
		}
	}
	if r.format != nil {
		if n.kind == isText && r.formatText != nil {
			if r.formatText(t.d.text[n.start:n.end]) != nil {
				return false
			}
		} else if r.format.Validate(t.d.value(at)) != nil {
			return false
		}
	}
	return t.fits(r.ref, at)
}

func (t *trial) combined(r *rule, at int32) bool {
	if r.not != nil && t.fits(r.not, at) {
		return false
	}
	for _, inner := range r.all {
		if !t.fits(inner, at) {
			return false
		}
	}
	if r.any != nil && t.count(r.any, at, 1) == 0 || r.one != nil && t.count(r.one, at, 2) != 1 {
		return false
	}
	if r.when == nil {
		return true
	}
	if t.fits(r.when, at) {
		return t.fits(r.then, at)
	}
	return t.fits(r.or, at)
}

// count is how many of the rules fit, up to enough.
func (t *trial) count(rules []*rule, at int32, enough int) (n int) {
	for _, inner := range rules {
		if t.fits(inner, at) {
			if n++; n == enough {
				break
			}
		}
	}
	return n
}

func (t *trial) content(r *rule, at int32, n *node) bool {
	switch n.kind {
	case isObject:
		return t.object(r, at, n)
	case isList:
		return t.array(r, at, n)
	case isText:
		text := t.d.text[n.start:n.end]
		if r.long != [2]int{0, -1} {
			if n := utf8.RuneCountInString(text); n < r.long[0] || r.long[1] >= 0 && n > r.long[1] {
				return false
			}
		}
		return r.pattern == nil || r.pattern.MatchString(text)
	case isNumber:
		return (r.bounds == nil && r.divisor == nil) || number(r, t.d.text[n.start:n.end])
	}
	return true
}

func (t *trial) object(r *rule, at int32, n *node) bool {
	if size := int(n.size); size < r.least || r.most >= 0 && size > r.most {
		return false
	}
	if len(r.members) > 0 && !t.named(r, at, n.next) {
		return false
	}
	for i := range r.dependencies {
		d := &r.dependencies[i]
		if t.d.member(at, d.name) == 0 {
			continue
		}
		for _, name := range d.needs {
			if t.d.member(at, name) == 0 {
				return false
			}
		}
		if !t.fits(d.rule, at) {
			return false
		}
	}
	return !r.looks || t.members(r, at, n.next)
}

// named are the rules about members by their names. Which are there is found in one pass; then the cheap rules go
// first.
func (t *trial) named(r *rule, at, end int32) bool {
	base := len(t.slots)
	for range r.members {
		t.slots = append(t.slots, 0)
	}
	missing := r.needs
	for kid := at + 1; kid < end; {
		n := &t.d.nodes[kid]
		if m := r.find(n.hash, t.d.text[n.keyStart:n.keyEnd]); m >= 0 {
			if r.members[m].required {
				missing--
			}
			t.slots[base+m] = kid
		}
		kid = n.next
	}
	ok := missing == 0
	for m := 0; ok && m < len(r.members); m++ {
		if kid := t.slots[base+m]; kid != 0 {
			ok = t.fits(r.members[m].rule, kid)
		}
	}
	t.slots = t.slots[:base]
	return ok
}

// members are the rules that are about every member.
func (t *trial) members(r *rule, at, end int32) bool {
	for kid := at + 1; kid < end; kid = t.d.nodes[kid].next {
		n := &t.d.nodes[kid]
		name := t.d.text[n.keyStart:n.keyEnd]
		known := r.others == nil
		if !known {
			m := r.find(n.hash, name)
			known = m >= 0 && r.members[m].known
		}
		for i := range r.patterns {
			p := &r.patterns[i]
			matches := p.not != "" && !strings.HasPrefix(name, p.not)
			if p.not == "" {
				matches = p.pattern.MatchString(name)
			}
			if matches {
				known = true
				if !t.fits(p.rule, kid) {
					return false
				}
			}
		}
		if !known && !t.fits(r.others, kid) || r.names != nil && !t.fitsName(r.names, name) {
			return false
		}
	}
	return true
}

// fitsName tests the name of a member, as a value of its own.
func (t *trial) fitsName(r *rule, name string) bool {
	inner := Document{text: name, nodes: []node{{end: uint32(len(name)), next: 1, kind: isText}}}
	inner.trial = trial{d: &inner, depth: t.depth}
	ok := inner.trial.fits(r, 0)
	t.lost = t.lost || inner.trial.lost
	return ok
}

func (t *trial) array(r *rule, at int32, n *node) bool {
	if size := int(n.size); size < r.listed[0] || r.listed[1] >= 0 && size > r.listed[1] || r.unique && !t.distinct(at, n) {
		return false
	}
	found := r.contains == nil
	if found && r.elements == nil && r.tuple == nil {
		return true
	}
	for i, kid := 0, at+1; kid < n.next; i, kid = i+1, t.d.nodes[kid].next {
		switch {
		case r.elements != nil:
			if !t.fits(r.elements, kid) {
				return false
			}
		case i < len(r.tuple):
			if !t.fits(r.tuple[i], kid) {
				return false
			}
		case r.tuple != nil && !t.fits(r.rest, kid):
			return false
		}
		found = found || t.fits(r.contains, kid)
	}
	return found
}

func (t *trial) distinct(at int32, n *node) bool {
	if n.size > 100 {
		t.lost = true // the library counts better
		return true
	}
	for kid := at + 1; kid < n.next; kid = t.d.nodes[kid].next {
		for other := at + 1; other < kid; other = t.d.nodes[other].next {
			if t.d.same(kid, other) {
				return false
			}
		}
	}
	return true
}

func whole(n string) bool {
	if _, err := strconv.ParseInt(n, 10, 64); err == nil {
		return true
	}
	r, ok := new(big.Rat).SetString(n)
	return ok && r.IsInt()
}

// number compares rounded values, which is exact unless they are equal.
func number(r *rule, n string) bool {
	near, err := strconv.ParseFloat(n, 64)
	for i := range r.bounds {
		b := &r.bounds[i]
		order := 0
		switch {
		case err == nil && near < b.near:
			order = -1
		case err == nil && near > b.near:
			order = 1
		default:
			exact, ok := new(big.Rat).SetString(n)
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
	exact, ok := new(big.Rat).SetString(n)
	return ok && exact.Quo(exact, r.divisor).IsInt()
}

// is reports whether a value is one of a schema's, as JSON Schema has it: numbers by value.
func (d *Document) is(at int32, want any) bool {
	n := &d.nodes[at]
	switch want := want.(type) {
	case nil:
		return n.kind == isNull
	case bool:
		return n.kind == isBool && n.yes == want
	case string:
		return n.kind == isText && d.text[n.start:n.end] == want
	case json.Number:
		return n.kind == isNumber && sameNumber(d.text[n.start:n.end], string(want))
	case []any:
		if n.kind != isList || int(n.size) != len(want) {
			return false
		}
		kid := at + 1
		for _, e := range want {
			if !d.is(kid, e) {
				return false
			}
			kid = d.nodes[kid].next
		}
		return true
	case map[string]any:
		if n.kind != isObject || int(n.size) != len(want) {
			return false
		}
		for kid := at + 1; kid < n.next; kid = d.nodes[kid].next {
			if e, ok := want[d.key(kid)]; !ok || !d.is(kid, e) {
				return false
			}
		}
		return true
	}
	return false
}

// same is is for two values of the document.
func (d *Document) same(a, b int32) bool {
	x, y := &d.nodes[a], &d.nodes[b]
	if x.kind != y.kind || x.size != y.size {
		return false
	}
	switch x.kind {
	case isBool:
		return x.yes == y.yes
	case isNumber:
		return sameNumber(d.text[x.start:x.end], d.text[y.start:y.end])
	case isText:
		return d.text[x.start:x.end] == d.text[y.start:y.end]
	case isList:
		for a, b = a+1, b+1; a < x.next; a, b = d.nodes[a].next, d.nodes[b].next {
			if !d.same(a, b) {
				return false
			}
		}
	case isObject:
		for a = a + 1; a < x.next; a = d.nodes[a].next {
			if other := d.member(b, d.key(a)); other == 0 || !d.same(a, other) {
				return false
			}
		}
	}
	return true
}

func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, ok1 := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok1 && ok2 && x.Cmp(y) == 0
}
