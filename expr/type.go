package expr

import "strings"

// Kinds is a set of kinds of values.
type Kinds uint16

// The kinds. Absent stands for a name or member without a value.
const (
	NoneKind Kinds = 1 << iota
	BoolKind
	IntKind
	FloatKind
	TextKind
	ListKind
	MapKind
	AbsentKind

	NumberKinds = BoolKind | IntKind | FloatKind // what calculates as a number
	sizedKinds  = TextKind | ListKind | MapKind
	AnyKind     = NoneKind | NumberKinds | sizedKinds // any value, but there is one
)

var kindNames = []string{"none", "a boolean", "an integer", "a float", "a string", "a list", "a mapping", "absent"}

// String lists the kinds as error messages name them: "a string or none".
func (k Kinds) String() string {
	var names []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) > 2 {
		names = []string{strings.Join(names[:len(names)-1], ", "), names[len(names)-1]}
	}
	return strings.Join(names, " or ")
}

// Type is what is known of a value before it exists. It is never modified once it is shared; the zero Type has no values.
type Type struct {
	Kinds   Kinds
	Words   []string         // the only texts that it may be; nil: any
	Element *Type            // of a list; nil: unknown
	Members map[string]*Type // of a mapping, those that are known
	Closed  bool             // the mapping has no other members
	Secret  bool             // derives from a secret
	Fixed   Fixed            // of a boolean
	Why     string           // the reason for AbsentKind
}

// Fixed says that a truth value is known already.
type Fixed uint8

// The truth values.
const (
	Varies Fixed = iota
	AlwaysTrue
	AlwaysFalse
)

func (f Fixed) not() Fixed {
	switch f {
	case AlwaysTrue:
		return AlwaysFalse
	case AlwaysFalse:
		return AlwaysTrue
	}
	return Varies
}

// Unknown is the type of a value of which nothing is known.
var Unknown = &Type{Kinds: AnyKind}

func kind(k Kinds) *Type { return &Type{Kinds: k} }

// secret marks a type as derived from a secret when one of the others is.
func (t *Type) secret(others ...*Type) *Type {
	for _, other := range others {
		if other.Secret && !t.Secret {
			marked := *t
			marked.Secret = true
			t = &marked
		}
	}
	return t
}

// present is the type without AbsentKind.
func (t *Type) present() *Type {
	if t.Kinds&AbsentKind == 0 {
		return t
	}
	p := *t
	p.Kinds, p.Why = p.Kinds&^AbsentKind, ""
	return &p
}

// truth is what is known of the value as a condition.
func (t *Type) truth() Fixed {
	switch {
	case t.Kinds == BoolKind:
		return t.Fixed
	case t.Kinds&^(NoneKind|AbsentKind) == 0 && t.Kinds != 0:
		return AlwaysFalse
	case t.Kinds == TextKind && len(t.Words) > 0:
		all, none := true, true
		for _, word := range t.Words {
			all, none = all && word != "", none && word == ""
		}
		if all {
			return AlwaysTrue
		} else if none {
			return AlwaysFalse
		}
	}
	return Varies
}

// either is the type of a value that is of one type or the other.
func either(a, b *Type) *Type {
	if a == b || b.Kinds == 0 {
		return a
	}
	if a.Kinds == 0 {
		return b
	}
	t := &Type{Kinds: a.Kinds | b.Kinds, Secret: a.Secret || b.Secret, Why: a.Why + b.Why}
	if a.Why != "" {
		t.Why = a.Why
	}
	aText, bText := a.Kinds&TextKind != 0, b.Kinds&TextKind != 0
	switch {
	case aText && bText && a.Words != nil && b.Words != nil && len(a.Words)+len(b.Words) <= maxWords:
		t.Words = append(append([]string{}, a.Words...), b.Words...)
	case aText && !bText:
		t.Words = a.Words
	case bText && !aText:
		t.Words = b.Words
	}
	if a.Kinds&ListKind == 0 {
		t.Element = b.Element
	} else if b.Kinds&ListKind == 0 || a.Element == b.Element {
		t.Element = a.Element
	}
	if a.Kinds&MapKind == 0 {
		t.Members, t.Closed = b.Members, b.Closed
	} else if b.Kinds&MapKind == 0 {
		t.Members, t.Closed = a.Members, a.Closed
	}
	if a.Fixed == b.Fixed {
		t.Fixed = a.Fixed
	}
	return t
}

// maxWords bounds the texts of which a value is known to be one.
const maxWords = 200

// elements is the type of what an iteration over the value gives.
func (t *Type) elements() *Type {
	e := &Type{}
	if t.Kinds&ListKind != 0 {
		if t.Element == nil {
			return Unknown.secret(t)
		}
		e = t.Element
	}
	if t.Kinds&(TextKind|MapKind) != 0 {
		e = either(e, kind(TextKind))
	}
	if e.Kinds == 0 {
		return Unknown
	}
	return e.secret(t)
}

// TypeOf is the type of a value that is known.
func TypeOf(v any) *Type { return typeOf(v, 0) }

// maxTypeDepth bounds how deep a value is looked into.
const maxTypeDepth = 8

func typeOf(v any, depth int) *Type {
	switch v := v.(type) {
	case nil:
		return kind(NoneKind)
	case bool:
		t := &Type{Kinds: BoolKind, Fixed: AlwaysFalse}
		if v {
			t.Fixed = AlwaysTrue
		}
		return t
	case int, int64:
		return kind(IntKind)
	case float64:
		return kind(FloatKind)
	case string:
		return &Type{Kinds: TextKind, Words: []string{v}}
	case []any:
		t := &Type{Kinds: ListKind}
		if depth == maxTypeDepth || len(v) > maxWords {
			return t
		}
		e := &Type{}
		for _, item := range v {
			e = either(e, typeOf(item, depth+1))
		}
		if len(v) > 0 {
			t.Element = e
		}
		return t
	case map[string]any:
		t := &Type{Kinds: MapKind}
		if depth == maxTypeDepth {
			return t
		}
		t.Members, t.Closed = make(map[string]*Type, len(v)), true
		for name, item := range v {
			t.Members[name] = typeOf(item, depth+1)
		}
		return t
	}
	return Unknown
}
