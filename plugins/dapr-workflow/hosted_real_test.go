package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/service/daprtest"
)

// newHostedHouse is a sidecar with a store of actors, without a server.
func newHostedHouse(t testing.TB, durable bool) *house {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Dapr")
	}
	n := daprtest.NewNetwork(t)
	if durable {
		n.AddActorStore()
	} else {
		n.AddComponent("actors", "state.in-memory", map[string]string{"actorStateStore": "true"})
	}
	return &house{t: t, stepwell: n.StartWith("stepwell", 0, n.NewServices())}
}

// hostRuns hosts executions in this process.
func (h *house) hostRuns() *hosting {
	x, _ := newTestHosting(h.t, "")
	h.host(h.stepwell, x.beside(turn), x.besideActivities(nil))
	return x
}

func (h *house) run(id, definition string) {
	h.t.Helper()
	h.begin(h.stepwell, RunWorkflow, id, map[string]any{"definition": definition})
}

// TestHostedThroughSidecar: executions run to their ends inside Dapr Workflow, and are seen, paused, resumed, ended by events and cancelled by
// Dapr's own API.
func TestHostedThroughSidecar(t *testing.T) {
	h := newHostedHouse(t, true)
	h.hostRuns()
	for id, x := range map[string][2]string{
		"chain":   {chain(120), `{"n":119}`},
		"fan":     {fanOut(230), `{"count":230}`},
		"retries": {"name: r\nsteps:\n  - {id: a, action: util.test_count, params: {as: a, fails: 2}, retry: {max_attempts: 3, backoff_seconds: 1}}\noutputs: {calls: \"{{ steps.a.outputs.calls }}\"}\n", `{"calls":3}`},
		"waits":   {"name: w\nsteps:\n  - {id: a, action: util.wait, params: {duration: 2s}}\noutputs: {x: 1}\n", `{"x":1}`},
	} {
		h.run(id, x[0])
		if got := h.end(h.stepwell, id, "COMPLETED"); got != x[1] {
			t.Errorf("%s: %s", id, got)
		}
	}
	h.run("fails", "name: f\nsteps:\n  - {id: a, action: util.fail, params: {message: out of luck}}\n")
	if got := h.end(h.stepwell, "fails", "FAILED"); !strings.Contains(got, "out of luck") {
		t.Error(got)
	}
	h.run("refused", "name: f\nsteps:\n  - {id: a, action: util.log, params: {message: \"{{ secrets.x }}\"}}\n")
	if got := h.end(h.stepwell, "refused", "FAILED"); !strings.Contains(got, "3:") || !strings.Contains(got, "reads secrets") {
		t.Error(got)
	}

	waits := "name: w\nsteps:\n  - {id: a, action: util.wait_for, params: {event: go}}\noutputs: {by: \"{{ steps.a.outputs.by }}\"}\n"
	says := func(id, text string) {
		t.Helper()
		h.until(id+" says "+text, func() bool {
			_, is := h.dapr(h.stepwell, http.MethodGet, id, nil)
			return strings.Contains(fmt.Sprint(is["properties"]), text)
		})
	}
	h.run("signalled", waits)
	says("signalled", `"awaits":["event:go"]`)
	h.dapr(h.stepwell, http.MethodPost, "signalled/pause", nil)
	says("signalled", `"status":"paused"`)
	h.dapr(h.stepwell, http.MethodPost, "signalled/resume", nil)
	says("signalled", `"status":"running"`)
	if status, said := h.dapr(h.stepwell, http.MethodPost, "signalled/raiseEvent/event:go", map[string]any{"outputs": map[string]any{"by": "anna"}}); status != http.StatusAccepted {
		t.Fatal(status, said)
	}
	if got := h.end(h.stepwell, "signalled", "COMPLETED"); got != `{"by":"anna"}` {
		t.Error(got)
	}
	h.run("stopped", waits)
	says("stopped", `"awaits":["event:go"]`)
	h.dapr(h.stepwell, http.MethodPost, "stopped/terminate", nil)
	h.end(h.stepwell, "stopped", "TERMINATED")
}

// lines are those of a file, each with how often it is there.
func lines(t testing.TB, file string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		n[strings.TrimSpace(line)]++
	}
	return n
}

// TestHostedCrashes: the program, the sidecar, and both at once are killed while executions run on a durable store. No step is lost;
// those in flight, or whose end the sidecar had not stored, run again. The sidecar is supervised: one that gives no work after the program was
// killed is asked to end by the next program.
func TestHostedCrashes(t *testing.T) {
	h := newHostedHouse(t, true)
	h.stepwell.Supervise()
	kill := h.startProgram("-run", "-exec", "-workers=8")
	file := filepath.Join(t.TempDir(), "ran")
	step := func(name string) string {
		return fmt.Sprintf("util.exec, params: {command: [sh, -c, \"sleep 0.05; echo %s >> %s\"]}", name, file)
	}
	const n = 60
	var b strings.Builder
	b.WriteString("name: chain\nsteps:\n")
	for i := range n {
		deps := ""
		if i > 0 {
			deps = fmt.Sprintf(", depends_on: [s%d]", i-1)
		}
		fmt.Fprintf(&b, "  - {id: s%d%s, action: %s}\n", i, deps, step(fmt.Sprint("c", i)))
	}
	h.run("chain", b.String())
	h.run("fan", fmt.Sprintf("name: fan\nsteps:\n  - {id: each, for_each: {items: 150}, action: %s}\n", step("f{{ item }}")))
	for i, at := range []int{20, 60, 100, 140} {
		h.ran(file, at)
		switch i {
		case 0, 2:
			kill()
		case 1:
			h.stepwell.Kill()
			continue
		case 3:
			kill()
			h.stepwell.Kill()
		}
		kill = h.startProgram("-run", "-exec", "-workers=8")
	}
	h.ran(file, n+150)
	h.end(h.stepwell, "chain", "COMPLETED")
	h.end(h.stepwell, "fan", "COMPLETED")
	ran, twice := lines(t, file), 0
	for _, times := range ran {
		twice += times - 1
	}
	if len(ran) != n+150 {
		t.Errorf("%d of %d steps have run", len(ran), n+150)
	}
	if twice > 3*50 { // the program is killed three times; see docs/dapr.md
		t.Errorf("%d of %d steps ran again", twice, len(ran))
	}
	t.Logf("%d steps, %d of them ran again", len(ran), twice)
}

// ran waits until so many steps have run.
func (h *house) ran(file string, steps int) {
	h.t.Helper()
	h.until(fmt.Sprint(steps, " steps have run"), func() bool { return len(lines(h.t, file)) >= steps })
}

// BenchmarkHosted measures a chain of 100 and a fan-out of 1,000 against an in-memory store (docs/performance.md).
func BenchmarkHosted(b *testing.B) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	h := newHostedHouse(b, false)
	h.hostRuns()
	h.run("warm", chain(3))
	h.end(h.stepwell, "warm", "COMPLETED")
	for name, text := range map[string]string{"chain-100": chain(100), "chain-300": chain(300), "fan-1000": fanOut(1000), "fan-100": fanOut(100)} {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				id := fmt.Sprintf("%s-%d-%d", name, b.N, i)
				began := time.Now()
				h.run(id, text)
				h.end(h.stepwell, id, "COMPLETED")
				b.Logf("%s", time.Since(began))
			}
		})
	}
}
