package trigger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// The request of budpipeline §4.2, as it stands there.
func TestBudpipelineJob(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var j trigger.Job
		request := `{"job_id":"0f4c2e0a-8a57-4a39-9b53-6d6f3f0c7b11","name":"nightly","schedule":{"type":"cron","expression":"0 9 * * 1-5","timezone":"America/New_York"},
			"callback":{"type":"workflow","workflow_id":"0f4c2e0a-8a57-4a39-9b53-6d6f3f0c7b12","params":{"n":1,"x":2.0}}}`
		if err := json.Unmarshal([]byte(request), &j); err != nil {
			t.Fatal(err)
		}
		v, err := r.Create(t.Context(), &j, "somebody")
		if err != nil || len(v.Warnings) != 0 {
			t.Fatal(err, v)
		}
		if v.NextRunAt.UTC().Format(time.RFC3339) != "2000-01-03T14:00:00Z" || !*v.Enabled || v.CreatedBy != "somebody" || v.Revision == 0 {
			t.Errorf("created %+v", v)
		}
		pass(3 * 24 * time.Hour)
		in := r.ledger.first()
		about := in.Outside.About
		if in.Workflow == "" || in.Written["n"] != int64(1) || in.Written["x"] != 2.0 || in.Trigger != "scheduled" || about["type"] != "scheduled" ||
			about["schedule_name"] != "nightly" || about["scheduled_at"] != "2000-01-03T14:00:00.000Z" {
			t.Errorf("started %+v", in)
		}
		raw, err := json.Marshal(r.view(j.ID))
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{`"job_id":"0f4c`, `"enabled":true`, `"next_run_at":"2000-01-04T`, `"last_run_at":"2000-01-03T`, `"run_count":1`, `"x":2.0`} {
			if !strings.Contains(string(raw), field) {
				t.Errorf("%s is not in %s", field, raw)
			}
		}
	})
}

func TestWarnings(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for expression, want := range map[string]string{"0 0 30 2 *": "never", "30 2 * * *": "clocks go forward", "0 12 * * *": ""} {
			j := trigger.Job{Schedule: cron(expression), Target: &trigger.Target{Action: "util.noop"}}
			j.Schedule.Timezone = "America/New_York"
			v, err := r.Create(t.Context(), &j, "")
			if err != nil {
				t.Fatal(err)
			}
			if (len(v.Warnings) > 0) != (want != "") || want != "" && !strings.Contains(v.Warnings[0].Message, want) {
				t.Errorf("%s: %v, want %s", expression, v.Warnings, want)
			}
			if expression == "0 0 30 2 *" && v.Status != trigger.StatusCompleted {
				t.Errorf("a job that never fires is %s", v.Status)
			}
		}
		past := trigger.Job{Schedule: trigger.Timing{Type: trigger.TypeOneTime, Expression: "1999-01-01T00:00:00Z"}, Target: &trigger.Target{Action: "util.noop"}}
		if v, err := r.Create(t.Context(), &past, ""); err != nil || len(v.Warnings) == 0 || v.Status != trigger.StatusCompleted {
			t.Errorf("a time in the past: %+v, %v", v, err)
		}
	})
}

func TestBadJobs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		noop := &trigger.Target{Action: "util.noop"}
		for name, j := range map[string]trigger.Job{
			"type":           {Schedule: trigger.Timing{Type: "hourly"}, Target: noop},
			"no type":        {Target: noop},
			"cron":           {Schedule: cron("61 * * * *"), Target: noop},
			"zone":           {Schedule: trigger.Timing{Type: "cron", Expression: "@daily", Timezone: "Mars/Olympus"}, Target: noop},
			"interval":       {Schedule: trigger.Timing{Type: "interval", Expression: "soon"}, Target: noop},
			"no time":        {Schedule: trigger.Timing{Type: "one_time"}, Target: noop},
			"two times":      {Schedule: trigger.Timing{Type: "one_time", Expression: "2000-01-02T00:00:00Z", RunAt: "2000-01-03T00:00:00Z"}, Target: noop},
			"callback":       {Schedule: cron("@daily")},
			"both callbacks": {Schedule: cron("@daily"), Target: &trigger.Target{Action: "a", Workflow: "b"}},
			"other callback": {Schedule: cron("@daily"), Target: &trigger.Target{Type: "mail", Action: "a"}},
			"id":             {ID: "a b", Schedule: cron("@daily"), Target: noop},
			"long id":        {ID: strings.Repeat("i", 129), Schedule: cron("@daily"), Target: noop},
			"misfire":        {Schedule: cron("@daily"), Target: noop, Misfire: "always"},
			"overlap":        {Schedule: cron("@daily"), Target: noop, Overlap: "queue"},
			"window":         {Schedule: cron("@daily"), Target: noop, CatchUpSeconds: 367 * 86_400},
			"jitter":         {Schedule: cron("@daily"), Target: noop, JitterSeconds: 86_401},
			"runs":           {Schedule: cron("@daily"), Target: noop, MaxRuns: -1},
			"after nothing":  {Schedule: trigger.Timing{Type: "after"}, Target: noop},
			"after itself":   {ID: "a", Schedule: trigger.Timing{Type: "after", After: &trigger.After{Job: "a"}}, Target: noop},
			"after nobody":   {ID: "a", Schedule: trigger.Timing{Type: "after", After: &trigger.After{Job: "b"}}, Target: noop},
			"manual at":      {Schedule: trigger.Timing{Type: "manual", Expression: "@daily"}, Target: noop},
			"name":           {Name: strings.Repeat("n", 256), Schedule: cron("@daily"), Target: noop},
			"params":         {Schedule: cron("@daily"), Target: &trigger.Target{Action: "a", Params: resource.Object{"x": strings.Repeat("x", 256<<10)}}},
		} {
			_, err := r.Create(t.Context(), &j, "")
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
				t.Errorf("%s: %v, hint %q", name, err, stepwell.HintOf(err))
			}
		}
		r.job("a", cron("@daily"), nil)
		_, err := r.Create(t.Context(), &trigger.Job{ID: "a", Schedule: cron("@daily"), Target: noop}, "")
		wantCode(t, err, stepwell.CodeConflict)
		_, err = r.Job("b")
		wantCode(t, err, stepwell.CodeNotFound)
		r.die()
		r.boot(process{options: trigger.Options{MaxJobs: 1}})
		_, err = r.Create(t.Context(), &trigger.Job{Schedule: cron("@daily"), Target: noop}, "")
		wantCode(t, err, stepwell.CodeLimit)
	})
}

func TestUpdateAndDelete(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		v := r.job("a", cron("0 * * * *"), nil)
		pass(90 * time.Minute)
		later := func(j *trigger.Job) error { j.Schedule.Expression = "30 * * * *"; return nil }
		if _, err := r.Update(t.Context(), "a", v.Revision+1, later); stepwell.CodeOf(err) != stepwell.CodeConflict {
			t.Errorf("another revision: %v", err)
		}
		changed, err := r.Update(t.Context(), "a", v.Revision, later)
		if err != nil || changed.NextRunAt.UTC().Format("15:04") != "02:30" || changed.RunCount != 1 || changed.Revision <= v.Revision {
			t.Fatalf("%+v, %v", changed, err)
		}
		_, err = r.Update(t.Context(), "a", store.AnyRevision, func(j *trigger.Job) error { j.Schedule.Expression = "x"; return nil })
		wantCode(t, err, stepwell.CodeInvalid)
		_, err = r.Update(t.Context(), "a", store.AnyRevision, func(j *trigger.Job) error { j.ID = "b"; return nil })
		wantCode(t, err, stepwell.CodeInvalid)
		r.die()
		r.boot(process{})
		pass(time.Hour)
		r.expect("a", "01:00", "02:30")
		wantCode(t, r.Delete(t.Context(), "a", v.Revision), stepwell.CodeConflict)
		if err := r.Delete(t.Context(), "a", changed.Revision); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		r.expect("a", "01:00", "02:30")
		wantCode(t, r.Delete(t.Context(), "a", store.AnyRevision), stepwell.CodeNotFound)
		r.die()
		r.boot(process{})
		if n := len(must(r.List(t.Context(), &trigger.Filter{}))); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
	})
}

func TestListAndNextRuns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 25 {
			r.job(fmt.Sprintf("j%02d", i), cron("0 * * * *"), func(j *trigger.Job) { j.Name = "same" })
		}
		r.job("m", trigger.Timing{Type: trigger.TypeManual}, func(j *trigger.Job) { j.Name = "mine" })
		if _, err := r.Pause(t.Context(), "j03"); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for after := ""; ; {
			page := must(r.List(t.Context(), &trigger.Filter{Page: resource.Page{Cursor: after, Limit: 10}}))
			for _, v := range page {
				ids = append(ids, v.ID)
			}
			if len(page) < 10 {
				break
			}
			after = page[len(page)-1].ID
		}
		if len(ids) != 26 || ids[0] != "j00" || ids[25] != "m" {
			t.Errorf("listed %v", ids)
		}
		if l := must(r.List(t.Context(), &trigger.Filter{Status: trigger.StatusPaused})); len(l) != 1 || l[0].ID != "j03" {
			t.Errorf("paused: %v", l)
		}
		if l := must(r.List(t.Context(), &trigger.Filter{Type: trigger.TypeManual})); len(l) != 1 || l[0].ID != "m" {
			t.Errorf("manual: %v", l)
		}
		if v, err := r.Job("mine"); err != nil || v.ID != "m" {
			t.Errorf("by name: %v, %v", v, err)
		}
		_, err := r.Job("same")
		wantCode(t, err, stepwell.CodeConflict)
		if times, err := r.NextRuns("j00", 1000); err != nil || len(times) != 100 || times[99].UTC().Format(time.DateTime) != "2000-01-05 04:00:00" {
			t.Errorf("%d next runs, %v", len(times), err)
		}
		for _, job := range []string{"m", "j03"} {
			if times, err := r.NextRuns(job, 5); err != nil || len(times) != 0 {
				t.Errorf("%s: %v, %v", job, times, err)
			}
		}
	})
}

// launch asks for a start by hand.
func launch(actor, key string, priority int, values map[string]any) pipeline.Launch {
	in := pipeline.Launch{Outside: &pipeline.Outside{Values: values}}
	in.Actor, in.Key, in.Priority = actor, key, priority
	return in
}

func TestTriggerNow(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.job("a", cron("0 * * * *"), func(j *trigger.Job) { j.Target.Params, j.Target.Priority = resource.Object{"x": int64(1)}, new(1) })
		one, err := r.Trigger(t.Context(), "a", launch("me", "k", 3, map[string]any{"x": 2}))
		if err != nil || !one.Fresh {
			t.Fatal(one, err)
		}
		if first := r.ledger.first(); first.Priority != 3 {
			t.Errorf("its priority is %d", first.Priority)
		}
		if again, err := r.Trigger(t.Context(), "a", launch("me", "k", 0, nil)); err != nil || again.Execution != one.Execution {
			t.Fatal(again, err)
		}
		in := r.ledger.first()
		about := in.Outside.About
		if in.Outside.Values["x"] != 2 || in.Written["x"] != int64(1) || in.Actor != "me" || in.Trigger != "manual" || about["manual"] != true || in.Job != "a" || in.Params != nil {
			t.Errorf("started %+v", in)
		}
		pass(61 * time.Minute)
		if v := r.view("a"); v.RunCount != 1 || v.Dropped != 1 { // it still runs
			t.Errorf("the job says %+v", v)
		}
		if _, err := r.Pause(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Trigger(t.Context(), "a", pipeline.Launch{}); err != nil {
			t.Errorf("a paused job by hand: %v", err)
		}
		var hooked pipeline.Launch
		hooked.Trigger = "webhook"
		_, err = r.Trigger(t.Context(), "a", hooked)
		wantCode(t, err, stepwell.CodeConflict)
		pass(time.Second)
		r.die()
		r.boot(process{})
		if v := r.view("a"); v.RunCount != 2 {
			t.Errorf("after a restart it has run %d times", v.RunCount)
		}
	})
}

func TestBackfill(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pass(10*time.Hour + time.Minute)
		r.job("allow", cron("0 * * * *"), func(j *trigger.Job) { j.Overlap = schedule.OverlapAllow })
		r.job("order", cron("0 * * * *"), nil)
		midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, job := range []string{"allow", "order"} {
			got, err := r.Backfill(t.Context(), job, trigger.BackfillRange{From: midnight.Add(time.Hour), To: midnight.Add(4 * time.Hour)}, "")
			if err != nil || got.Count != 3 || !got.First.Equal(midnight.Add(time.Hour)) || !got.Last.Equal(midnight.Add(3*time.Hour)) {
				t.Fatalf("%s: %+v, %v", job, got, err)
			}
		}
		pass(time.Second)
		r.expect("allow", "01:00", "02:00", "03:00")
		r.expect("order", "01:00")
		r.die()
		r.boot(process{})
		for range 3 {
			pass(time.Second)
			r.done(r.last("order"), stepwell.ExecutionCompleted)
		}
		r.expect("order", "01:00", "02:00", "03:00")
		// What has run is not repeated, unless it is asked for.
		if _, err := r.Backfill(t.Context(), "allow", trigger.BackfillRange{From: midnight, To: midnight.Add(5 * time.Hour)}, ""); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.expect("allow", "01:00", "02:00", "03:00", "00:00", "04:00")
		if _, err := r.Backfill(t.Context(), "allow", trigger.BackfillRange{From: midnight, To: midnight.Add(time.Hour), Again: true}, ""); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.expect("allow", "01:00", "02:00", "03:00", "00:00", "04:00", "00:00")
		if v := r.view("allow"); v.RunCount != 6 || v.Waiting != 0 {
			t.Errorf("the job says %d runs, %d wait", v.RunCount, v.Waiting)
		}
		_, err := r.Backfill(t.Context(), "allow", trigger.BackfillRange{From: midnight.AddDate(-1, 0, 0), To: midnight}, "")
		wantCode(t, err, stepwell.CodeLimit)
		_, err = r.Backfill(t.Context(), "allow", trigger.BackfillRange{From: midnight, To: midnight.Add(100 * time.Hour)}, "")
		wantCode(t, err, stepwell.CodeInvalid)
		if _, err := r.Pause(t.Context(), "allow"); err != nil {
			t.Fatal(err)
		}
		_, err = r.Backfill(t.Context(), "allow", trigger.BackfillRange{From: midnight, To: midnight.Add(time.Hour)}, "")
		wantCode(t, err, stepwell.CodeConflict)
	})
}

func TestAfter(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("first", trigger.Timing{Type: trigger.TypeManual}, nil)
		for _, on := range []string{"", trigger.OnFailure, trigger.OnAny} {
			r.job("on"+on, trigger.Timing{Type: trigger.TypeAfter, After: &trigger.After{Job: "first", On: on}}, nil)
		}
		if r.Wants(&store.Execution{Origin: store.Origin{Job: "onany"}}) || !r.Wants(&store.Execution{Origin: store.Origin{Job: "first"}}) {
			t.Error("only what is followed has to be told")
		}
		r.die()
		r.boot(process{})
		relay := relayed(t, r, r.store)
		for i, status := range []stepwell.ExecutionStatus{stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures, stepwell.ExecutionFailed,
			stepwell.ExecutionTimedOut, stepwell.ExecutionCancelled} {
			ended(t, r.store, fmt.Sprint("e", i), "first", status)
			ended(t, r.store, fmt.Sprint("o", i), "other", status)
			relay.Wake()
			pass(time.Second)
		}
		for job, want := range map[string]int{"on": 2, "onfailure": 2, "onany": 5} {
			if v := r.view(job); v.RunCount != want {
				t.Errorf("%s has run %d times, want %d", job, v.RunCount, want)
			}
		}
		launches, _ := r.ledger.all()
		for _, in := range launches {
			about := in.Outside.About
			if about["type"] != "after" || about["job_id"] != "first" || !strings.HasPrefix(fmt.Sprint(about["execution_id"]), "e") {
				t.Errorf("started with %v", about)
			}
		}
		wantCode(t, r.Delete(t.Context(), "first", store.AnyRevision), stepwell.CodeConflict)
		_, err := r.Update(t.Context(), "first", store.AnyRevision, func(j *trigger.Job) error {
			j.Schedule = trigger.Timing{Type: trigger.TypeAfter, After: &trigger.After{Job: "onany"}}
			return nil
		})
		wantCode(t, err, stepwell.CodeInvalid)
		relay.die()
	})
}

// An outbox that fails is asked again, in order.
func TestRelayTriesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("first", trigger.Timing{Type: trigger.TypeManual}, nil)
		r.job("then", trigger.Timing{Type: trigger.TypeAfter, After: &trigger.After{Job: "first"}}, nil)
		ended(t, r.store, "e", "first", stepwell.ExecutionCompleted)
		broken := 3
		relay := trigger.NewRelay(r.store, r.log, sink(func(context.Context, []trigger.Happened) error {
			if broken--; broken >= 0 {
				return errDead
			}
			return nil
		}), r.Schedules)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		pass(6 * time.Second)
		if v := r.view("then"); v.RunCount != 0 {
			t.Error("it has run too early")
		}
		pass(2 * time.Second)
		if v := r.view("then"); v.RunCount != 1 {
			t.Errorf("it has run %d times", v.RunCount)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type sink func(context.Context, []trigger.Happened) error

func (s sink) Take(ctx context.Context, list []trigger.Happened) error { return s(ctx, list) }
