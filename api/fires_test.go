package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

func (r *rig) job(t *testing.T, id string, schedule map[string]any, more ...any) {
	t.Helper()
	body := map[string]any{"job_id": id, "schedule": schedule, "callback": map[string]any{"action_type": "util.noop"}}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	r.do("editor", "POST", "/api/v1/scheduler/jobs", body).is(201)
}

func TestFiresOfAllJobs(t *testing.T) {
	r := newRig(t)
	r.job(t, "daily", map[string]any{"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"})
	r.job(t, "few", map[string]any{"type": "cron", "expression": "0 * * * *"}, "max_runs", 3)
	r.job(t, "off", map[string]any{"type": "cron", "expression": "0 * * * *"})
	r.do("operator", "POST", "/api/v1/scheduler/jobs/off/pause", nil).is(200)
	// a year that begins tomorrow has both changes of clocks
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	at := func(from, to time.Time) *api.Fires {
		t.Helper()
		var f api.Fires
		r.do("viewer", "GET", "/api/v1/scheduler/fires?from="+from.Format(time.RFC3339)+"&to="+to.Format(time.RFC3339), nil).is(200).into(&f)
		return &f
	}
	f := at(from, from.AddDate(0, 0, 365))
	zone, err := time.LoadLocation("Europe/Berlin")
	good(t, err)
	count := map[string]int{}
	for i, x := range f.Fires {
		count[x.Job]++
		if i > 0 && x.At.Before(f.Fires[i-1].At.Time) {
			t.Errorf("%v comes after %v", x, f.Fires[i-1])
		}
		if local := x.At.In(zone); x.Job == "daily" && (local.Minute() != 30 || local.Hour() != 2) && (local.Hour() != 3 || local.Minute() != 0) {
			t.Errorf("daily at %v", local)
		}
	}
	if count["daily"] != 365 || count["few"] != 3 || count["off"] != 0 || f.Total != 368 || len(f.Hours) != 0 || f.Fires[0].Action != "util.noop" {
		t.Errorf("the times are %v of %d", count, f.Total)
	}
	if len(f.Changes) != 2 || f.Changes[0].Zone != "Europe/Berlin" || f.Changes[0].After-f.Changes[0].Before != -(f.Changes[1].After-f.Changes[1].Before) {
		t.Errorf("changes of clocks: %+v", f.Changes)
	}
	r.job(t, "often", map[string]any{"type": "interval", "expression": "@every 10s"})
	f = at(from, from.AddDate(0, 0, 2))
	if len(f.Fires) != 0 || len(f.Hours) != 48 || f.Total != 2*8640+2+3 && f.Total != 2*8640+2 {
		t.Errorf("many times: %d in %d hours of %d", len(f.Fires), len(f.Hours), f.Total)
	}
	if n := f.Hours[5].Fires; n < 360 || n > 362 {
		t.Errorf("an hour has %d", n)
	}
	r.do("viewer", "GET", "/api/v1/scheduler/fires?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", nil).problem(400, stepwell.CodeInvalid)
	r.do("viewer", "GET", "/api/v1/scheduler/fires?from=2026-02-01T00:00:00Z&to=2028-01-01T00:00:00Z", nil).problem(400, stepwell.CodeInvalid)
}

func TestPreviewOfATiming(t *testing.T) {
	r := newRig(t)
	preview := func(schedule map[string]any) *api.TimingPreview {
		t.Helper()
		var p api.TimingPreview
		r.do("viewer", "POST", "/api/v1/scheduler/preview", map[string]any{"schedule": schedule}).is(200).into(&p)
		return &p
	}
	p := preview(map[string]any{"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"})
	if !p.Valid || p.Words != "at 02:30 every day, Europe/Berlin" || len(p.Next) != 10 || len(p.Problems) != 1 || !p.Problems[0].Warning {
		t.Errorf("the preview is %+v", p)
	}
	if p = preview(map[string]any{"type": "cron", "expression": "61 * * * *"}); p.Valid || len(p.Next) != 0 || len(p.Problems) != 1 || p.Problems[0].Warning {
		t.Errorf("a wrong expression: %+v", p)
	}
	if p = preview(map[string]any{"type": "cron", "expression": "0 0 30 2 *"}); !p.Valid || len(p.Next) != 0 || len(p.Problems) != 1 {
		t.Errorf("it never fires: %+v", p)
	}
	if got := fmt.Sprint(preview(map[string]any{"type": "manual"})); got != "&{true  [] []}" {
		t.Errorf("by hand: %s", got)
	}
}
