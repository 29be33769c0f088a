package fleet_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/store"
)

// A node that stops in order hands its executions over: others go on with them, though their leases would last.
func TestStopHandsOver(t *testing.T) {
	url := database(t)
	g := newGate()
	usual := parts{lease: time.Hour, beat: 50 * time.Millisecond}
	leaving := usual
	leaving.actions = append(leaving.actions, newGate().action())
	usual.actions = append(usual.actions, g.action())
	a := join(t, url, leaving)
	id := a.begin(t, gated)
	b, c := join(t, url, usual), join(t, url, usual)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if began := <-g.begun; began != id {
		t.Errorf("%s began", began)
	}
	if owner := b.owner(t, id); owner != b.node.No() && owner != c.node.No() {
		t.Errorf("owner %d", owner)
	}
	close(g.open)
	b.ended(t, id, stepwell.ExecutionCompleted)
	checkBooks(t, url, 1, map[string]string{"a": `{"v":1}`, "b": `{"v":2}`})
}

// silent is a node whose beats do not arrive while it is silent.
type silent struct {
	store.Nodes
	mu  sync.Mutex
	yes bool
}

func (s *silent) Beat(ctx context.Context, no int64, roles []string, lease time.Duration) (*store.Beat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.yes {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the network is cut"}
	}
	return s.Nodes.Beat(ctx, no, roles, lease)
}

func (s *silent) set(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yes = yes
}

// A node that only seems dead loses its executions to others, then the race of its next commit, and lets go of them. Its roles
// have ended by then. When it is heard again it is an ordinary node.
func TestSeemsDead(t *testing.T) {
	url := database(t)
	first, second := newGate(), newGate()
	var quiet *silent
	usual := parts{lease: 2 * time.Second, beat: 100 * time.Millisecond}
	p := usual
	p.actions = append(p.actions, first.action())
	p.nodes = func(n store.Nodes) store.Nodes { quiet = &silent{Nodes: n}; return quiet }
	usual.actions = append(usual.actions, second.action())
	a := join(t, url, p)
	terms := make(chan context.Context, 10)
	lead := func(m *member) {
		go func() {
			_ = m.node.Lead(t.Context(), fleet.RoleRetention, func(ctx context.Context) { terms <- ctx; <-ctx.Done() })
		}()
	}
	lead(a)
	term := <-terms
	b := join(t, url, usual)
	lead(b)
	id := a.begin(t, gated)
	<-first.begun
	quiet.set(true)
	<-term.Done()
	next := <-terms
	if began := <-second.begun; began != id {
		t.Errorf("%s began", began)
	}
	if owner := b.owner(t, id); owner != b.node.No() {
		t.Errorf("owner %d", owner)
	}
	until(t, "b's commit", func() bool {
		x, err := b.store.Execution(t.Context(), id)
		return err == nil && x.Version > 1
	})
	close(first.open)
	until(t, "the end of a's copy", func() bool { return len(a.Active()) == 0 })
	quiet.set(false)
	err := a.Cancel(t.Context(), id, "")
	if e, ok := errors.AsType[*conductor.ElsewhereError](err); !ok || e.Node != strconv.FormatInt(b.node.No(), 10) {
		t.Errorf("a request at the former owner: %v", err)
	}
	close(second.open)
	b.ended(t, id, stepwell.ExecutionCompleted)
	if next.Err() != nil {
		t.Error("the role came back")
	}
	again := a.begin(t, six)
	a.ended(t, again, stepwell.ExecutionCompleted)
}

// A stall of the database for three leases moves nothing: neither executions nor roles.
func TestStallMovesNothing(t *testing.T) {
	url := database(t)
	const lease = 2 * time.Second
	g := newGate()
	usual := parts{lease: lease, beat: 100 * time.Millisecond}
	usual.actions = append(usual.actions, g.action())
	members := []*member{join(t, url, usual), join(t, url, usual), join(t, url, usual)}
	ids := make([]string, len(members))
	terms := make(chan context.Context, 10)
	for i, m := range members {
		ids[i] = m.begin(t, gated)
		<-g.begun
		go func() {
			_ = m.node.Lead(t.Context(), strconv.Itoa(i), func(ctx context.Context) { terms <- ctx; <-ctx.Done() })
		}()
		<-terms
	}
	stall(t, url, 3*lease)
	for range members { // each has its own role again
		<-terms
	}
	time.Sleep(2 * lease) // long enough for everybody to judge
	for i, m := range members {
		if owner := m.owner(t, ids[i]); owner != m.node.No() {
			t.Errorf("execution %d moved from node %d to %d", i, m.node.No(), owner)
		}
		x, err := m.store.Execution(t.Context(), ids[i])
		if err != nil || x.Version != 1 {
			t.Errorf("execution %d: %+v, %v", i, x, err)
		}
	}
	close(g.open)
	for _, id := range ids {
		members[0].ended(t, id, stepwell.ExecutionCompleted)
	}
	checkBooks(t, url, 3, map[string]string{"a": `{"v":1}`, "b": `{"v":2}`})
}

// stall holds the tables so that nothing is written, by the server's clock.
func stall(t *testing.T, url string, d time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE node, role, execution_live, step_log IN ACCESS EXCLUSIVE MODE")
	}
	if err == nil {
		_, err = conn.Exec(t.Context(), "SELECT pg_sleep($1)", d.Seconds())
	}
	if err == nil {
		_, err = conn.Exec(t.Context(), "COMMIT")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A node whose clock is off by an hour is an ordinary node: nothing is taken from it or by it, and its executions have the
// store's time.
func TestClockOff(t *testing.T) {
	url := database(t)
	g := newGate()
	var members []*member
	var ids []string
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		p := parts{lease: 2 * time.Second, beat: 100 * time.Millisecond, local: func() time.Time { return time.Now().Add(off) }}
		p.actions = append(p.actions, g.action())
		m := join(t, url, p)
		members, ids = append(members, m), append(ids, m.begin(t, gated))
		<-g.begun
	}
	time.Sleep(5 * time.Second) // more than two leases
	close(g.open)
	for i, m := range members {
		if owner := m.owner(t, ids[i]); owner != m.node.No() {
			t.Errorf("execution %d moved to node %d", i, owner)
		}
		x := m.ended(t, ids[i], stepwell.ExecutionCompleted)
		if d := time.Since(x.Created).Abs(); d > 10*time.Minute {
			t.Errorf("execution %d was created %s from now", i, d)
		}
		if x.Ended.Before(x.Created) {
			t.Errorf("execution %d ended before its beginning", i)
		}
	}
	checkBooks(t, url, 3, map[string]string{"a": `{"v":1}`, "b": `{"v":2}`})
}

// The clock never goes back, whatever the store's and the machine's do.
func TestClockNeverGoesBack(t *testing.T) {
	url := database(t)
	var mu sync.Mutex
	local := time.Now()
	m := join(t, url, parts{lease: time.Hour, beat: 20 * time.Millisecond, local: func() time.Time { mu.Lock(); defer mu.Unlock(); return local }})
	last := m.node.Now()
	for i := range 1000 {
		mu.Lock()
		local = local.Add(time.Duration(1-2*(i%2)) * time.Second)
		mu.Unlock()
		now := m.node.Now()
		if now.Before(last) {
			t.Fatalf("%s after %s", now, last)
		}
		last = now
	}
}
