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
