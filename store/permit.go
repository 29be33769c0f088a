package store

import (
	"context"
	"time"
)

// Permit is what a node wants of a limit that all nodes share, such as the concurrency of a queue.
type Permit struct {
	Name   string
	Limit  int64 // of all nodes together, as this node's settings say; the least one counts
	Demand int64 // what this node could use now
	Held   int64 // what it may be using until it has the answer
}

// Permits distribute limits over nodes. The methods are safe for concurrent use, from many processes.
type Permits interface {
	// Share gives the node's part of each limit, in the order of wants. The parts of all living nodes, and what they hold, are never more than
	// the limit. A node that gets less than it holds has to come down to it, and says so with its next call. The part of a dead node
	// goes to the others; one that was late itself may not judge (Nodes.Adopt).
	Share(ctx context.Context, node int64, lease time.Duration, wants []Permit) (parts []int64, err error)
}

// ShareLimit distributes a limit over demands: nobody gets more than another one that wants more, the remainder goes round by
// turn, and what nobody wants is spread evenly. The sum of the parts is the limit.
func ShareLimit(limit, turn int64, demands []int64) []int64 {
	parts, left := make([]int64, len(demands)), limit
	var open []int
	for i, d := range demands {
		if d > 0 {
			open = append(open, i)
		}
	}
	for left > 0 && len(open) > 0 {
		each, more := left/int64(len(open)), open[:0:0]
		if each == 0 {
			for i := range left {
				parts[open[(turn+i)%int64(len(open))]]++
			}
			return parts
		}
		for _, i := range open {
			n := min(each, demands[i]-parts[i])
			parts[i], left = parts[i]+n, left-n
			if parts[i] < demands[i] {
				more = append(more, i)
			}
		}
		open = more
	}
	for i := range parts {
		n := (left + int64(len(parts)-i) - 1) / int64(len(parts)-i)
		parts[i], left = parts[i]+n, left-n
	}
	return parts
}
