package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// waiting begins a request that waits, and returns when the server has it; it may have one at a time, which may be
// the one that looks: so the request is repeated until it is taken.
func (r *rig) waiting(path string) <-chan *got {
	r.t.Helper()
	answer := make(chan *got, 1)
	go func() {
		for range 10_000 {
			if got := r.do("viewer", "GET", path+"?wait_seconds=60", nil); got.status != http.StatusServiceUnavailable {
				answer <- got
				return
			}
		}
	}()
	r.until("it waits", func() bool {
		return r.do("viewer", "GET", path+"?wait_seconds=0", nil).status == http.StatusServiceUnavailable
	})
	return answer
}

// TestWaitForTheEnd: a request waits for the end of an execution, beyond the time that others have, and takes no room
// from them.
func TestWaitForTheEnd(t *testing.T) {
	stopping := make(chan struct{})
	r := newRig(t, func(o *api.Options) {
		o.MaxRequests, o.MaxWaiting, o.Timeout, o.Stopping = 1, 1, 2*time.Second, stopping
	})
	id := r.begin(asking, nil)
	path := "/api/v1/executions/" + id
	for query, ok := range map[string]bool{"?wait_seconds=61": false, "?wait_seconds=-1": false, "?wait_seconds=x": false, "?wait_seconds=0": true} {
		if got := r.do("viewer", "GET", path+query, nil); (got.status == 200) != ok {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	begun := time.Now()
	if x := r.do("viewer", "GET", path+"?wait_seconds=3", nil).is(200).object(); x["status"] != "running" || time.Since(begun) < 3*time.Second {
		t.Errorf("after %s: %v", time.Since(begun), x["status"])
	}
	answer := r.waiting(path)
	r.do("viewer", "GET", path, nil).is(200)
	r.do("operator", "POST", path+"/cancel", nil).is(200)
	if x := (<-answer).is(200).object(); x["status"] != "cancelled" || x["completed_at"] == nil {
		t.Errorf("at the end: %v", x)
	}
	if x := r.do("viewer", "GET", path+"?wait_seconds=60", nil).is(200).object(); x["status"] != "cancelled" {
		t.Errorf("behind the end: %v", x)
	}
	r.do("viewer", "GET", "/api/v1/executions/01234567-0000-7000-8000-000000000000?wait_seconds=60", nil).problem(404, stepwell.CodeNotFound)

	second := "/api/v1/executions/" + r.begin(asking, nil)
	answer = r.waiting(second)
	close(stopping)
	if x := (<-answer).is(200).object(); x["status"] != "running" {
		t.Errorf("when the server stops: %v", x)
	}
	r.do("operator", "POST", second+"/cancel", nil).is(200)
}

func TestClientWaits(t *testing.T) {
	r := newRig(t)
	id := r.begin(asking, nil)
	ended := make(chan *api.ExecutionDetail, 1)
	go func() {
		x, err := r.client("viewer").Wait(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		ended <- x
	}()
	_, err := r.client("operator").Cancel(t.Context(), id, "enough")
	good(t, err)
	if x := <-ended; x == nil || x.Status != "cancelled" {
		t.Errorf("ended: %+v", x)
	}
	_, err = r.client("viewer").Wait(t.Context(), "01234567-0000-7000-8000-000000000000")
	want(t, err, stepwell.CodeNotFound)
}
