package expr

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// pathKey is one constant step of a path: .name, ["name"], .0 or [-1].
type pathKey struct {
	text    string
	index   int
	isIndex bool
	dotted  bool
}

// pathNode is a name with constant attributes, the most frequent expression by far.
type pathNode struct {
	base
	root string
	keys []pathKey
	ref  int // its place in the parser's references; -1 for a local name
}

// String is the reference as its author would write it.
func (n *pathNode) String() string { return pathString(n.root, n.keys) }

func pathString(root string, keys []pathKey) string {
	var b strings.Builder
	b.WriteString(root)
	for _, k := range keys {
		switch {
		case k.isIndex:
			b.WriteString("[" + k.text + "]")
		case k.dotted || isIdentifier(k.text):
			b.WriteString("." + k.text)
		default:
			b.WriteString("[" + strconv.Quote(k.text) + "]")
		}
	}
	return b.String()
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '_' || i == 0 && s[i] >= '0' && s[i] <= '9' {
			return false
		}
	}
	return s != ""
}

func (n *pathNode) eval(st *state) any {
	v, ok, err := st.lookup(n.root)
	if err != nil {
		panic(failAt(err, n.root))
	}
	if !ok {
		return &undefined{path: n.String(), parent: st.known(), key: n.root, off: n.off}
	}
	var before any // the value that has v as an attribute
	for i := range n.keys {
		next, ok, err := st.member(v, &n.keys[i])
		if err != nil {
			panic(failAt(err, pathString(n.root, n.keys[:i+1])))
		}
		if !ok {
			if u, chained := v.(*undefined); chained {
				longer := &undefined{path: u.path + strings.TrimPrefix(n.String(), n.root), parent: u.parent, key: u.key, off: n.off, absent: u.absent}
				if i > 0 || u.path == "" { // n itself led to something absent
					longer.path = n.String()
				}
				return longer
			}
			return n.missing(v, before, i)
		}
		before, v = v, next
	}
	if u, ok := v.(*undefined); ok && u.path == "" {
		return named(v, n.String(), n.off)
	}
	return v
}

// missing is the undefined value for the i-th key of n, which v lacks.
func (n *pathNode) missing(v, before any, i int) *undefined {
	u := &undefined{path: n.String(), parent: v, key: n.keys[i].text, off: n.off}
	if p, ok := before.(Partial); ok {
		u.absent = p.Lacks(n.keys[i-1].text, u.key)
	}
	return u
}

// known is where root names are looked up, for hints; never nil.
func (st *state) known() any {
	if st.scope == nil {
		return Vars(nil)
	}
	return st.scope
}

// failAt adds the reference whose value could not be used.
func failAt(err error, path string) error {
	if e, ok := err.(*Error); ok && e.Line == 0 && e.Code != CodeBudget {
		e.Message = clip(path) + ": " + e.Message
	}
	return err
}

func (st *state) lookup(name string) (any, bool, error) {
	for b := st.locals; b != nil; b = b.next {
		if b.name == name {
			return b.value, true, nil
		}
	}
	if st.scope == nil {
		return nil, false, nil
	}
	v, ok := st.scope.Lookup(name)
	if !ok {
		return nil, false, nil
	}
	v, err := st.norm(v)
	return v, true, err
}

// member is v.key or v[key] for a constant key. false means undefined.
func (st *state) member(v any, key *pathKey) (any, bool, error) {
	var item any
	var ok bool
	switch v := v.(type) {
	case map[string]any:
		item, ok = v[key.text]
	case []any:
		if !key.isIndex {
			return nil, false, nil
		}
		item, ok = listItem(v, key.index)
	case string:
		if !key.isIndex {
			return nil, false, nil
		}
		st.spend(len(v) / scanned)
		item, ok = stringItem(v, key.index)
	case Object:
		item, ok = v.Attr(key.text)
	}
	if !ok {
		return nil, false, nil
	}
	switch item.(type) {
	case string, nil, bool, int64, float64, map[string]any, []any:
		return item, true, nil
	}
	item, err := st.norm(item)
	return item, true, err
}

// mustMember is member that panics with the error.
func (st *state) mustMember(v any, key *pathKey) (any, bool) {
	item, ok, err := st.member(v, key)
	must(err)
	return item, ok
}

func listItem(v []any, i int) (any, bool) {
	if i < 0 {
		i += len(v)
	}
	if i < 0 || i >= len(v) {
		return nil, false
	}
	return v[i], true
}

func stringItem(s string, i int) (any, bool) {
	if i < 0 {
		i += utf8.RuneCountInString(s)
	}
	if i < 0 {
		return nil, false
	}
	for off := range s {
		if i == 0 {
			_, size := utf8.DecodeRuneInString(s[off:])
			return s[off : off+size], true
		}
		i--
	}
	return nil, false
}

// attrNode is a constant attribute of something that is not a path: (a ~ b).c, f().x.
type attrNode struct {
	base
	of  node
	key pathKey
}

func (n *attrNode) eval(st *state) any {
	return st.memberOf(st.eval(n.of), &n.key, n.of, n.off)
}

func (st *state) memberOf(v any, key *pathKey, of node, off int) any {
	if u, ok := v.(*undefined); ok {
		longer := *u
		longer.path += pathString("", []pathKey{*key})
		return &longer
	}
	item, ok := st.mustMember(v, key)
	if ok && !isUndefined(item) {
		return item
	}
	name := "…"
	if p, ok := of.(*pathNode); ok {
		name = p.String()
	}
	name += pathString("", []pathKey{*key})
	if ok {
		return named(item, name, off)
	}
	return &undefined{path: name, parent: v, key: key.text, off: off}
}

// indexNode is v[expression].
type indexNode struct {
	base
	of, index node
}

func (n *indexNode) eval(st *state) any {
	v := st.eval(n.of)
	key := dynamicKey(st.need(n.index))
	return st.memberOf(v, &key, n.of, n.off)
}

func dynamicKey(i any) pathKey {
	if b, ok := i.(bool); ok {
		return pathKey{text: scalarText(b)}
	}
	text, err := keyString(i)
	if err != nil {
		panic(failf(CodeType, "%s cannot be an index", typeName(i)))
	}
	if n, ok := i.(int64); ok {
		return pathKey{text: text, index: int(n), isIndex: true}
	}
	return pathKey{text: text}
}

// sliceNode is v[low:high:step].
type sliceNode struct {
	base
	of              node
	low, high, step node // nil where absent
}

func (n *sliceNode) eval(st *state) any {
	v := st.need(n.of)
	var bound [3]any
	for i, part := range []node{n.low, n.high, n.step} {
		if part == nil {
			continue
		}
		b := st.need(part)
		if _, ok := b.(int64); !ok && b != nil {
			panic(failf(CodeType, "a slice needs integers, not %s", typeName(b)))
		}
		bound[i] = b
	}
	return st.slice(v, bound)
}

func (st *state) slice(v any, bound [3]any) any {
	list, isList := v.([]any)
	s, isString := v.(string)
	if isString {
		list = st.characters(s)
	} else if !isList {
		panic(failf(CodeType, "%s cannot be sliced", typeName(v)))
	}
	step := int64(1)
	if n, ok := bound[2].(int64); ok {
		step = n
	}
	if step == 0 {
		panic(failf(CodeValue, "the step of a slice cannot be 0"))
	}
	st.growList(len(list))
	out := pick(list, bound[0], bound[1], step)
	if !isString {
		return out
	}
	texts := make([]string, len(out))
	for i, c := range out {
		texts[i] = c.(string)
	}
	return st.join(texts, "")
}

// pick applies Python's slice rules.
func pick(list []any, low, high any, step int64) []any {
	n := int64(len(list))
	first, last, least, most := int64(0), n, int64(0), n
	if step < 0 {
		first, last, least, most = n-1, -1, -1, n-1
	}
	clamp := func(bound any, def int64) int64 {
		b, ok := bound.(int64)
		if !ok {
			return def
		}
		if b < 0 {
			b += n
		}
		return min(max(b, least), most)
	}
	first, last = clamp(low, first), clamp(high, last)
	step = min(max(step, -n-1), n+1)
	out := []any{}
	for i := first; step > 0 && i < last || step < 0 && i > last; i += step {
		out = append(out, list[i])
	}
	return out
}
