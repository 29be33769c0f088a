//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// TestFleetReuse: on PostgreSQL a server starts a run of a newer version that takes over what a run of another server gave, which has
// used tokens once.
func TestFleetReuse(t *testing.T) {
	f := newServers(t, postgrestest.URL(t), 2, "16", "")
	service := newLessonService(t)
	one, other := &runsRig{t, f.nodes[0].client, service}, &runsRig{t, f.nodes[1].client, service}
	one.prepare(modelDocument, 1)
	first := one.shows(one.start("l0"), "done: done done")
	newer := strings.Replace(modelDocument, "id: summary, action", "id: summary, timeout_seconds: 100, action", 1)
	must(t, one.client.Call(t.Context(), "PUT", "/api/v1/pipelines/lessons", nil, object{"document": newer}, nil))

	request := api.StartPipelineRun{Lesson: "l0", Pipeline: "lessons", Number: 2, Params: api.Object{"service": service.URL}, Reuse: true}
	told, err := other.client.PreviewRuns(t.Context(), request, 0, "")
	must(t, err)
	if p := told.Data[0]; string(p.From) != first.ID || !p.Steps[0].Reused || p.Steps[1].Because != "its retry or timeout changed" {
		t.Errorf("told beforehand: %+v", p)
	}
	x, err := other.client.StartRun(t.Context(), request, "")
	must(t, err)
	x = other.shows(x.ID, "done: done done")
	for _, c := range []*client.Client{one.client, other.client} {
		if x, err = c.Run(t.Context(), x.ID); err != nil || string(x.Steps[0].Reused) != first.ID || x.Steps[1].Reused != "" || string(*x.Steps[0].Result) != string(*first.Steps[0].Result) {
			t.Errorf("the run: %+v, %v", x, err)
		}
	}
	if x.Steps[0].InputTokens != 0 || x.InputTokens != x.Steps[1].InputTokens {
		t.Errorf("tokens: %+v", x)
	}
	if got := fmt.Sprint(service.requests(first.ID), service.requests(x.ID)); got != "map[outline:1 summary:1] map[summary:1]" {
		t.Errorf("requests: %s", got)
	}
}
