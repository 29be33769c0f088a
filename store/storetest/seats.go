package storetest

import (
	"slices"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/store"
)

// RunSeats holds a store of many processes to the promises of store.Seats. Every promise has two openers of one database.
func RunSeats(t *testing.T, open Open) { runPromises(t, open, seats) }

func (f *fixture) seats() (a, b store.Seats) {
	f.Helper()
	return f.Store.(honest).Store.(store.Seats), f.again().(honest).Store.(store.Seats)
}

func seat(key string, execution, owner int64, priority, slots int) store.Seat {
	return store.Seat{Key: key, Execution: execution, ID: id(execution), Owner: owner, Priority: priority, Slots: slots}
}

func (f *fixture) enter(s store.Seats, x store.Seat) (others []int64) {
	f.Helper()
	list, err := s.Enter(f.Context(), x, true)
	f.must(err)
	for _, o := range list {
		others = append(others, o.Execution)
	}
	return others
}

func (f *fixture) sit(s store.Seats, x store.Seat) bool {
	f.Helper()
	sits, err := s.Sit(f.Context(), x)
	f.must(err)
	return sits
}

var seats = []promise{
	{"a free slot goes to the first that waits: higher priority, then the lower number", func(f *fixture) {
		a, b := f.seats()
		first, low, high, late := seat("k", 1, 1, 0, 1), seat("k", 2, 2, 0, 1), seat("k", 3, 1, 9, 1), seat("k", 4, 2, 0, 1)
		equal(f, "others", []any{f.enter(a, first), f.enter(b, low), f.enter(a, high), f.enter(b, late)}, []any{[]int64(nil), []int64{1}, []int64{1, 2}, []int64{1, 2, 3}})
		equal(f, "one slot", []bool{f.sit(a, first), f.sit(a, first), f.sit(b, low), f.sit(a, high)}, []bool{true, true, false, false})
		f.must(a.Rise(f.Context(), first))
		f.must(a.Rise(f.Context(), first))
		equal(f, "the order", []bool{f.sit(b, late), f.sit(b, low), f.sit(a, high)}, []bool{false, false, true})
		equal(f, "no member", f.sit(a, seat("k", 9, 1, 0, 1)), false)
		unlisted, err := a.Enter(f.Context(), late, false)
		f.must(err)
		equal(f, "others that nobody asks for", len(unlisted), 0)
		equal(f, "another key", []any{f.enter(b, seat("other", 5, 2, 0, 1)), f.sit(b, seat("other", 5, 2, 0, 1))}, []any{[]int64(nil), true})
	}},
	{"an execution that another process has entered stays with it, and keeps its slot", func(f *fixture) {
		a, b := f.seats()
		mine, theirs := seat("k", 1, 1, 0, 1), seat("k", 1, 2, 0, 1)
		f.enter(a, mine)
		equal(f, "taken", f.sit(a, mine), true)
		f.enter(b, theirs)
		f.must(a.Rise(f.Context(), mine))
		list, err := b.Seated(f.Context(), "k")
		f.must(err)
		theirs.Sitting = true
		equal(f, "members", list, []store.Seat{theirs})
		equal(f, "of the former owner", f.sit(a, mine), false)
		f.must(b.Rise(f.Context(), theirs))
		list, err = a.Seated(f.Context(), "k")
		f.must(err)
		equal(f, "nobody", len(list), 0)
	}},
	{"a slot that is freed is found by the process whose member waits, also that of a dead one", func(f *fixture) {
		a, b := f.seats()
		nodes, _ := f.nodes()
		one, two, dead := f.join(nodes, "a", long), f.join(nodes, "b", long), f.join(nodes, "c", short)
		holder, waiter := seat("k", 1, one, 0, 1), seat("k", 2, two, 0, 1)
		f.enter(a, holder)
		f.enter(b, waiter)
		equal(f, "full", []bool{f.sit(a, holder), f.sit(b, waiter)}, []bool{true, false})
		vacant := func(owner int64) []string {
			f.Helper()
			keys, err := b.Vacant(f.Context(), owner, 9)
			f.must(err)
			return keys
		}
		equal(f, "none", len(vacant(two)), 0)
		f.must(a.Rise(f.Context(), holder))
		equal(f, "for the other", []any{vacant(two), len(vacant(one))}, []any{[]string{"k"}, 0})
		f.owned(dead, 7)
		running, never := seat("d", 7, dead, 0, 1), seat("k", 8, dead, 0, 1)
		running.Sitting, never.Sitting = true, true
		f.enter(a, running)
		f.enter(a, never)
		equal(f, "taken away again, freed by the dead one", vacant(two), []string{"k"})
		left, err := a.Seated(f.Context(), "d")
		f.must(err)
		equal(f, "of one that runs", left, []store.Seat{running})
	}},
	{"no more members sit than the key has slots, whoever asks", func(f *fixture) {
		a, b := f.seats()
		const slots = 3
		var list []store.Seat
		for no := int64(1); no <= 30; no++ {
			list = append(list, seat("k", no, no%2+1, int(no%3), slots))
			f.enter([]store.Seats{a, b}[no%2], list[no-1])
		}
		var all sync.WaitGroup
		for _, x := range list {
			s := []store.Seats{a, b}[x.Execution%2]
			all.Go(func() {
				for f.Context().Err() == nil {
					sits, err := s.Sit(f.Context(), x)
					if err != nil {
						f.Error(err)
						return
					}
					if !sits {
						continue
					}
					now, err := s.Seated(f.Context(), "k")
					if n := len(slices.DeleteFunc(now, func(x store.Seat) bool { return !x.Sitting })); err != nil || n > slots {
						f.Errorf("%d sit, error %v", n, err)
					}
					if err := s.Rise(f.Context(), x); err != nil {
						f.Error(err)
					}
					return
				}
			})
		}
		all.Wait()
		left, err := a.Seated(f.Context(), "k")
		f.must(err)
		equal(f, "left", len(left), 0)
	}},
}
