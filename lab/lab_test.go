package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// suitePipelines are the pipelines of the suite, by file.
var suitePipelines = map[string]string{"suite.yaml": suitePipeline, "streams.yaml": streamPipeline}

// suiteOf are the tests of the suite.
func suiteOf(t testing.TB) []*scenario.Test {
	t.Helper()
	return append(parseTests(t, "suite.test.yaml", suiteTests), parseTests(t, "streams.test.yaml", streamTests)...)
}

// suite runs all tests of the suite and gives the report.
func suite(t testing.TB, o Options) *Report {
	t.Helper()
	l := newLab(t, o, suitePipelines)
	report := &Report{}
	for _, test := range suiteOf(t) {
		res, err := l.Run(t.Context(), test)
		if err != nil {
			t.Error(test.Name, ": ", err)
			continue
		}
		if got, want := res.Outcome, suiteOutcomes[test.Name]; got != want {
			t.Errorf("%q ends with %s, want %s", test.Name, got, want)
		}
		if res.Worst() != "" {
			t.Errorf("%q: %s", res.Name, res.Worst())
		}
		if res.Left > 0 {
			t.Errorf("%q: %d schedules were left out", res.Name, res.Left)
		}
		report.Tests = append(report.Tests, res)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	return report
}

// Whatever is disturbed, no rule is broken, every execution ends as the undisturbed one, and no step runs twice that may not.
func TestSuite(t *testing.T) {
	for _, r := range suite(t, Options{Budget: time.Hour, Orders: 10, Pairs: 20, Seconds: 20}).Tests {
		if r.Crashes < 20 || r.Seconds < 10 || r.Stops < 10 || r.Lost < 3 || r.Refused < 10 || r.Repeated < 5 || r.Clocks < 5 {
			t.Errorf("%q: %+v", r.Name, r)
		}
	}
}

// So it is with a database on disk.
func TestSuiteOnSQLite(t *testing.T) {
	suite(t, Options{Budget: time.Hour, Most: 40, Seconds: 5, Store: func(dir string) func(context.Context, func() time.Time) (store.Store, error) {
		return func(ctx context.Context, now func() time.Time) (store.Store, error) {
			return sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "store.db"), Exclusive: true, Synchronous: "normal", Now: now})
		}
	}})
}

// faulty has a step that stands one crash and not two, one that runs twice though nothing says that it may, one that must not, and one
// whose outputs tell how often it was called.
const faulty = `
name: faulty
steps:
  - {id: fragile, action: t.fragile, idempotent: true}
  - {id: deploy, action: util.exec, depends_on: [fragile], params: {command: [deploy]}}
  - {id: charge, action: util.exec, depends_on: [deploy], idempotent: false, params: {command: [charge]}}
  - {id: counts, action: util.exec, depends_on: [charge], idempotent: true, params: {command: [counts]}, retry: {max_attempts: 2}}
`

const faultyTests = `
pipeline: faulty.yaml
mock:
  counts: [{fail: busy}, {outputs: {exit_code: 0, stdout: "call {{ call.number }}"}}]
  action util.exec: {outputs: {exit_code: 0}, takes: 5m}
tests: [{name: faulty}]
`

// Only a crash during the recovery from another one shows a step that stands one crash.
func TestSecondCrash(t *testing.T) {
	res := labFaulty(t, Options{Budget: time.Hour, Orders: 1, Pairs: 1})
	for _, f := range res.Findings {
		if f.Kind == Different && strings.Contains(f.Message, "it stands one repetition") {
			if n := strings.Count(f.Replay, "dies@"); n != 2 {
				t.Errorf("%s has %d crashes", f.Replay, n)
			}
			return
		}
	}
	t.Errorf("it is not found: %+v", res.Findings)
}

// Every finding's schedule shows it again, each of 100 times, in labs of their own.
func TestReplays(t *testing.T) {
	res := labFaulty(t, Options{Budget: time.Hour, Orders: 20, Pairs: 50})
	if len(res.Findings) < 3 {
		t.Fatalf("%d findings", len(res.Findings))
	}
	for _, f := range res.Findings {
		said := map[string]int{}
		for range 100 {
			again := labFaulty(t, Options{Budget: time.Hour, Replay: f.Replay, Workers: 1})
			found := false
			for _, g := range again.Findings {
				found = found || g.Kind == f.Kind && g.Rule == f.Rule && g.Step == f.Step
			}
			if !found {
				t.Fatalf("%s shows %+v, not %s %s", f.Replay, again.Findings, f.Kind, f.Message)
			}
			said[fmt.Sprint(again.Story)]++
		}
		if len(said) != 1 {
			t.Errorf("%s tells %d stories", f.Replay, len(said))
		}
	}
}

func labFaulty(t *testing.T, o Options) *Result {
	t.Helper()
	l := newLab(t, o, map[string]string{"faulty.yaml": faulty})
	res, err := l.Run(t.Context(), parseTests(t, "faulty.test.yaml", faultyTests)[0])
	if err != nil {
		t.Fatal(err)
	}
	return res
}
