package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// RunNodes holds a store of many processes to the promises of store.Nodes. Every promise has two openers of one database.
func RunNodes(t *testing.T, open Open) { runPromises(t, open, nodes) }

func runPromises(t *testing.T, open Open, list []promise) {
	for _, p := range list {
		t.Run(p.name, func(t *testing.T) {
			f := &fixture{T: t, open: open, place: t.TempDir(), rows: rows{seen: map[[2]int64]bool{}}}
			f.Store = f.again()
			p.check(f)
		})
	}
}

// Leases of tests: one outlasts the test, the other is over at once.
const (
	long  = time.Hour
	short = time.Microsecond
)

// nodes are the methods of two openers.
func (f *fixture) nodes() (a, b store.Nodes) {
	f.Helper()
	return f.Store.(honest).Store.(store.Nodes), f.again().(honest).Store.(store.Nodes)
}

func (f *fixture) join(n store.Nodes, address string, lease time.Duration) int64 {
	f.Helper()
	no, now, err := n.Join(f.Context(), address, lease)
	f.must(err)
	if now.IsZero() {
		f.Error("no time")
	}
	return no
}

func (f *fixture) beat(n store.Nodes, no int64, lease time.Duration, roles ...string) *store.Beat {
	f.Helper()
	b, err := n.Beat(f.Context(), no, roles, lease)
	f.must(err)
	return b
}

// owned begins executions of an owner.
func (f *fixture) owned(owner int64, numbers ...int64) {
	f.Helper()
	f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
	var list []store.Commit
	for _, no := range numbers {
		c := f.first(no)
		c.Create.Owner = owner
		list = append(list, c)
	}
	f.must(f.Commit(f.Context(), list))
}

// unknown is the number of a node that never was; small numbers are revisions of the engine (Nodes.Yield).
const unknown = 1_000_000

// adopt is the numbers of the executions that a node gets; with a long lease it may not judge yet.
func (f *fixture) adopt(n store.Nodes, no int64, lease time.Duration, limit int) (numbers []int64) {
	f.Helper()
	list, err := n.Adopt(f.Context(), no, lease, limit)
	if err != nil {
		f.Error(err)
	}
	for _, x := range list {
		if x.Owner != no || x.Version == 0 || x.ID != id(x.No) {
			f.Errorf("adopted %+v", x)
		}
		numbers = append(numbers, x.No)
	}
	return numbers
}

// owner is the number of an execution's owner, and whether that lives.
func (f *fixture) owner(n store.Nodes, execution int64) (int64, bool) {
	f.Helper()
	o, err := n.OwnerOf(f.Context(), id(execution), 0, false)
	f.must(err)
	return o.No, o.Alive
}

var nodes = []promise{
	{"a request to deliver a signal comes again until it is done, to another node after the death of its own", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		f.must(f.PutRequest(f.Context(), store.Request{Owner: two, Kind: "deliver", Body: []byte("{}")}))
		take := func(node int64) (owners []int64, no int64) {
			f.Helper()
			list, err := f.TakeRequests(f.Context(), node, 9)
			f.must(err)
			for _, r := range list {
				owners, no = append(owners, r.Owner), r.No
				equal(f, "owed", r.Owed, true)
			}
			return owners, no
		}
		for range 2 {
			owners, _ := take(two)
			equal(f, "its own", owners, []int64{two})
		}
		owners, _ := take(one)
		equal(f, "of another one that lives", owners, []int64(nil))
		f.must(b.Leave(f.Context(), two))
		owners, no := take(one)
		equal(f, "of a dead one", owners, []int64{two})
		owners, _ = take(one)
		equal(f, "its own by now", owners, []int64{one})
		f.must(f.RequestDone(f.Context(), no))
		f.must(f.RequestDone(f.Context(), no))
		owners, _ = take(one)
		equal(f, "done", owners, []int64(nil))
	}},
	{"the last versions of executions are read at once, without those of another owner", func(f *fixture) {
		a, _ := f.nodes()
		f.owned(1, 1, 2)
		f.owned(2, 4)
		found, err := a.Versions(f.Context(), 1, []int64{1, 2, 3, 4})
		f.must(err)
		equal(f, "versions", found, map[int64]int64{1: 1, 2: 1, 3: 0})
	}},
	{"numbers are never used again, and others are seen with their addresses", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a:1", long), f.join(b, "b:1", long)
		f.must(b.Leave(f.Context(), two))
		f.must(b.Leave(f.Context(), two))
		three := f.join(b, "b:1", long)
		equal(f, "ascend", one < two && two < three && one > 1, true)
		equal(f, "others", f.beat(a, one, long).Others, []store.NodeRow{{No: three, Address: "b:1", Alive: true}})
		_, err := b.Beat(f.Context(), two, nil, long)
		f.wantCode(err, stepwell.CodeConflict)
		_, err = b.Beat(f.Context(), three+100, nil, long)
		f.wantCode(err, stepwell.CodeConflict)
	}},
	{"a lease ends by the store's clock, and a late beat says so", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", short)
		equal(f, "on time", f.beat(a, one, long).Late, false)
		equal(f, "the late one is dead to others", f.beat(a, one, long).Others, []store.NodeRow{{No: two, Address: "b"}})
		first := f.beat(b, two, long)
		second := f.beat(b, two, long)
		equal(f, "late, then not", []bool{first.Late, second.Late, second.Now.Before(first.Now)}, []bool{true, false, false})
		equal(f, "alive again", f.beat(a, one, long).Others[0].Alive, true)
	}},
	{"a role has one node, which keeps it, gives it up, or leaves", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		equal(f, "first", f.beat(a, one, long, "relay", "keeper").Roles, []string{"keeper", "relay"})
		equal(f, "taken", f.beat(b, two, long, "relay", "scheduler").Roles, []string{"scheduler"})
		equal(f, "kept", f.beat(a, one, long, "relay").Roles, []string{"relay"})
		equal(f, "given up", f.beat(b, two, long, "relay", "keeper", "scheduler").Roles, []string{"keeper", "scheduler"})
		f.must(a.Leave(f.Context(), one))
		equal(f, "left", f.beat(b, two, long, "relay", "keeper", "scheduler").Roles, []string{"keeper", "relay", "scheduler"})
	}},
	{"a role of a node that seems dead goes to one that may judge only", func(f *fixture) {
		a, b := f.nodes()
		one := f.join(a, "a", long)
		f.beat(a, one, short, "relay")
		two := f.join(b, "b", long)
		equal(f, "a new one", len(f.beat(b, two, long, "relay").Roles), 0)
		f.beat(b, two, 2*time.Second)
		for len(f.beat(b, two, time.Millisecond, "relay").Roles) == 0 {
			f.must(f.Context().Err())
			f.beat(b, two, 2*time.Second) // on time when it comes; that of a millisecond makes it a judge
		}
	}},
	{"executions without an owner, of one that has left, or of none that is known are adopted at once", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		f.owned(0, 1)
		f.owned(unknown, 2)
		f.owned(one, 3, 4)
		equal(f, "orphans", f.beat(b, two, long).Orphans, true)
		equal(f, "at first", f.adopt(b, two, long, 9), []int64{1, 2})
		equal(f, "no orphans", f.beat(b, two, long).Orphans, false)
		equal(f, "those of a living node", len(f.adopt(b, two, short, 9)), 0)
		f.must(a.Leave(f.Context(), one))
		equal(f, "orphans of the one that left", f.beat(b, two, long).Orphans, true)
		equal(f, "a limit", f.adopt(b, two, long, 1), []int64{3})
		equal(f, "the rest", f.adopt(b, two, long, 9), []int64{4})
		equal(f, "one that has left gets none", len(f.adopt(a, one, short, 9)), 0)
		owned, err := b.Owned(f.Context(), two, 1, 2)
		f.must(err)
		equal(f, "owned", []any{len(owned), owned[0].No, owned[1].ID}, []any{2, 2, id(3)})
	}},
	{"who is new, late or dead may not judge", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		f.owned(one, 1, 2)
		f.beat(a, one, short)
		equal(f, "a new one", []any{f.beat(b, two, long).Orphans, len(f.adopt(b, two, long, 9))}, []any{false, 0})
		equal(f, "after its time", f.adopt(b, two, short, 1), []int64{1})
		f.beat(b, two, short)
		equal(f, "a dead one", len(f.adopt(b, two, short, 9)), 0)
		late := f.beat(b, two, long)
		equal(f, "a late one", []any{late.Late, late.Orphans, len(f.adopt(b, two, long, 9))}, []any{true, false, 0})
		no, alive := f.owner(a, 2)
		equal(f, "the owner that seems dead", []any{no, alive}, []any{one, false})
		equal(f, "one who lived on beats again", f.beat(a, one, long).Late, true)
		equal(f, "its executions stay its own", len(f.adopt(b, two, short, 9)), 0)
		no, _ = f.owner(a, 1)
		equal(f, "but for the adopted one", no, two)
	}},
	{"of many who adopt at once no two get the same", func(f *fixture) {
		a, b := f.nodes()
		var numbers []int64
		for no := int64(1); no <= 60; no++ {
			numbers = append(numbers, no)
		}
		f.owned(unknown, numbers...)
		var mu sync.Mutex
		var got []int64
		var all sync.WaitGroup
		for i := range 4 {
			n := []store.Nodes{a, b}[i%2]
			no := f.join(n, "x", long)
			all.Go(func() {
				for {
					mine := f.adopt(n, no, long, 4)
					if len(mine) == 0 {
						return
					}
					mu.Lock()
					got = append(got, mine...)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(got)
		for f.Context().Err() == nil && len(got) < len(numbers) { // skipped while another held the row in vain
			got = append(got, f.adopt(a, f.join(a, "y", long), long, 9)...)
		}
		slices.Sort(got)
		equal(f, "adopted", got, numbers)
	}},
	{"an ended execution is taken to be restarted, a living one is not", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		f.owned(one, 1, 2)
		c := f.next(1, 2)
		c.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(9)}
		f.commit(c)
		for no, want := range map[int64]store.Ownership{1: {NodeRow: store.NodeRow{No: two, Address: "b", Alive: true}, Ended: true}, 2: {NodeRow: store.NodeRow{No: one, Address: "a", Alive: true}}} {
			o, err := b.OwnerOf(f.Context(), id(no), two, true)
			f.must(err)
			equal(f, "owner", *o, want)
		}
		_, err := b.OwnerOf(f.Context(), id(9), two, true)
		f.wantCode(err, stepwell.CodeNotFound)
		f.owned(0, 3)
		o, err := b.OwnerOf(f.Context(), id(3), two, true)
		f.must(err)
		equal(f, "of nobody", *o, store.Ownership{})
	}},
	{"one execution is adopted by its id, under the same rules", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		f.owned(one, 1, 2)
		f.owned(0, 3)
		adopted := func(no int64, lease time.Duration) bool {
			f.Helper()
			got, err := b.AdoptOne(f.Context(), two, lease, id(no))
			f.must(err)
			return got
		}
		equal(f, "of a living node, of nobody, of one that is not there", []bool{adopted(1, short), adopted(3, long), adopted(9, long)}, []bool{false, true, false})
		f.beat(a, one, short)
		equal(f, "of a dead one, before its time and after", []bool{adopted(1, long), adopted(1, short), adopted(1, long)}, []bool{false, true, true})
		f.must(a.Leave(f.Context(), one))
		equal(f, "of one that has left", adopted(2, long), true)
		no, _ := f.owner(a, 2)
		equal(f, "owner", no, two)
	}},
	{"changes of objects are told in their order, those of others and deletions among them", func(f *fixture) {
		a := f.Store.(honest).Store.(store.Changes)
		_, start, err := a.ChangedObjects(f.Context(), -1, 0)
		f.must(err)
		other := f.again()
		_, err = other.PutObjects(f.Context(), store.Object{Kind: "k", ID: "1", Body: []byte("{}")}, store.Object{Kind: "k", ID: "2", Body: []byte("{}")}, store.Object{Kind: store.KindFirings, ID: "1", Body: []byte("{}")})
		f.must(err)
		changed, middle, err := a.ChangedObjects(f.Context(), start, 1)
		f.must(err)
		equal(f, "one transaction is never split", len(changed), 2)
		f.must(f.DeleteObject(f.Context(), "k", "1", store.AnyRevision))
		changed, last, err := a.ChangedObjects(f.Context(), middle, 9)
		f.must(err)
		equal(f, "deleted", changed, []store.Object{{Kind: "k", ID: "1"}})
		changed, same, err := a.ChangedObjects(f.Context(), last, 9)
		f.must(err)
		equal(f, "nothing more", []any{len(changed), same}, []any{0, last})
	}},
	{"changes of many at once are all seen by a reader that continues from the last", func(f *fixture) {
		a := f.Store.(honest).Store.(store.Changes)
		_, last, err := a.ChangedObjects(f.Context(), -1, 0)
		f.must(err)
		const each = 30
		var writers sync.WaitGroup
		for i, s := range []Store{f.again(), f.again(), f.again()} {
			writers.Go(func() {
				for n := range each {
					if _, err := s.PutObjects(f.Context(), store.Object{Kind: "k", ID: id(int64(i*each + n)), Body: []byte("{}")}); err != nil {
						f.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { writers.Wait(); close(done) }()
		seen := map[string]bool{}
		for over := false; ; {
			changed, next, err := a.ChangedObjects(f.Context(), last, 1000)
			f.must(err)
			for _, o := range changed {
				seen[o.ID] = true
			}
			if last = next; over {
				break
			}
			select {
			case <-done:
				over = true // one look more
			default:
			}
		}
		equal(f, "seen", len(seen), 3*each)
	}},
	{"signals of which nobody has told are found by the owner of the steps that wait", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		f.owned(one, 1, 2)
		f.owned(two, 3)
		f.commit(f.wait(1, 2, 0, "x"), f.wait(2, 2, 0, "y"), f.wait(3, 2, 0, "z"))
		f.signal("x", "1", 1)
		f.signal("z", "1", 1)
		f.signal("nobody", "1", 1)
		unheard := func(no int64) []string {
			f.Helper()
			keys, err := f.Store.(honest).Store.(store.Changes).Unheard(f.Context(), no, 9)
			f.must(err)
			return keys
		}
		equal(f, "of each", [][]string{unheard(one), unheard(two)}, [][]string{{"x"}, {"z"}})
		c := f.next(1, 3, done(0, 1, "{}"))
		c.Taken = []string{"x"}
		f.commit(c)
		equal(f, "taken", len(unheard(one)), 0)
	}},
	{"requests for a node that has left or died are for any", func(f *fixture) {
		a, b := f.nodes()
		one, two := f.join(a, "a", long), f.join(b, "b", long)
		for _, owner := range []int64{one, two, 7} {
			f.must(f.PutRequest(f.Context(), store.Request{Owner: owner, Execution: id(owner), Kind: "cancel"}))
		}
		taken := func() (owners []int64) {
			f.Helper()
			list, err := f.TakeRequests(f.Context(), two, 9)
			f.must(err)
			for _, r := range list {
				owners = append(owners, r.Owner)
			}
			return owners
		}
		equal(f, "its own", taken(), []int64{two})
		f.must(a.Leave(f.Context(), one))
		equal(f, "those of the one that left", taken(), []int64{one})
	}},
}
