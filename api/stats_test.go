package api_test

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// TestStatsOfExecutions counts what has just ended: of two stored pipelines and of none.
func TestStatsOfExecutions(t *testing.T) {
	r := newRig(t)
	editor, c, ctx := r.client("editor"), r.client("viewer"), t.Context()
	before := time.Now().Add(-time.Second)
	ids := map[string]string{}
	for name, action := range map[string]string{"good": "util.noop", "bad": "util.fail"} {
		made, err := editor.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document("name: " + name + "\nsteps: [{id: a, action: " + action + "}]")})
		good(t, err)
		ids[name] = made.ID
		for range 2 {
			s, err := editor.Execute(ctx, api.ExecuteRequest{Workflow: made.ID}, "")
			good(t, err)
			_, err = c.Wait(ctx, s.ID)
			good(t, err)
		}
	}
	r.finished("name: inline\nsteps: [{id: a, action: util.noop}]")
	for _, bucket := range []string{"day", "hour", "minute"} {
		all, err := c.Stats(ctx, api.AskStats{Bucket: bucket, From: before})
		good(t, err)
		var sum api.EndedBucket // a test may go on over the end of an hour
		for _, b := range all.Buckets {
			sum.Ended, sum.Completed, sum.Failed = sum.Ended+b.Ended, sum.Completed+b.Completed, sum.Failed+b.Failed
			if b.Pipeline != nil || b.Completed > 0 && (b.P50 == nil || *b.P50 <= 0 || *b.P99 < *b.P50) {
				t.Errorf("by %s: %+v", bucket, b)
			}
		}
		if total := &all.Total; total.Ended != sum.Ended || total.P50 == nil || *total.P50 > *total.P95 || total.From.Time != all.From.Time {
			t.Errorf("by %s, together: %+v", bucket, all.Total)
		}
		if !all.Complete || sum.Ended != 5 || sum.Completed != 3 || sum.Failed != 2 {
			t.Errorf("by %s: %+v", bucket, all)
		}
	}
	each, err := c.Stats(ctx, api.AskStats{Group: "pipeline", From: before})
	good(t, err)
	ended := map[string]int64{}
	for _, b := range each.Buckets {
		ended[*b.Pipeline] += b.Ended
	}
	if len(ended) != 3 || ended[ids["good"]] != 2 || ended[ids["bad"]] != 2 || ended[""] != 1 {
		t.Errorf("by pipeline: %v", ended)
	}
	whole, err := c.Stats(ctx, api.AskStats{Bucket: "all", Group: "pipeline"})
	good(t, err)
	if len(whole.Buckets) != 3 || whole.Total.Ended != 5 {
		t.Errorf("in all: %+v", whole)
	}
	for _, b := range whole.Buckets {
		if *b.Pipeline == ids["good"] && (b.Ended != 2 || *b.P50 > *b.P95 || b.From.Time != whole.From.Time) {
			t.Errorf("in all: %+v", b)
		}
	}
	bad, err := c.Stats(ctx, api.AskStats{Pipeline: ids["bad"]})
	good(t, err)
	for _, b := range bad.Buckets {
		if b.Failed != b.Ended || b.P95 != nil {
			t.Errorf("of the bad one: %+v", b)
		}
	}
	bad, err = c.Stats(ctx, api.AskStats{Bucket: "minute", Pipeline: ids["bad"]})
	good(t, err)
	if len(bad.Buckets) == 0 || bad.Total.Failed != 2 || bad.Total.Ended != 2 {
		t.Errorf("of the bad one, by minute: %+v", bad)
	}
	_, err = c.Stats(ctx, api.AskStats{Bucket: "minute", From: before.AddDate(0, 0, -2)})
	want(t, err, stepwell.CodeInvalid)
	old, err := c.Stats(ctx, api.AskStats{To: before.AddDate(0, 0, -2)})
	good(t, err)
	if len(old.Buckets) != 0 {
		t.Errorf("before: %+v", old)
	}
	_, err = c.Stats(ctx, api.AskStats{From: before.AddDate(-2, 0, 0)})
	want(t, err, stepwell.CodeInvalid)
}
