package expr

// Absent is a Scope's value for a known name without a value, such as an output of a skipped step: false in a
// condition, an error elsewhere, and default replaces it. A member of null is absent too, and so is an empty result
// of an expression, such as the first of an empty list.
type Absent struct {
	Why string // such as "the step a was skipped"
}

// Partial is an Object that knows which values its attributes may lack.
type Partial interface {
	Object
	// Lacks says that a member of an attribute's value is known but was not given; nil: there is no such member.
	Lacks(attribute, member string) *Absent
}

// undefined is the value of a missing name or attribute. It keeps the parts of its explanation and builds it on
// demand.
type undefined struct {
	path   string // the whole reference, as far as it is known
	parent any    // where the lookup failed, the Scope for a root name; nil when there is nothing to look in
	key    string // the name or member that is missing there
	off    int
	absent *Absent
}

// isAbsent reports whether there is known to be no value, rather than no such name.
func (u *undefined) isAbsent() bool { return u.absent != nil || u.parent == nil }

// refused reports whether not even a condition accepts it: a name or member that does not exist.
func (u *undefined) refused(st *state) bool { return !st.old() && !u.isAbsent() }

func isUndefined(v any) bool {
	_, ok := v.(*undefined)
	return ok
}

// named adds the reference to an absent value of a Scope.
func named(v any, path string, off int) any {
	if u, ok := v.(*undefined); ok && u.absent != nil && u.path == "" {
		return &undefined{path: path, key: u.key, off: off, absent: u.absent}
	}
	return v
}

// miss records a value that was absent when a condition was decided.
func (st *state) miss(u *undefined) {
	if st.absent == nil {
		st.absent = u
	}
}

// truth is Python's bool(v), except that a name or member that does not exist is an error.
func (st *state) truth(v any) bool {
	if u, ok := v.(*undefined); ok {
		if u.refused(st) {
			panic(u.err(st))
		}
		st.miss(u)
		return false
	}
	return truth(v)
}

// holds evaluates a condition to its truth.
func (st *state) holds(condition node) bool {
	return st.truth(st.soft(condition))
}

// soft evaluates an operand of a condition: a calculation on something absent is absent.
func (st *state) soft(n node) (v any) {
	outer := st.at
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(*Error)
			if !ok || e.absent == nil || st.old() {
				panic(p)
			}
			v, st.at = e.absent, outer
		}
	}()
	return st.eval(n)
}

// compareUndefined compares operands of which one is undefined, by the rules since revision 2: an absent value equals
// null, is in nothing and has no order.
func (st *state) compareUndefined(op string, a, b any) bool {
	for _, v := range [...]any{a, b} {
		if u, ok := v.(*undefined); ok && u.refused(st) {
			panic(u.err(st))
		} else if ok {
			st.miss(u)
		}
	}
	nothing := func(v any) bool { return v == nil || isUndefined(v) }
	switch op {
	case "==":
		return nothing(a) && nothing(b)
	case "!=":
		return !nothing(a) || !nothing(b)
	}
	return op == "not in"
}

func (u *undefined) err(st *state) error {
	e := failf(CodeUndefined, "%s is undefined", clip(u.path))
	e.Name, e.Hint = u.path, u.hint()
	if u.isAbsent() || st.old() {
		e.Absent, e.absent = true, u
	}
	switch {
	case u.absent != nil:
		e.Message = clip(u.path) + " is absent: " + u.absent.Why
	case u.parent == nil && u.key != "" && !st.old():
		e.Message, e.Hint = clip(u.path)+" is absent: "+clip(u.key)+" is looked up in none", defaultHint
	}
	return located(e, st.src, u.off)
}

const defaultHint = "default(…) gives another value"
