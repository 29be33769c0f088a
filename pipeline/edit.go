package pipeline

// edit is one line of a comparison: equal, only in the first text, or only in the second.
type edit struct {
	op   byte // ' ', '-' or '+'
	text string
	a, b int // lines of both texts before this one
}

// maxEdits limits the search for the shortest difference, whose memory grows with the square. Beyond it the whole text
// is shown as replaced.
const maxEdits = 1000

// compare gives the shortest way from one list of lines to another (Myers, 1986).
func compare(x, y []string) []edit {
	head := 0
	for head < len(x) && head < len(y) && x[head] == y[head] {
		head++
	}
	tail := 0
	for tail < len(x)-head && tail < len(y)-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	ops := make([]byte, 0, len(x)+len(y))
	for range head {
		ops = append(ops, ' ')
	}
	ops = append(ops, shortest(x[head:len(x)-tail], y[head:len(y)-tail])...)
	for range tail {
		ops = append(ops, ' ')
	}
	edits := make([]edit, 0, len(ops))
	a, b := 0, 0
	for _, op := range ops {
		e := edit{op: op, a: a, b: b}
		switch op {
		case '+':
			e.text = y[b]
			b++
		case '-':
			e.text = x[a]
			a++
		default:
			e.text = x[a]
			a++
			b++
		}
		edits = append(edits, e)
	}
	return edits
}

// shortest gives the operations in order.
func shortest(x, y []string) []byte {
	most := min(len(x)+len(y), maxEdits)
	reach := map[int]int{1: 0} // the furthest line of x on each diagonal
	var trace []map[int]int
	for d := 0; d <= most; d++ {
		row := make(map[int]int, d+1)
		for k := -d; k <= d; k += 2 {
			i := 0
			if k == -d || k != d && reach[k-1] < reach[k+1] {
				i = reach[k+1] // down: a line of y
			} else {
				i = reach[k-1] + 1 // right: a line of x
			}
			for i < len(x) && i-k < len(y) && x[i] == y[i-k] {
				i++
			}
			row[k], reach[k] = i, i
			if i >= len(x) && i-k >= len(y) {
				return retrace(append(trace, row), len(x), len(y))
			}
		}
		trace = append(trace, row)
	}
	ops := make([]byte, 0, len(x)+len(y))
	for range x {
		ops = append(ops, '-')
	}
	for range y {
		ops = append(ops, '+')
	}
	return ops
}

// retrace walks back from the end.
func retrace(trace []map[int]int, i, j int) []byte {
	var back []byte
	for d := len(trace) - 1; d > 0; d-- {
		k := i - j
		left, okLeft := trace[d-1][k-1]
		up, okUp := trace[d-1][k+1]
		down := k == -d || k != d && okUp && (!okLeft || left < up)
		from := left + 1
		if down {
			from = up
		}
		for i > from {
			back = append(back, ' ')
			i--
			j--
		}
		if down {
			back = append(back, '+')
			j--
		} else {
			back = append(back, '-')
			i--
		}
	}
	for range i {
		back = append(back, ' ')
	}
	for l, r := 0, len(back)-1; l < r; l, r = l+1, r-1 {
		back[l], back[r] = back[r], back[l]
	}
	return back
}
