package builtin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

func TestWaitFor(t *testing.T) {
	got := run(t, "util.wait_for", actiontest.Call{Params: params{"event": "order-7", "timeout_seconds": 90.5, "default": params{"state": "unknown"}}})
	if w := got.Wait; w == nil || !w.Await || w.Resume || w.ExternalID != "event:order-7" || !w.Until.Equal(clock.Add(90500*time.Millisecond)) {
		t.Fatalf("wait = %+v (%v)", w, got.Err)
	}
	want(t, got, params{"state": "unknown"})
	got = run(t, "util.wait_for", actiontest.Call{Params: params{"event": "x"}})
	if w := got.Wait; w == nil || !w.Until.IsZero() || w.Outputs != nil {
		t.Errorf("without a limit: wait = %+v (%v)", w, got.Err)
	}
	for text, p := range map[string]params{"event is missing": {}, "event": {"event": ""}, "timeout_seconds": {"event": "x", "timeout_seconds": 0},
		"at most 31536000": {"event": "x", "timeout_seconds": 365*24*3600 + 1}, "default": {"event": "x", "default": "y"}} {
		wantFail(t, run(t, "util.wait_for", actiontest.Call{Params: p}), text)
	}
}

func TestApprovalAsks(t *testing.T) {
	call := actiontest.Call{Execution: "e1", StepKey: "group.release", Params: params{"message": "Publish?", "approvers": []any{"anna"}, "timeout_seconds": 60}}
	for name, test := range map[string]struct {
		set             params
		resume, require bool
	}{
		"plain":            {params{}, false, true},
		"default":          {params{"default": "reject"}, true, true},
		"continues anyway": {params{"reject": "continues", "default": "approve"}, true, false},
	} {
		c := call
		c.Params = params{}
		for _, from := range []params{call.Params, test.set} {
			for k, v := range from {
				c.Params[k] = v
			}
		}
		got := run(t, "util.approval", c)
		w := got.Wait
		if w == nil || !w.Await || w.ExternalID != "approval:e1/group.release" || !w.Until.Equal(clock.Add(time.Minute)) || w.Resume != test.resume || (w.Require == "approved") != test.require {
			t.Errorf("%s: wait = %+v (%v)", name, w, got.Err)
			continue
		}
		var q map[string]any
		if err := json.Unmarshal(w.State, &q); err != nil {
			t.Fatal(err)
		}
		if q["message"] != "Publish?" || !cmp.Equal(q["approvers"], []any{"anna"}) || q["allow_comment"] != true || q["asked"] != "2026-03-01T12:00:00Z" {
			t.Errorf("%s: the question is %v", name, q)
		}
	}
	for text, p := range map[string]params{"message is missing": {}, "default": {"message": "x", "default": "maybe"}, "reject": {"message": "x", "reject": "shrugs"},
		"message": {"message": strings.Repeat("x", 10_001)}} {
		wantFail(t, run(t, "util.approval", actiontest.Call{Params: p}), text)
	}
}

// What happens when nobody has decided in time.
func TestApprovalDefaults(t *testing.T) {
	ask := func(set params) actiontest.Result {
		p := params{"message": "x", "timeout_seconds": 1}
		for k, v := range set {
			p[k] = v
		}
		asked := run(t, "util.approval", actiontest.Call{Params: p})
		if asked.Wait == nil || !asked.Wait.Resume {
			t.Fatalf("%v does not ask again: %+v (%v)", set, asked.Wait, asked.Err)
		}
		return run(t, "util.approval", actiontest.Call{Params: p, State: asked.Wait.State})
	}
	outputs := func(approved bool) params {
		return params{"approved": approved, "by": "", "comment": "", "decided_at": "2026-03-01T12:00:00.000Z", "automatic": true}
	}
	want(t, ask(params{"default": "approve"}), outputs(true))
	want(t, ask(params{"default": "reject", "reject": "continues"}), outputs(false))
	got := ask(params{"default": "reject"})
	wantFail(t, got, "no decision came in time")
	if stepwell.CodeOf(got.Err) != stepwell.CodeFailed || !action.IsFail(got.Err) {
		t.Errorf("code %s, for good %v", stepwell.CodeOf(got.Err), action.IsFail(got.Err))
	}
}
