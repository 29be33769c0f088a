//go:build unix

package main

import (
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// TestFleetQueuedRuns: a run that waits for its turn in a window can be paused, restarted and started through another server than the one
// that runs it. The pause outlives that server, whose runs another one takes over, and holds nobody's slot.
func TestFleetQueuedRuns(t *testing.T) {
	t.Parallel()
	f := newServers(t, postgrestest.URL(t), 2, "16", "")
	service := newLessonService(t)
	rigs := []*runsRig{{t, f.nodes[0].client, service}, {t, f.nodes[1].client, service}}
	rigs[0].prepare(modelDocument, 4)
	service.fail("outline", 2)
	_, err := rigs[0].client.StartRuns(t.Context(), api.StartPipelineRun{Project: "course", Pipeline: "lessons", Params: api.Object{"service": service.URL}, Window: 1}, "all")
	must(t, err)
	<-service.began
	queue, err := rigs[0].client.RunQueue(t.Context(), 10, "")
	must(t, err)
	if len(queue.Data) != 4 {
		t.Fatalf("%d runs in the queue", len(queue.Data))
	}
	var first string // has begun
	var waiting []string
	for i := range queue.Data {
		if x := &queue.Data[i]; x.State.Held == "" {
			first = x.ID
		} else {
			waiting = append(waiting, x.ID)
		}
	}
	if first == "" || len(waiting) != 3 {
		t.Fatalf("%d runs wait, and %q has begun", len(waiting), first)
	}
	paused, again, last := waiting[0], waiting[1], waiting[2]
	other := rigs[1]
	for _, id := range []string{paused, again} {
		x, err := other.client.PauseRun(t.Context(), id)
		must(t, err)
		if x.Status != "paused" || x.State.Held == "" {
			t.Errorf("paused: %s %+v", x.Status, x.State)
		}
	}
	x, err := other.client.RestartRun(t.Context(), again, again+":2")
	must(t, err)
	if x.Status != "queued" || x.State.Held != "nothing of it has run: it waits for its turn" {
		t.Errorf("restarted: %s %+v", x.Status, x.State)
	}
	f.nodes[0].kill()
	<-service.began // of the first run, on the other server
	other.shows(paused, "paused: pending pending")
	_, err = other.client.RestartRun(t.Context(), first, first+":1")
	must(t, err)
	for _, id := range []string{first, again, last} {
		other.shows(id, "done: done done")
	}
	other.shows(paused, "paused: pending pending")
	f.nodes[1].until("all slots to be free", func() bool { return f.count(`SELECT count(*) FROM seat WHERE sitting`) == 0 })
	x, err = other.client.ResumeRun(t.Context(), paused)
	must(t, err)
	if x.Status == "paused" {
		t.Errorf("started: %s %+v", x.Status, x.State)
	}
	other.shows(paused, "done: done done")
	if got := service.requests(paused); got["outline"] != 1 || got["summary"] != 1 {
		t.Errorf("requests %v", got)
	}
}
