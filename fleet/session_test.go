package fleet_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// After the connection of its beats was lost a node looks at once whether the database still has what it has, also of executions that commit nothing
// for long.
func TestNewConnection(t *testing.T) {
	url := database(t)
	learns(t, url, func() { // the database that took over has another history
		if err := postgrestest.Exec(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'WITH RECURSIVE was%'`); err != nil {
			t.Fatal(err)
		}
	})
}

// A signal that was on its way to a node that has died reaches the node that runs the execution now.
func TestSignalOfDeadNode(t *testing.T) {
	const waits = "name: waits\nsteps:\n  - {id: w, action: t.wait}\n"
	url := database(t)
	wait := handler("t.wait", func(context.Context, *action.Call) (any, error) {
		return nil, action.Await("event:k", time.Time{}, nil)
	})
	var mute *silent
	p := parts{lease: 2 * time.Second, beat: 50 * time.Millisecond, actions: []action.Action{wait}}
	dying := p
	dying.nodes = func(n store.Nodes) store.Nodes { mute = &silent{Nodes: n}; return mute }
	b := join(t, url, dying)
	id := b.begin(t, waits)
	a := join(t, url, p)
	until(t, "the step to wait", func() bool {
		list, err := a.store.Awaiting(t.Context(), []string{"event:k"})
		return err == nil && len(list) == 1
	})
	body, err := json.Marshal(conductor.RequestBody{Key: "event:k", ID: "1", Signal: json.RawMessage(`{"outputs":{"v":7}}`), At: time.Now().Add(time.Hour).UnixMicro()})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.PutRequest(t.Context(), store.Request{Owner: b.node.No(), Kind: conductor.RequestDeliver, Body: body}); err != nil {
		t.Fatal(err)
	}
	if list, err := b.store.TakeRequests(t.Context(), b.node.No(), 1); err != nil || len(list) != 1 { // and dies before it commits
		t.Fatalf("%d requests, error %v", len(list), err)
	}
	mute.set(true)
	until(t, "the end", func() bool {
		a.TakeRequests(t.Context())
		x, err := a.store.Execution(t.Context(), id)
		return err == nil && x.Status.Terminal()
	})
	a.ended(t, id, stepwell.ExecutionCompleted)
}

// An event that reaches one node ends the steps of all nodes that wait for it, also when those of another one have ended with it before the
// steps of the first hear of it.
func TestSignalTakenElsewhereFirst(t *testing.T) {
	const waits = "name: waits\nsteps:\n  - {id: w, action: t.wait}\n"
	url := database(t)
	wait := handler("t.wait", func(context.Context, *action.Call) (any, error) {
		return nil, action.Await("event:k", time.Time{}, nil)
	})
	p := parts{lease: time.Hour, beat: 50 * time.Millisecond, actions: []action.Action{wait}}
	other := join(t, url, p)
	p.set = func(_ *member, o *conductor.Options) {
		o.Signalled = func(ctx context.Context, s store.Signal) {
			err := other.DeliverStored(ctx, s)
			if list, taken := other.store.SignalsFor(ctx, []string{s.Key}); err != nil || taken != nil || len(list) != 0 {
				t.Errorf("%d signals are left for others: %v, %v", len(list), err, taken)
			}
		}
	}
	m := join(t, url, p)
	ids := []string{other.begin(t, waits), m.begin(t, waits)}
	until(t, "the steps to wait", func() bool {
		list, err := m.store.Awaiting(t.Context(), []string{"event:k"})
		return err == nil && len(list) == len(ids)
	})
	fresh, delivered, err := m.Signal(t.Context(), store.Signal{Key: "event:k", ID: "1", Body: []byte(`{"outputs":{"v":7}}`)})
	if err != nil || !fresh || !delivered {
		t.Errorf("fresh %v, delivered %v, %v", fresh, delivered, err)
	}
	for _, id := range ids {
		m.ended(t, id, stepwell.ExecutionCompleted)
	}
}
