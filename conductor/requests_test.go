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
