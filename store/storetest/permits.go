package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stepwell/stepwell/store"
)

// RunPermits holds a store of many processes to the promises of store.Permits. Every promise has two openers of one database.
func RunPermits(t *testing.T, open Open) { runPromises(t, open, permits) }

// share is a node's part of the limit k.
func (f *fixture) share(s store.Nodes, node int64, lease time.Duration, limit, demand, held int64) int64 {
	f.Helper()
	parts, err := s.(store.Permits).Share(f.Context(), node, lease, []store.Permit{{Name: "other", Limit: 1}, {Name: "k", Limit: limit, Demand: demand, Held: held}})
	f.must(err)
	return parts[1]
}

var permits = []promise{
	{"parts follow demand as far as others give them up", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		equal(f, "alone", f.share(a, one, long, 4, 9, 0), int64(4))
		equal(f, "nothing is left", f.share(b, two, long, 4, 9, 0), int64(0))
		equal(f, "comes down", f.share(a, one, long, 4, 9, 4), int64(2))
		equal(f, "still held", f.share(b, two, long, 4, 9, 0), int64(0))
		equal(f, "given up", f.share(a, one, long, 4, 9, 3), int64(2))
		equal(f, "one is free", f.share(b, two, long, 4, 9, 0), int64(1))
		equal(f, "given up", f.share(a, one, long, 4, 9, 2), int64(2))
		equal(f, "both", f.share(b, two, long, 4, 9, 1), int64(2))
		equal(f, "the least limit counts", f.share(b, two, long, 2, 9, 2), int64(0))
	}},
	{"the part of a node that has left or died goes to the others, unless they were late themselves", func(f *fixture) {
		a, b := f.nodes()
		one, two, three := f.join(a, "a", long), f.join(b, "b", short), f.join(b, "c", long)
		equal(f, "of the one that dies", f.share(b, two, long, 3, 3, 0), int64(3))
		equal(f, "may not judge yet", f.share(a, one, long, 3, 3, 0), int64(0))
		equal(f, "may judge", f.share(a, one, short, 3, 3, 0), int64(3))
		f.must(a.Leave(f.Context(), one))
		equal(f, "left", f.share(b, three, long, 3, 3, 0), int64(3))
	}},
	{"parts together are never more than the limit", func(f *fixture) {
		a, b := f.nodes()
		nodes := []int64{f.join(a, "a", long), f.join(b, "b", long), f.join(a, "c", long)}
		parts, running, chance := make([]int64, 3), make([]int64, 3), rand.New(rand.NewPCG(1, 2))
		for range 100 {
			i := chance.IntN(3)
			running[i] = chance.Int64N(parts[i] + 1)
			parts[i] = f.share([]store.Nodes{a, b}[i%2], nodes[i], long, 5, chance.Int64N(9), max(running[i], parts[i]))
			parts[i] = max(parts[i], running[i])
			if sum := parts[0] + parts[1] + parts[2]; sum > 5 {
				f.Fatalf("%v", parts)
			}
		}
	}},
}
