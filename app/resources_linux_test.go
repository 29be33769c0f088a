package app_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/app"
)

// Attempts report the resources of their programs and requests: the history has those of each attempt, the step their sum.
// Unknown resources are left out.
func TestResourcesOfAttempts(t *testing.T) {
	const doc = `
name: resources
parameters: [{name: url, type: string}]
steps:
  - id: program
    action: util.exec
    retry: {max_attempts: 2, backoff_seconds: 0, jitter: 0}
    params: {command: "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null; [ $STEPWELL_ATTEMPT = 2 ]"}
  - {id: request, action: util.http, params: {url: "{{ params.url }}", method: POST, text: "{{ 'x' * 1000 }}"}}
  - {id: nothing, action: util.log, params: {message: "no program, no request"}}
`
	services := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(bytes.Repeat([]byte("y"), 3000))
	}))
	defer services.Close()
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{HTTP: outbound.Options{AllowPrivate: true}})
	id, _ := begin(t, a, doc, object{"url": services.URL})
	x, steps := ended(t, a, id)
	if x.Status != stepwell.ExecutionCompleted || steps["program"].Attempt != 2 {
		t.Fatalf("the execution is %s after %d attempts: %+v", x.Status, steps["program"].Attempt, steps["program"].Error)
	}
	program, request := steps["program"].Resources, steps["request"].Resources
	if program == nil || program.CPUSeconds <= 0 || program.BytesIn+program.BytesOut != 0 {
		t.Fatalf("the program has used %+v", program)
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		t.Fatal(err)
	}
	// It is known unless this process itself has had more by now.
	if own.Maxrss*1024 < 250_000_000 && program.MaxRSS < 250_000_000 || program.MaxRSS != 0 && program.MaxRSS < 250_000_000 {
		t.Errorf("the program has used %+v, this process %d KiB", program, own.Maxrss)
	}
	diff(t, "the request has used", &stepwell.Resources{BytesIn: 3000, BytesOut: 1000}, request)
	if other := steps["nothing"].Resources; other != nil {
		t.Errorf("a log line has used %+v", other)
	}
	events, err := a.Store.Events(t.Context(), x.No, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var attempts []*stepwell.Resources
	for _, e := range events {
		if e.StepKey == "program" && (e.Type == "failed" || e.Type == "completed") {
			attempts = append(attempts, e.Used)
		} else if e.Used != nil && e.StepKey != "request" {
			t.Errorf("%s %s has used %+v", e.StepKey, e.Type, e.Used)
		}
	}
	if len(attempts) != 2 || attempts[0] == nil || attempts[1] == nil {
		t.Fatalf("the attempts have used %v", attempts)
	}
	if sum := attempts[0].CPUSeconds + attempts[1].CPUSeconds; sum != program.CPUSeconds || max(attempts[0].MaxRSS, attempts[1].MaxRSS) != program.MaxRSS {
		t.Errorf("the attempts have used %+v and %+v, the step %+v", attempts[0], attempts[1], program)
	}
	if total := x.Progress.Resources; total == nil || total.CPUSeconds != program.CPUSeconds || total.BytesIn != 3000 {
		t.Errorf("the execution has used %+v", total)
	}
}
