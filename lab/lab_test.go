package lab

import (
	"strings"
	"testing"
	"time"
)

// suite runs all tests of the suite and gives the report.
func suite(t testing.TB, o Options) *Report {
	t.Helper()
	l := newLab(t, o, map[string]string{"suite.yaml": suitePipeline})
	report := &Report{}
	for _, test := range parseTests(t, "suite.test.yaml", suiteTests) {
		res, err := l.Run(t.Context(), test)
		if err != nil {
			t.Error(test.Name, ": ", err)
			continue
		}
		if got, want := res.Outcome, suiteOutcomes[test.Name]; got != want {
			t.Errorf("%q ends with %s, want %s", test.Name, got, want)
		}
		report.Tests = append(report.Tests, res)
	}
	return report
}

// Whatever is disturbed, no rule is broken, every execution ends as the undisturbed one, and no step runs twice that may not.
func TestSuite(t *testing.T) {
	report := suite(t, Options{Budget: time.Hour, Orders: 10, Pairs: 20})
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Tests {
		if r.Worst() != "" {
			t.Errorf("%q: %s", r.Name, r.Worst())
		}
		if r.Left > 0 || r.Crashes < 50 || r.Lost < 10 || r.Refused < 20 || r.Repeated < 20 {
			t.Errorf("%q: %+v", r.Name, r)
		}
	}
	t.Log(text.String())
}
