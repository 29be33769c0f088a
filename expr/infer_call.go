package expr

import (
	"slices"
	"strings"
)

// operands are the kinds that an operator takes together, and the kind that it then gives.
type operands struct{ left, right, gives Kinds }

const wholeKinds = BoolKind | IntKind

// arithmeticKinds are the operators' types. Between numbers the result is as calculatedKinds says.
var arithmeticKinds = map[string][]operands{
	"+":  {{TextKind, TextKind, TextKind}, {ListKind, ListKind, ListKind}},
	"*":  {{TextKind, wholeKinds, TextKind}, {wholeKinds, TextKind, TextKind}, {ListKind, wholeKinds, ListKind}, {wholeKinds, ListKind, ListKind}},
	"%":  {{TextKind, AnyKind, TextKind}},
	"-":  nil,
	"/":  nil,
	"//": nil,
	"**": nil,
}

// calculatedKinds is the result of an operator between numbers.
func calculatedKinds(op string, left, right Kinds) Kinds {
	var gives Kinds
	switch left, right = left&NumberKinds, right&NumberKinds; {
	case left == 0 || right == 0:
		return 0
	case op == "/":
		return FloatKind
	}
	if left&wholeKinds != 0 && right&wholeKinds != 0 {
		gives = IntKind
	}
	if (left|right)&FloatKind != 0 || op == "**" {
		gives |= FloatKind
	}
	return gives
}

func (in *inference) arithmetic(n *binaryNode, left, right *Type) *Type {
	gives := calculatedKinds(n.op, left.Kinds, right.Kinds)
	for _, o := range arithmeticKinds[n.op] {
		if left.Kinds&o.left != 0 && right.Kinds&o.right != 0 {
			gives |= o.gives
		}
	}
	if gives == 0 {
		hint := ""
		if n.op == "+" {
			hint = "~ joins values as text"
		}
		in.add(n.off, WrongOperand, n.op+" cannot be used between "+left.Kinds.String()+" and "+right.Kinds.String(), hint)
		return Unknown
	}
	return kind(gives).secret(left, right)
}

// orderedKinds are the groups of kinds that have an order among themselves.
var orderedKinds = []Kinds{NumberKinds, TextKind, ListKind}

// compare infers a < b == c: the comparison of each pair.
func (in *inference) compare(n *compareNode) *Type {
	left, all, none := in.of(n.first), true, false
	first := n.first
	for i, op := range n.ops {
		right := in.of(n.rest[i])
		fixed := in.pair(op, left, right, first, n.rest[i])
		all, none = all && fixed == AlwaysTrue, none || fixed == AlwaysFalse
		left, first = right, n.rest[i]
	}
	t := &Type{Kinds: BoolKind}
	if none {
		t.Fixed = AlwaysFalse
	} else if all {
		t.Fixed = AlwaysTrue
	}
	return t
}

func (in *inference) pair(op string, a, b *Type, left, right node) Fixed {
	off := left.at().off
	switch op {
	case "==", "!=":
		fixed := in.equal(a, b, left, right)
		if op == "!=" {
			return fixed.not()
		}
		return fixed
	case "in", "not in":
		if b.Kinds&(sizedKinds|AbsentKind) == 0 {
			in.add(right.at().off, WrongOperand, "in needs a list, a mapping or a string, not "+b.Kinds.String(), "")
		} else if b.Kinds == TextKind && a.Kinds&(TextKind|AbsentKind) == 0 {
			in.add(off, WrongOperand, "in needs a string to look for in a string, not "+a.Kinds.String(), "")
		}
		if op == "in" && b.Kinds == ListKind && b.Element != nil && in.disjoint(a, b.Element) {
			in.never(off, a, b.Element, left)
			return AlwaysFalse
		}
		return Varies
	}
	if (a.Kinds|b.Kinds)&AbsentKind != 0 || slices.ContainsFunc(orderedKinds, func(k Kinds) bool { return a.Kinds&k != 0 && b.Kinds&k != 0 }) {
		return Varies
	}
	hint := ""
	if a.Kinds == TextKind || b.Kinds == TextKind {
		hint = "convert the text with | int or | float"
	}
	in.add(off, WrongOperand, a.Kinds.String()+" and "+b.Kinds.String()+" have no order", hint)
	return Varies
}

// equal reports values that are never equal, and gives the comparison's value where it is known.
func (in *inference) equal(a, b *Type, left, right node) Fixed {
	if in.disjoint(a, b) {
		if _, constant := left.(*constNode); constant {
			a, b, left = b, a, right
		}
		in.never(left.at().off, a, b, left)
		return AlwaysFalse
	}
	both := BoolKind
	switch {
	case a.Kinds == TextKind && b.Kinds == TextKind && len(a.Words) == 1 && len(b.Words) == 1:
		return AlwaysTrue // not disjoint
	case a.Kinds == both && b.Kinds == both && a.Fixed != Varies && b.Fixed != Varies:
		if a.Fixed == b.Fixed {
			return AlwaysTrue
		}
		return AlwaysFalse
	}
	return Varies
}

// disjoint reports whether no value is of both types; numbers of all kinds may be equal.
func (in *inference) disjoint(a, b *Type) bool {
	x, y := a.Kinds, b.Kinds
	if x&NumberKinds != 0 && y&NumberKinds != 0 || x&y&^(NumberKinds|TextKind) != 0 || (x|y)&(AbsentKind|NoneKind) != 0 {
		return false
	}
	if x&y&TextKind == 0 {
		return x != 0 && y != 0
	}
	return a.Words != nil && b.Words != nil && !slices.ContainsFunc(a.Words, func(w string) bool { return slices.Contains(b.Words, w) })
}

func (in *inference) never(off int, a, b *Type, left node) {
	message := nameOf(left) + " is " + a.Kinds.String() + " and never equals " + b.Kinds.String()
	hint := "convert one of them, with | int or | string"
	if a.Kinds&b.Kinds&TextKind != 0 {
		message = nameOf(left) + " is never " + quoted(b.Words, " or ")
		hint = "it is one of " + quoted(a.Words, ", ")
		if len(b.Words) == 1 {
			if near := didYouMean(b.Words[0], a.Words); near != "" {
				hint = near
			}
		}
	}
	in.add(off, NeverEqual, message, hint)
}

func quoted(words []string, between string) string {
	var b strings.Builder
	for i, word := range words[:min(len(words), 12)] {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString("'" + clip(word) + "'")
	}
	return b.String()
}

// typing is what a filter, test, function or method takes and gives.
type typing struct {
	takes Kinds // its input; 0: any value
	gives Kinds // 0: unknown
	like  func(input *Type, args []*Type) *Type
}

// Results that depend on the input.
var (
	elementOf = func(input *Type, _ []*Type) *Type { return input.elements() }
	listOf    = func(input *Type, _ []*Type) *Type { return &Type{Kinds: ListKind, Element: input.elements()} }
	reversed  = func(input *Type, _ []*Type) *Type {
		t := &Type{Kinds: input.Kinds & TextKind}
		if input.Kinds&(ListKind|MapKind) != 0 {
			t = either(t, listOf(input.without(TextKind), nil))
		}
		return t
	}
	wholes = func(*Type, []*Type) *Type { return &Type{Kinds: ListKind, Element: kind(IntKind)} }
	texts  = func(*Type, []*Type) *Type { return &Type{Kinds: ListKind, Element: kind(TextKind)} }
)

func (t *Type) without(k Kinds) *Type {
	less := *t
	less.Kinds &^= k
	return &less
}

// orDefault is the type of default(value): the input where there is one.
func orDefault(input *Type, args []*Type) *Type {
	other := kind(TextKind)
	if len(args) > 0 {
		other = args[0]
	}
	if len(args) < 2 && input.Kinds&AbsentKind == 0 && input.Kinds != AnyKind {
		other = either(input, other) // a guarded member may be missing all the same
	}
	return either(input.present(), other)
}

// converted is the type of int and float: the default, which may be anything, where the value is no number.
func converted(k Kinds) func(*Type, []*Type) *Type {
	return func(_ *Type, args []*Type) *Type {
		t := kind(k)
		if len(args) > 0 {
			t = either(t, args[0])
		}
		return t
	}
}

func (in *inference) call(n *callNode) *Type {
	input := &Type{}
	if n.in != nil {
		switch {
		case n.fn.lax:
			in.lax++
			input = in.of(n.in)
			in.lax--
		case n.fn.asks:
			input = in.of(n.in)
		default:
			input = in.need(n.in)
		}
	}
	if n.fn.lax {
		in.lax++
	}
	args := in.args(n.args)
	if n.fn.lax {
		in.lax--
	}
	sig := &n.fn.types
	if n.in != nil && sig.takes != 0 && input.Kinds != 0 && input.Kinds&(sig.takes|AbsentKind) == 0 {
		in.add(n.off, WrongArgument, n.name+" needs "+sig.takes.String()+", not "+input.Kinds.String(), "")
		return Unknown
	}
	t := in.result(sig, input, args)
	if t.Kinds == BoolKind && sig.like == nil || n.fn.types.gives == IntKind && sig.like == nil {
		return t // tells little of a secret
	}
	return t.secret(append(args, input)...)
}

func (in *inference) args(c callArgs) []*Type {
	types := make([]*Type, len(c.nodes))
	for i, n := range c.nodes {
		types[i] = in.of(n)
	}
	return types
}

func (in *inference) result(sig *typing, input *Type, args []*Type) *Type {
	switch {
	case sig.like != nil:
		return sig.like(input, args)
	case sig.gives != 0:
		return kind(sig.gives)
	}
	return Unknown
}

// method infers value.name(…): the methods that values of the kinds have.
func (in *inference) method(n *methodNode) *Type {
	of := in.need(n.of)
	args := in.args(n.args)
	out := &Type{}
	for _, m := range []struct {
		kind  Kinds
		table map[string]*function
	}{{TextKind, builtins.stringMethods}, {ListKind, builtins.listMethods}, {MapKind, builtins.dictMethods}, {MapKind, loopMethods}} {
		if fn := m.table[n.name]; fn != nil && of.Kinds&m.kind != 0 {
			out = either(out, in.result(&fn.types, of, args))
		}
	}
	if out.Kinds == 0 {
		in.add(n.off, WrongArgument, of.Kinds.String()+" has no method "+clip(n.name), "")
		return Unknown
	}
	return out.secret(append(args, of)...)
}
