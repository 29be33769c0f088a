package expr

import "unicode/utf8"

// Ref is one mention of a root name.
type Ref struct {
	// Path is the name and its constant attributes: steps["a"].outputs[0] is
	// ["steps", "a", "outputs", "0"].
	Path []string
	// Guarded says that the reference may be undefined: it is the input of default, of is defined or is undefined, or
	// evaluated only after such a test of the same path, a prefix or an extension of it.
	Guarded bool
	// Dynamic says that a subscript known only at run time follows.
	Dynamic      bool
	Line, Column int
}

// guardNode marks the reference that n reads, through dynamic subscripts too.
func (p *parser) guardNode(n node) {
	for {
		switch of := n.(type) {
		case *pathNode:
			if of.ref >= 0 {
				p.refs[of.ref].Guarded = true
			}
			return
		case *attrNode:
			n = of.of
		case *indexNode:
			n = of.of
		default:
			return
		}
	}
}

// definedWhen lists the paths that are known to be defined when n turned out as result.
func definedWhen(n node, result bool) []*pathNode {
	switch n := n.(type) {
	case *notNode:
		return definedWhen(n.of, !result)
	case *logicNode:
		if n.or == result { // a true or, a false and: which part decided is unknown
			return nil
		}
		var paths []*pathNode
		for _, part := range n.parts {
			paths = append(paths, definedWhen(part, result)...)
		}
		return paths
	case *callNode:
		path, ok := n.in.(*pathNode)
		if !ok || path.ref < 0 {
			return nil
		}
		if n.fn == builtins.tests["defined"] && result != n.negate ||
			n.fn == builtins.tests["undefined"] && result == n.negate {
			return []*pathNode{path}
		}
	}
	return nil
}

// guard marks the references first..last that are covered by tested paths.
func (p *parser) guard(tested []*pathNode, first, last int) {
	const enough = 64 // tested paths; more would make long conditions quadratic
	for _, path := range tested[:min(len(tested), enough)] {
		known := p.refs[path.ref].Path
		for i := first; i < last; i++ {
			if overlaps(known, p.refs[i].Path) {
				p.refs[i].Guarded = true
			}
		}
	}
}

// overlaps reports whether one path is the beginning of the other.
func overlaps(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (p *parser) pushScope(names ...string) { p.scopes = append(p.scopes, names) }
func (p *parser) popScope()                 { p.scopes = p.scopes[:len(p.scopes)-1] }

// declare makes names local from here on, in the innermost scope.
func (p *parser) declare(names ...string) {
	last := len(p.scopes) - 1
	p.scopes[last] = append(p.scopes[last], names...)
}

func (p *parser) local(name string) bool {
	for _, scope := range p.scopes {
		for _, n := range scope {
			if n == name {
				return true
			}
		}
	}
	return false
}

// locateRefs fills in the positions, in one pass over the source.
func (p *parser) locateRefs() {
	line, lineStart, off := 1, 0, 0
	column, counted := 1, 0
	for i, target := range p.refOffs {
		for ; off < target; off++ {
			if p.src[off] == '\n' {
				line, lineStart = line+1, off+1
				column, counted = 1, lineStart
			}
		}
		column += utf8.RuneCountInString(p.src[counted:target])
		counted = target
		p.refs[i].Line, p.refs[i].Column = line, column
	}
}
