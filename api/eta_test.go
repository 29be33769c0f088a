package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
)

// eta is the estimate in a detail, which always has the field.
func (r *rig) eta(id string) any {
	r.t.Helper()
	body := r.do("viewer", "GET", "/api/v1/executions/"+id, nil).is(200).object()
	got, there := body["progress"].(map[string]any)["eta_seconds"]
	if !there {
		r.t.Fatal("eta_seconds is missing")
	}
	return got
}

// TestETA runs a pipeline twice: how long it takes is known the second time, and only while it runs.
func TestETA(t *testing.T) {
	r := newRig(t)
	first := r.begin(asking, nil)
	ask := func() (id string) {
		r.until("it asks", func() bool {
			var list api.ApprovalList
			r.do("viewer", "GET", "/api/v1/approvals", nil).is(200).into(&list)
			if len(list.Approvals) == 0 {
				return false
			}
			id = list.Approvals[0].ID
			return true
		})
		return id
	}
	approval := ask()
	if got := r.eta(first); got != nil {
		t.Errorf("the first execution: %v", got)
	}
	r.do("operator", "POST", "/api/v1/approvals/"+approval+"/approve", map[string]any{}).is(200)
	if _, err := r.app.Conductor.Wait(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if got := r.eta(first); got != nil {
		t.Errorf("an execution that has ended: %v", got)
	}
	second := r.begin(asking, nil)
	ask()
	r.until("it is known", func() bool { return r.eta(second) != nil })
	var list api.ExecutionList
	r.do("viewer", "GET", "/api/v1/executions", nil).is(200).into(&list)
	for _, x := range list.Executions {
		if known := x.Progress.ETA != nil; known != (x.ID == second) {
			t.Errorf("in the list: %s %s: %v", x.ID, x.Status, x.Progress.ETA)
		}
	}
	if got := r.snapshotETA(second); got == nil {
		t.Error("the stream's snapshot has none")
	}
	r.do("operator", "POST", "/api/v1/executions/"+second+"/pause", nil).is(200)
	r.until("a paused one has none", func() bool { return r.eta(second) == nil })
}

// snapshotETA is that of the first message of an execution's stream.
func (r *rig) snapshotETA(id string) *float64 {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", r.server.URL+"/api/v1/executions/"+id+"/events", nil)
	good(r.t, err)
	req.Header.Set("Authorization", "Bearer viewer")
	resp, err := http.DefaultClient.Do(req)
	good(r.t, err)
	defer resp.Body.Close()
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
			var m struct {
				Data struct{ Progress api.Progress }
			}
			good(r.t, json.Unmarshal([]byte(data), &m))
			return m.Data.Progress.ETA
		}
	}
	r.t.Fatal("no message")
	return nil
}
