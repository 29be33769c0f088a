package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// end puts an execution that has ended into the store, with sums.
func (r *rig) end(t *testing.T, x store.Execution, usage ...store.Used) {
	t.Helper()
	no, err := r.app.Store.Numbers(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	x.No, x.Definition, x.Trigger = no, make([]byte, 32), "manual"
	x.ID = fmt.Sprintf("00000000-0000-7000-8000-%012d", no)
	if err := r.app.Store.Commit(t.Context(), []store.Commit{{Execution: no, Version: 1, Log: []byte("{}"), Create: &x, Usage: usage}}); err != nil {
		t.Fatal(err)
	}
}

// TestCosts: sums by what is asked for; what was counted before there were such sums is told apart.
func TestCosts(t *testing.T) {
	r := newRig(t)
	ask := func(query string) (c api.Costs) {
		t.Helper()
		r.do("viewer", "GET", "/api/v1/stats/costs"+query, nil).is(200).into(&c)
		return c
	}
	if c := ask("?by=step"); c.Since != nil || c.Total.Cost != 0 || len(c.Rows) != 0 || !c.Complete {
		t.Errorf("%+v", c)
	}
	day := time.Now().UTC().Truncate(24 * time.Hour)
	ended := func(at time.Time, pipeline, project string, charges ...engine.Charge) {
		x := store.Execution{Pipeline: pipeline, Status: stepwell.ExecutionCompleted, Created: at, Started: at, Ended: at}
		x.Workflow, x.Project = "id-of-"+pipeline, project
		for _, c := range charges {
			x.Progress.Cost += c.Cost
		}
		r.end(t, x, x.Charged([]store.Used{x.Ends(x.Progress.Cost, 1)}, charges, 1)...)
	}
	old := store.Execution{Pipeline: "a", Status: stepwell.ExecutionCompleted, Created: day, Started: day, Ended: day.Add(-5 * 24 * time.Hour)}
	old.Workflow, old.Progress.Cost = "id-of-a", 7_000_000
	r.end(t, old, old.Ends(old.Progress.Cost, 1)) // as an earlier release
	if c := ask(""); c.Since != nil || c.Earlier != 7_000_000 {
		t.Errorf("%+v", c)
	}
	ended(day.Add(-3*24*time.Hour), "a", "p", engine.Charge{Step: "x", Attempts: 3, Cost: 30, Repeated: 1, RepeatedCost: 10}, engine.Charge{Step: "y", Attempts: 1, Cost: 100})
	ended(day.Add(-2*24*time.Hour), "a", "", engine.Charge{Step: "x", Attempts: 1, Cost: 10})
	ended(day, "b", "p", engine.Charge{Step: "x", Attempts: 1, Cost: 1000})
	rows := func(query string) string {
		t.Helper()
		var out string
		for _, row := range ask(query).Rows {
			if row.Day != nil {
				out += fmt.Sprint(day.Sub(row.Day.Time).Hours()/24, "d ")
			}
			for _, text := range []*string{row.Workflow, row.Project, row.Step} {
				if text != nil {
					out += fmt.Sprintf("%q ", *text)
				}
			}
			out += fmt.Sprintf("%d/%d again %d/%d; ", row.Cost, row.Attempts, row.Again, row.Repeated)
		}
		return out
	}
	for query, want := range map[string]string{
		"?by=pipeline":                          `"id-of-b" 1000/1 again 0/0; "id-of-a" 140/5 again 10/1; `,
		"?by=step":                              `"x" 1040/5 again 10/1; "y" 100/1 again 0/0; `,
		"?by=project":                           `"p" 1130/5 again 10/1; "" 10/1 again 0/0; `,
		"?by=day":                               `3d 130/4 again 10/1; 2d 10/1 again 0/0; 0d 1000/1 again 0/0; `,
		"?by=pipeline,step&pipeline_id=id-of-a": `"id-of-a" "y" 100/1 again 0/0; "id-of-a" "x" 40/4 again 10/1; `,
		"?by=step&project=p&limit=1":            `"x" 1030/4 again 10/1; `,
		"?by=step&from=" + day.Format("2006-01-02T15:04:05Z"): `"x" 1000/1 again 0/0; `,
	} {
		if got := rows(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	c := ask("?by=step&limit=1")
	if c.Rest != 1 || c.Total.Cost != 1140 || c.Earlier != 7_000_000 || c.Since == nil || !c.Since.Equal(day.Add(-3*24*time.Hour)) {
		t.Errorf("%+v", c)
	}
	if c := ask("?pipeline_id=id-of-b"); c.Earlier != 0 || c.Total.Cost != 1000 {
		t.Errorf("%+v", c)
	}
	if c := ask("?from=" + day.Format("2006-01-02T15:04:05Z")); c.Earlier != 0 {
		t.Errorf("%+v", c)
	}
	r.do("viewer", "GET", "/api/v1/stats/costs?by=moon", nil).problem(400, stepwell.CodeInvalid)
	r.do("viewer", "GET", "/api/v1/stats/costs?from=2020-01-01T00:00:00Z", nil).problem(400, stepwell.CodeInvalid)
}

// TestCostsAreCut: a request that cannot read all sums says so, also of those that were counted before there were steps.
func TestCostsAreCut(t *testing.T) {
	r := newRig(t)
	was := api.SetMostCounts(2)
	t.Cleanup(func() { api.SetMostCounts(was) })
	day := time.Now().UTC().Truncate(24 * time.Hour)
	ask := func() (c api.Costs) {
		t.Helper()
		r.do("viewer", "GET", "/api/v1/stats/costs?by=step", nil).is(200).into(&c)
		return c
	}
	for n := range 3 {
		at := day.Add(time.Duration(n-6) * 24 * time.Hour)
		x := store.Execution{Pipeline: "a", Status: stepwell.ExecutionCompleted, Created: at, Started: at, Ended: at}
		x.Workflow, x.Progress.Cost = "id-of-a", 5
		r.end(t, x, x.Ends(x.Progress.Cost, 1)) // as an earlier release
		if c := ask(); c.Complete != (n < 2) || int(c.Earlier) != 5*min(n+1, 2) {
			t.Errorf("%d days of before: %+v", n+1, c)
		}
	}
	x := store.Execution{Pipeline: "a", Status: stepwell.ExecutionCompleted, Created: day, Started: day, Ended: day}
	x.Workflow = "id-of-a"
	r.end(t, x, x.Charged([]store.Used{x.Ends(x.Progress.Cost, 1)}, []engine.Charge{{Step: "x", Attempts: 1, Cost: 30}}, 1)...)
	if c := ask(); c.Complete || c.Total.Cost != 30 || c.Earlier != 10 {
		t.Errorf("%+v", c)
	}
}

// TestPromiseRows: the rows of /stats/sla have the members that clients know.
func TestPromiseRows(t *testing.T) {
	n := 1.5
	p := api.Promise{Workflow: "id", Pipeline: "name", Expected: &n, Maximum: &n}
	for _, c := range []struct {
		row  any
		want string
	}{
		{api.PromisedRow{Promise: p}, `{"breached":0,"breached_maximum":0,"ended":0,"expected_seconds":1.5,"max_seconds":1.5,"mean_seconds":0,"pipeline":"name","pipeline_id":"id"}`},
		{api.BreachedRow{Promise: p}, `{"ended_at":null,"execution_id":"","expected_seconds":1.5,"max_seconds":1.5,"pipeline":"name","pipeline_id":"id","status":"","took_seconds":0}`},
		{api.ForecastRow{Promise: p}, `{"elapsed_seconds":0,"eta_seconds":null,"execution_id":"","expected_seconds":1.5,"forecast":"","max_seconds":1.5,"pipeline":"name","pipeline_id":"id","started_at":null}`},
		{api.PromisedRow{}, `{"breached":0,"breached_maximum":0,"ended":0,"mean_seconds":0,"pipeline":"","pipeline_id":""}`},
	} {
		raw, err := json.Marshal(c.row)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		if sorted, err := json.Marshal(members); err != nil || string(sorted) != c.want {
			t.Errorf("%T: %s, %v, want %s", c.row, sorted, err, c.want)
		}
	}
}

const promising = `
name: promising
settings: {sla: {expected_seconds: 0.2}}
steps:
  - {id: a, action: util.log, params: {message: x}}
  - {id: nap, action: util.wait, params: {seconds: %v}, depends_on: [a]}
`

// TestPromises: who broke an SLA, and who will.
func TestPromises(t *testing.T) {
	r := newRig(t)
	ask := func(query string) (p api.Promises) {
		t.Helper()
		r.do("viewer", "GET", "/api/v1/stats/sla"+query, nil).is(200).into(&p)
		return p
	}
	if p := ask(""); !p.Complete || len(p.Pipelines)+len(p.Breaches)+len(p.Running) != 0 {
		t.Errorf("%+v", p)
	}
	kept := r.execute(t, "editor", map[string]any{"workflow_definition": fmt.Sprintf(promising, 0.001)})
	broken := r.execute(t, "editor", map[string]any{"workflow_definition": fmt.Sprintf(promising, 0.4)})
	if kept.Breached != "" || broken.Breached != "expected" {
		t.Fatalf("%q %q", kept.Breached, broken.Breached)
	}
	p := ask("")
	if len(p.Pipelines) != 1 || p.Pipelines[0].Ended != 2 || p.Pipelines[0].Breached != 1 || p.Pipelines[0].Beyond != 0 || *p.Pipelines[0].Expected != 0.2 || p.Pipelines[0].Maximum != nil || p.Pipelines[0].Mean < 0.2 {
		t.Errorf("%+v", p.Pipelines)
	}
	if len(p.Breaches) != 1 || p.Breaches[0].Execution != broken.ID || p.Breaches[0].Took < 0.4 || p.Breaches[0].Status != "completed" {
		t.Errorf("%+v", p.Breaches)
	}
	id := r.begin(fmt.Sprintf(promising, 3600), nil)
	r.until("a breach", func() bool {
		p := ask("")
		return len(p.Running) == 1 && p.Running[0].Execution == id && p.Running[0].Forecast == "breached" && p.Running[0].Elapsed > 0.2
	})
	late := r.begin("name: promising\nsettings: {sla: {expected_seconds: 2000, max_seconds: 4000}}\nsteps: [{id: b, action: util.wait, params: {seconds: 3600}}]\n", nil)
	p = ask("")
	if len(p.Running) != 2 || p.Running[1].Execution != late || p.Running[1].Forecast != "in_time" || p.Running[1].ETA == nil || *p.Running[1].Maximum != 4000 {
		t.Errorf("%+v", p.Running)
	}
	if p := ask("?pipeline_id=none"); len(p.Pipelines)+len(p.Breaches)+len(p.Running) != 0 {
		t.Errorf("%+v", p)
	}
	var last int64
	for i := range 300 {
		x := store.Execution{Pipeline: "many", Status: stepwell.ExecutionFailed, Ended: time.Now().Add(-time.Duration(i) * 7 * time.Minute), Created: time.Now()}
		x.Progress.Breached = engine.BreachedMaximum
		r.end(t, x, x.Promised(nil, 1e6, 2e6, 3e6, 1)...)
	}
	p = ask("")
	if len(p.Breaches) != 200 || p.Complete {
		t.Errorf("%d breaches, complete %v", len(p.Breaches), p.Complete)
	}
	for i, b := range p.Breaches {
		if now := b.Ended.UnixMicro(); i > 0 && now > last {
			t.Fatalf("%d is newer than the one before", i)
		}
		last = b.Ended.UnixMicro()
	}
}
