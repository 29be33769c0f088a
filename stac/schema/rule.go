package schema

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// rule is a compiled schema, laid out to decide validity only. The library collects errors of every alternative that it
// tries, which takes ten times as long. Most objects are valid; the library checks the others, and unsupported schemas.
// Both must agree (test: TestFast).
type rule struct {
	always, never bool
	only          bool  // there is nothing but ref
	does          uint8 // kinds of values whose content is looked at, and doesMore
	ref           *rule
	types         uint8 // 0: any
	equals        []any // of const and enum; nil: any
	format        *jsonschema.Format
	formatText    func(string) error // format for texts; nil: ask format
	not           *rule
	all, any, one []*rule
	when          *rule
	then, or      *rule

	members      []member // members that are required or have a rule
	needs        int      // how many of them are required
	table        []slot   // where members are, by the hash of the name; its length is a power of two
	patterns     []patternRule
	others       *rule // additionalProperties
	dependencies []dependency
	names        *rule
	least, most  int  // properties or elements; most -1: any
	looks        bool // at every member: patterns, others or names

	elements *rule
	tuple    []*rule
	rest     *rule // additionalItems
	unique   bool
	contains *rule
	listed   [2]int // minItems, maxItems

	pattern jsonschema.Regexp
	long    [2]int // minLength, maxLength
	bounds  []bound
	divisor *big.Rat
}

type member struct {
	name     string
	rule     *rule // nil: any value
	known    bool  // stands in properties
	required bool
}

type slot struct {
	hash   uint32
	member int32 // its index + 1; 0: the end of the hash's entries
}

type patternRule struct {
	pattern jsonschema.Regexp
	not     string // the pattern is "^(?!not)"
	rule    *rule
}

type dependency struct {
	name  string
	needs []string
	rule  *rule
}

// bound is one of minimum, maximum and their exclusive forms.
type bound struct {
	limit      *big.Rat
	near       float64 // limit, rounded
	upper, not bool    // not: exclusive
}

const (
	isNull uint8 = 1 << iota
	isBool
	isNumber
	isInteger
	isText
	isList
	isObject
	doesMore
)

var typeBits = map[string]uint8{"null": isNull, "boolean": isBool, "number": isNumber, "integer": isInteger, "string": isText, "array": isList, "object": isObject}

// rules makes rules of schemas. ok is false once one has a keyword that is not known here.
type rules struct {
	made map[*jsonschema.Schema]*rule
	ok   bool
}

// newRule is nil when the library has to do it all.
func newRule(s *jsonschema.Schema) *rule {
	r := rules{made: map[*jsonschema.Schema]*rule{}, ok: true}
	root := r.rule(s)
	if !r.ok {
		return nil
	}
	for _, made := range r.made {
		slices.SortFunc(made.members, func(a, b member) int {
			return cmp.Or(cmp.Compare(a.rule.weight(weightDepth), b.rule.weight(weightDepth)), cmp.Compare(a.name, b.name))
		})
		made.index()
		made.sum()
		slices.SortStableFunc(made.all, func(a, b *rule) int { return cmp.Compare(a.weight(weightDepth), b.weight(weightDepth)) })
	}
	return root
}

// sum records the types that a rule applies to, so that trials skip others.
func (r *rule) sum() {
	add := func(what uint8, is bool) {
		if is {
			r.does |= what
		}
	}
	add(isObject, len(r.members) > 0 || r.looks || len(r.dependencies) > 0 || r.least > 0 || r.most >= 0)
	add(isList, r.elements != nil || r.tuple != nil || r.unique || r.contains != nil || r.listed != [2]int{0, -1})
	add(isText, r.pattern != nil || r.long != [2]int{0, -1})
	add(isNumber, r.bounds != nil || r.divisor != nil)
	add(doesMore, r.equals != nil || r.format != nil || r.not != nil || r.all != nil || r.any != nil || r.one != nil || r.when != nil)
	r.only = r.ref != nil && r.types == 0 && r.does == 0
	add(doesMore, r.ref != nil)
}

// index makes the table of members, at most half of which is taken.
func (r *rule) index() {
	if len(r.members) == 0 {
		return
	}
	r.table = make([]slot, 1<<bits.Len(uint(2*len(r.members)-1)))
	for i, m := range r.members {
		hash := nameHash(m.name)
		at := int(hash) & (len(r.table) - 1)
		for r.table[at].member != 0 {
			at = (at + 1) & (len(r.table) - 1)
		}
		r.table[at] = slot{hash, int32(i + 1)}
	}
}

// find is the index of the member of that name, -1 when there is none.
func (r *rule) find(hash uint32, name string) int {
	if len(r.table) == 0 {
		return -1
	}
	for at := int(hash) & (len(r.table) - 1); ; at = (at + 1) & (len(r.table) - 1) {
		e := r.table[at]
		switch {
		case e.member == 0:
			return -1
		case e.hash == hash && r.members[e.member-1].name == name:
			return int(e.member - 1)
		}
	}
}

const weightDepth = 5

// weight is the approximate cost of a trial. Cheap ones go first: the branch of a oneOf that is for collections is then
// refused by its type before every asset is checked.
func (r *rule) weight(depth int) int {
	const much = 1000
	switch {
	case r == nil || r.always || r.never:
		return 0
	case depth == 0:
		return much
	}
	sum := 1 + r.ref.weight(depth-1) + r.not.weight(depth-1) + r.when.weight(depth-1) + 10*r.elements.weight(depth-1) + 10*r.contains.weight(depth-1) + 20*r.others.weight(depth-1)
	for _, list := range [][]*rule{r.all, r.any, r.one, r.tuple} {
		for _, inner := range list {
			sum += inner.weight(depth - 1)
		}
	}
	for _, m := range r.members {
		sum += m.rule.weight(depth - 1)
	}
	for _, p := range r.patterns {
		sum += 20 * p.rule.weight(depth-1)
	}
	return min(sum, much*much)
}

func (rs *rules) rule(s *jsonschema.Schema) *rule {
	if s == nil {
		return nil
	}
	if found, ok := rs.made[s]; ok {
		return found
	}
	r := &rule{most: -1, listed: [2]int{0, -1}, long: [2]int{0, -1}}
	rs.made[s] = r
	if s.DraftVersion != 7 || s.RecursiveRef != nil || s.DynamicRef != nil || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil || len(s.Extensions) > 0 ||
		s.Format != nil && s.Format.Name == "regex" {
		rs.ok = false
		return r
	}
	if s.Bool != nil {
		r.always, r.never = *s.Bool, !*s.Bool
		return r
	}
	r.ref, r.format = rs.rule(s.Ref), s.Format
	if s.Format != nil {
		r.formatText = textFormats[s.Format]
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			r.types |= typeBits[name]
		}
	}
	if s.Const != nil {
		r.equals = []any{*s.Const}
	}
	if s.Enum != nil {
		if r.equals != nil { // both: rare
			rs.ok = false
		}
		r.equals = append([]any{}, s.Enum.Values...)
	}
	r.not, r.when, r.then, r.or = rs.rule(s.Not), rs.rule(s.If), rs.rule(s.Then), rs.rule(s.Else)
	r.all, r.any, r.one = rs.list(s.AllOf), rs.list(s.AnyOf), rs.list(s.OneOf)
	rs.object(r, s)
	rs.array(r, s)
	rs.scalar(r, s)
	return r
}

func (rs *rules) list(from []*jsonschema.Schema) []*rule {
	var out []*rule
	for _, s := range from {
		out = append(out, rs.rule(s))
	}
	return out
}

// either is a schema where a boolean may stand too.
func (rs *rules) either(v any) *rule {
	switch v := v.(type) {
	case bool:
		return &rule{always: v, never: !v}
	case *jsonschema.Schema:
		return rs.rule(v)
	}
	return nil
}

func (rs *rules) object(r *rule, s *jsonschema.Schema) {
	for name, inner := range s.Properties {
		r.members = append(r.members, member{name: name, rule: rs.rule(inner), known: true})
	}
	for _, name := range s.Required {
		at := slices.IndexFunc(r.members, func(m member) bool { return m.name == name })
		if at < 0 {
			at = len(r.members)
			r.members = append(r.members, member{name: name})
		}
		if !r.members[at].required {
			r.members[at].required = true
			r.needs++
		}
	}
	for re, inner := range s.PatternProperties {
		not, _ := notPrefixed(re.String())
		r.patterns = append(r.patterns, patternRule{re, not, rs.rule(inner)})
	}
	r.others, r.names = rs.either(s.AdditionalProperties), rs.rule(s.PropertyNames)
	if r.others != nil && r.others.always {
		r.others = nil
	}
	r.looks = r.patterns != nil || r.others != nil || r.names != nil
	for name, dep := range s.Dependencies {
		d := dependency{name: name}
		switch dep := dep.(type) {
		case []string:
			d.needs = dep
		case *jsonschema.Schema:
			d.rule = rs.rule(dep)
		}
		r.dependencies = append(r.dependencies, d)
	}
	r.least, r.most = limits(s.MinProperties, s.MaxProperties)
}

func limits(least, most *int) (int, int) {
	low, high := 0, -1
	if least != nil {
		low = *least
	}
	if most != nil {
		high = *most
	}
	return low, high
}

func (rs *rules) array(r *rule, s *jsonschema.Schema) {
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		r.elements = rs.rule(items)
	case []*jsonschema.Schema:
		r.tuple = rs.list(items)
		r.rest = rs.either(s.AdditionalItems)
	}
	if s.Items == nil && s.AdditionalItems != nil { // means something to the library
		rs.ok = false
	}
	r.unique, r.contains = s.UniqueItems, rs.rule(s.Contains)
	r.listed[0], r.listed[1] = limits(s.MinItems, s.MaxItems)
}

func (rs *rules) scalar(r *rule, s *jsonschema.Schema) {
	r.pattern, r.divisor = s.Pattern, s.MultipleOf
	r.long[0], r.long[1] = limits(s.MinLength, s.MaxLength)
	for _, b := range []bound{{limit: s.Minimum}, {limit: s.Maximum, upper: true}, {limit: s.ExclusiveMinimum, not: true}, {limit: s.ExclusiveMaximum, upper: true, not: true}} {
		if b.limit != nil {
			b.near, _ = b.limit.Float64()
			r.bounds = append(r.bounds, b)
		}
	}
}
