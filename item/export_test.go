package item

// Force makes v write itself from what is inside, down to the last level, and gives the number of values.
func (v *Value) Force() int {
	v.split()
	if v.inner == nil {
		return 1
	}
	v.own = true
	n := 1
	for i := range v.inner.kids {
		n += v.inner.kids[i].val.Force()
	}
	return n
}
