package api

// Operation is a row of the table of operations.
type Operation struct{ ID, Method, Path string }

// Operations are the rows of the table.
func Operations() (list []Operation) {
	for _, op := range operations() {
		list = append(list, Operation{op.id, op.method, op.path})
	}
	return list
}

// SetMostCounts sets how many sums a request reads, and returns how many it was.
func SetMostCounts(n int) int {
	was := mostCounts
	mostCounts = n
	return was
}
