package definition

// CheckWithin is Check with another bound for the search of ancestors.
func CheckWithin(d *Definition, cat Catalog, visits int) Problems {
	c := newChecker(d, cat, "")
	c.visits = visits
	return c.run()
}
