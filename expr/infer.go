package expr

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// TypeProblem is something that cannot work in a template, or never holds.
type TypeProblem struct {
	Kind         ProblemKind
	Message      string
	Hint         string
	Maybe        bool // the place is evaluated under a condition, or accepts what is missing
	Line, Column int
}

// ProblemKind is the subject of a TypeProblem.
type ProblemKind uint8

// The kinds of problems.
const (
	NoMember      ProblemKind = iota // a name or member that does not exist
	WrongOperand                     // an operator that takes no such value
	WrongArgument                    // a filter, test, method or tag that takes no such value
	MayBeAbsent                      // a value is needed that there may not be
	NeverEqual                       // a comparison with a value that the other side never has
)

// Type infers the type of the template's value from the types of the root names, and finds what cannot work whatever the
// values are. A root name without a type is unknown. Time and memory are linear in the template.
func (t *Template) Type(root func(name string) *Type) (*Type, []TypeProblem) {
	if t.static {
		return typeOf(t.src, 0), nil
	}
	in := &inference{root: root, src: t.src}
	if t.single != nil {
		return in.of(t.single), in.found
	}
	out := &Type{Kinds: TextKind}
	in.run(t.body, out)
	return out, in.found
}

// inference is one walk over a template.
type inference struct {
	root   func(name string) *Type
	src    string
	locals []localType
	maybe  int // conditions around the place
	lax    int // a missing value is accepted at the place
	found  []TypeProblem
}

type localType struct {
	name string
	of   *Type
}

// maxTypeProblems bounds the problems of one template.
const maxTypeProblems = 20

func (in *inference) add(off int, kind ProblemKind, message, hint string) {
	if len(in.found) == maxTypeProblems || kind == MayBeAbsent && in.maybe+in.lax > 0 {
		return
	}
	head := in.src[:min(off, len(in.src))]
	line := 1 + strings.Count(head, "\n")
	column := 1 + utf8.RuneCountInString(head[strings.LastIndexByte(head, '\n')+1:])
	in.found = append(in.found, TypeProblem{kind, message, hint, in.maybe+in.lax > 0, line, column})
}

// perhaps infers a part that may not be evaluated.
func (in *inference) perhaps(n node) *Type {
	in.maybe++
	defer func() { in.maybe-- }()
	return in.of(n)
}

// need infers a part that must have a value.
func (in *inference) need(n node) *Type {
	t := in.of(n)
	if t.Kinds&AbsentKind != 0 {
		in.add(n.at().off, MayBeAbsent, nameOf(n)+" may have no value"+t.Why, defaultHint)
		return t.present()
	}
	return t
}

func nameOf(n node) string {
	if path, ok := n.(*pathNode); ok {
		return clip(path.String())
	}
	return "the value"
}

// of infers the type of a node. It is a table of nodes.
func (in *inference) of(n node) *Type {
	switch n := n.(type) {
	case *constNode:
		return typeOf(n.value, 0)
	case *pathNode:
		return in.path(n)
	case *attrNode:
		return in.member(in.of(n.of), &n.key, n.off, nameOf(n.of))
	case *indexNode:
		return in.index(n)
	case *sliceNode:
		return in.slice(n)
	case *listNode:
		return in.list(n)
	case *dictNode:
		return in.dict(n)
	case *notNode:
		of := in.of(n.of)
		return &Type{Kinds: BoolKind, Fixed: of.truth().not()}
	case *signNode:
		of := in.need(n.of)
		if of.Kinds&NumberKinds == 0 {
			in.add(n.off, WrongOperand, "a sign needs a number, not "+of.Kinds.String(), "")
		}
		return kind(IntKind | FloatKind).secret(of)
	case *binaryNode:
		left, right := in.need(n.left), in.need(n.right)
		return in.arithmetic(n, left, right)
	case *concatNode:
		t := kind(TextKind)
		for _, part := range n.parts {
			t = t.secret(in.need(part))
		}
		return t
	case *compareNode:
		return in.compare(n)
	case *logicNode:
		return in.logic(n)
	case *condNode:
		return in.choice(n)
	case *callNode:
		return in.call(n)
	case *methodNode:
		return in.method(n)
	}
	return Unknown
}

func (in *inference) list(n *listNode) *Type {
	t, e := &Type{Kinds: ListKind}, &Type{}
	for _, item := range n.items {
		e = either(e, in.need(item))
	}
	if len(n.items) > 0 {
		t.Element, t.Secret = e, e.Secret
	}
	return t
}

func (in *inference) dict(n *dictNode) *Type {
	t := &Type{Kinds: MapKind, Members: map[string]*Type{}, Closed: true}
	for i := range n.keys {
		in.need(n.keys[i])
		value := in.need(n.values[i])
		t.Secret = t.Secret || value.Secret
		if c, ok := n.keys[i].(*constNode); ok {
			if key, err := keyString(c.value); err == nil {
				t.Members[key] = value
				continue
			}
		}
		t.Closed = false
	}
	return t
}

func (in *inference) choice(n *condNode) *Type {
	test := in.of(n.test).truth()
	then, other := in.perhaps(n.then), kind(AbsentKind)
	if n.other != nil {
		other = in.perhaps(n.other)
	}
	switch test {
	case AlwaysTrue:
		return then
	case AlwaysFalse:
		return other
	}
	return either(then, other)
}

// logic: and, or give the operand that decides.
func (in *inference) logic(n *logicNode) *Type {
	out, decided := &Type{}, Varies
	stop, neutral := AlwaysFalse, AlwaysTrue
	if n.or {
		stop, neutral = AlwaysTrue, AlwaysFalse
	}
	all := true
	for i, part := range n.parts {
		var t *Type
		if i == 0 {
			t = in.of(part)
		} else {
			t = in.perhaps(part)
		}
		truth := t.truth()
		if truth == stop {
			decided = stop
		}
		all = all && truth == neutral
		if i < len(n.parts)-1 && n.or {
			t = t.present()
		}
		out = either(out, t)
	}
	if all {
		decided = neutral
	}
	if decided != Varies && out.Kinds&^(BoolKind|AbsentKind) == 0 {
		return &Type{Kinds: BoolKind, Fixed: decided, Secret: out.Secret}
	}
	if out.Fixed != Varies {
		free := *out
		free.Fixed = Varies
		out = &free
	}
	return out
}

func (in *inference) path(n *pathNode) *Type {
	t := in.lookup(n.root)
	if t == nil {
		return Unknown
	}
	for i := range n.keys {
		t = in.member(t, &n.keys[i], n.off, pathString(n.root, n.keys[:i]))
	}
	return t
}

func (in *inference) lookup(name string) *Type {
	for _, l := range slices.Backward(in.locals) {
		if l.name == name {
			return l.of
		}
	}
	return in.root(name)
}

// member infers value.key.
func (in *inference) member(t *Type, key *pathKey, off int, of string) *Type {
	out := &Type{}
	if t.Kinds&MapKind != 0 {
		if m := t.Members[key.text]; m != nil {
			out = m.secret(t)
		} else if !t.Closed {
			out = Unknown.secret(t)
		}
	}
	if t.Kinds&ListKind != 0 && key.isIndex {
		out = either(out, t.elements())
	}
	if t.Kinds&TextKind != 0 && key.isIndex {
		out = either(out, kind(TextKind).secret(t))
	}
	if out.Kinds == 0 {
		if t.Kinds&^(NoneKind|AbsentKind) != 0 {
			in.noMember(t, key, off, of)
		}
		return &Type{Kinds: AnyKind | t.Kinds&AbsentKind, Why: t.Why, Secret: t.Secret}
	}
	if t.Kinds&AbsentKind != 0 {
		absent := *out
		absent.Kinds, absent.Why = absent.Kinds|AbsentKind, t.Why
		out = &absent
	}
	return out
}

func (in *inference) noMember(t *Type, key *pathKey, off int, of string) {
	if t.Kinds&MapKind == 0 {
		in.add(off, NoMember, clip(of)+" is "+t.Kinds.String()+" and has no member "+clip(key.text), "")
		return
	}
	names := make([]string, 0, len(t.Members))
	for name := range t.Members {
		names = append(names, name)
	}
	slices.Sort(names)
	hint := didYouMean(key.text, names)
	if hint == "" && len(names) > 0 {
		hint = "it has " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	in.add(off, NoMember, clip(of)+" has no member "+clip(key.text), hint)
}

func (in *inference) index(n *indexNode) *Type {
	of, index := in.of(n.of), in.need(n.index)
	out := &Type{}
	if of.Kinds&MapKind != 0 {
		out = Unknown
	}
	if of.Kinds&ListKind != 0 {
		out = either(out, of.elements())
	}
	if of.Kinds&TextKind != 0 {
		out = either(out, kind(TextKind))
	}
	if out.Kinds == 0 {
		if of.Kinds&^(NoneKind|AbsentKind) != 0 {
			in.add(n.off, NoMember, nameOf(n.of)+" is "+of.Kinds.String()+" and has no members", "")
		}
		return Unknown
	}
	return out.secret(of, index)
}

func (in *inference) slice(n *sliceNode) *Type {
	of := in.need(n.of)
	for _, part := range []node{n.low, n.high, n.step} {
		if part != nil {
			if bound := in.need(part); bound.Kinds&(IntKind|NoneKind) == 0 {
				in.add(part.at().off, WrongOperand, "a slice needs integers, not "+bound.Kinds.String(), "")
			}
		}
	}
	if of.Kinds&(TextKind|ListKind) == 0 {
		in.add(n.off, WrongOperand, of.Kinds.String()+" cannot be sliced", "")
		return Unknown
	}
	t := &Type{Kinds: of.Kinds & (TextKind | ListKind), Element: of.Element, Secret: of.Secret}
	return t
}

// run infers the statements of a text; out is marked when a secret is put into it.
func (in *inference) run(body []stmt, out *Type) {
	for _, s := range body {
		switch s := s.(type) {
		case *outputStmt:
			out.Secret = in.need(s.of).Secret || out.Secret
		case *ifStmt:
			in.branches(s, out)
		case *setStmt:
			in.set(s)
		case *forStmt:
			in.loop(s, out)
		}
	}
}

func (in *inference) branches(s *ifStmt, out *Type) {
	for i, test := range s.tests {
		if i == 0 {
			in.of(test)
			in.maybe++
		} else {
			in.of(test)
		}
		in.run(s.bodies[i], out)
	}
	in.run(s.other, out)
	in.maybe--
}

func (in *inference) set(s *setStmt) {
	t := &Type{Kinds: TextKind}
	if s.value != nil {
		t = in.of(s.value)
	} else {
		in.run(s.body, t)
	}
	if len(s.targets) > 1 {
		t = t.elements()
	}
	for _, name := range s.targets {
		bound := t
		if in.maybe > 0 {
			bound = Unknown // it may keep the value that it had
		}
		in.locals = append(in.locals, localType{name, bound})
	}
}

var loopType = &Type{Kinds: MapKind}

func (in *inference) loop(s *forStmt, out *Type) {
	over := in.need(s.over)
	if over.Kinds&sizedKinds == 0 {
		in.add(s.over.at().off, WrongArgument, over.Kinds.String()+" cannot be iterated", "")
	}
	known, element := len(in.locals), over.elements()
	if len(s.targets) > 1 {
		element = element.elements()
	}
	for _, name := range s.targets {
		in.locals = append(in.locals, localType{name, element})
	}
	in.maybe++
	if s.filter != nil {
		in.of(s.filter)
	}
	in.locals = append(in.locals, localType{"loop", loopType})
	in.run(s.body, out)
	in.locals = in.locals[:known]
	in.run(s.other, out)
	in.maybe--
}
