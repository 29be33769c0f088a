package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/pipeline"
)

// TestNewestPartition gives a schedule's execution the newest value that there is at the time that the schedule meant, where nobody gives one.
func TestNewestPartition(t *testing.T) {
	r := newRig(t, pipeline.Options{})
	p := r.create(`name: monthly
parameters: [{name: month, type: string}, {name: region, type: string, enum: [eu, us]}]
settings: {partition: {by: [month, region], values: {month: {every: month, from: 2026-08, until: now - 3d}}}}
steps: [{id: a, action: util.noop}]
`)
	launch := func(at string, params map[string]any) string {
		t.Helper()
		in := pipeline.Launch{Workflow: p.ID, Written: params}
		if at != "" {
			var err error
			if in.Nominal, err = time.Parse(time.RFC3339, at); err != nil {
				t.Fatal(err)
			}
		}
		x, err := r.Launch(t.Context(), in)
		if err != nil {
			return err.Error()
		}
		row, err := r.store.Execution(t.Context(), x.Execution)
		if err != nil {
			t.Fatal(err)
		}
		return string(row.Params)
	}
	for _, c := range []struct {
		at, month, want string
	}{
		{"2026-11-03T23:00:00Z", "", `"month":"2026-09"`},
		{"2026-11-04T00:00:00Z", "", `"month":"2026-10"`},
		{"2026-11-04T00:00:00Z", "2020-01", `"month":"2020-01"`},
		{"2026-08-01T00:00:00Z", "", "month is missing"}, // none is over yet
		{"", "", "month is missing"},                     // nobody's schedule
	} {
		params := map[string]any{"region": "eu"}
		if c.month != "" {
			params["month"] = c.month
		}
		if got := launch(c.at, params); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
