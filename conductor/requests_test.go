package conductor_test

import (
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// A request that a stopping process has taken is left for the next one.
func TestRequestsOutliveTheProcess(t *testing.T) {
	db, id := interrupted(t, two)
	r := newRig(t, build{db: db, actions: actions(newGate())})
	if err := r.stopLoops(); err != nil {
		t.Fatal(err)
	}
	for range 150 { // more than are taken at once
		if err := r.store.PutRequest(t.Context(), store.Request{Execution: id, Kind: conductor.RequestCancel}); err != nil {
			t.Fatal(err)
		}
	}
	r.TakeRequests(t.Context())
	if pending, err := r.store.RequestsPending(t.Context()); err != nil || !pending {
		t.Fatalf("pending %t, error %v", pending, err)
	}
	r.stop()
	again := newRig(t, build{db: db, actions: actions(newGate())})
	again.TakeRequests(t.Context())
	again.end(id, stepwell.ExecutionCancelled)
	if pending, err := again.store.RequestsPending(t.Context()); err != nil || pending {
		t.Errorf("pending %t, error %v", pending, err)
	}
}

// Another process may send a signal.
func TestRequestSignal(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe})
	id := r.begin(pipeline(t, awaiting("x")))
	<-w.of(id)
	body := []byte(`{"key":"key-x","id":"1","signal":{"outputs":{"v":1}}}`)
	if err := r.store.PutRequest(t.Context(), store.Request{Kind: conductor.RequestSignal, Body: body}); err != nil {
		t.Fatal(err)
	}
	r.TakeRequests(t.Context())
	r.end(id, stepwell.ExecutionCompleted)
	if out := r.output(id, "a"); out != `{"v":1}` {
		t.Errorf("output %s", out)
	}
}
