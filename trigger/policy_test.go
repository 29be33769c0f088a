package trigger_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

func TestTypes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("cron", cron("0 9 * * 1-5"), func(j *trigger.Job) { j.Schedule.Timezone = "America/New_York" })
		r.job("interval", trigger.Timing{Type: trigger.TypeInterval, Expression: "@every 10h"}, nil)
		r.job("bare", trigger.Timing{Type: trigger.TypeInterval, Expression: "20h"}, nil)
		r.job("once", trigger.Timing{Type: trigger.TypeOneTime, Expression: "2000-01-01T10:00:00+02:00"}, nil)
		r.job("local", trigger.Timing{Type: trigger.TypeOneTime, RunAt: "2000-01-01T10:00", Timezone: "Asia/Tokyo"}, nil)
		r.job("now", trigger.Timing{Type: trigger.TypeOneTime, Expression: "1999-12-31T23:59:59.5Z"}, nil)
		r.job("manual", trigger.Timing{Type: trigger.TypeManual}, nil)
		pass(72 * time.Hour)
		r.expect("cron", "2000-01-03T14:00:00.000Z")
		r.expect("interval", "02:00", "12:00", "22:00", "2000-01-02T08:00:00.000Z", "2000-01-02T18:00:00.000Z", "2000-01-03T04:00:00.000Z",
			"2000-01-03T14:00:00.000Z", "2000-01-04T00:00:00.000Z") // on a grid from 1970 on
		r.expect("bare", "12:00", "2000-01-02T08:00:00.000Z", "2000-01-03T04:00:00.000Z", "2000-01-04T00:00:00.000Z")
		r.expect("once", "08:00")
		r.expect("local", "01:00")
		r.expect("now", "00:00")
		r.expect("manual")
		for job, want := range map[string]string{"cron": trigger.StatusActive, "once": trigger.StatusCompleted, "manual": trigger.StatusActive} {
			if got := r.view(job).Status; got != want {
				t.Errorf("%s is %s, want %s", job, got, want)
			}
		}
		v := r.view("cron")
		if v.RunCount != 1 || v.LastRunAt.UTC().Format(time.DateTime) != "2000-01-03 14:00:00" || v.NextRunAt.UTC().Format(time.DateTime) != "2000-01-04 14:00:00" ||
			v.LastExecution == "" || !*v.Enabled {
			t.Errorf("the job is told as %+v", v)
		}
	})
}

// Clocks change in New York on 2 April and 29 October 2000.
func TestClocksChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		newYork := func(j *trigger.Job) { j.Schedule.Timezone = "America/New_York" }
		pass(time.Until(time.Date(2000, 4, 2, 0, 0, 0, 0, time.UTC)))
		r.job("gap", cron("30 2 * * *"), newYork)
		r.job("leave", cron("30 2 * * *"), func(j *trigger.Job) { newYork(j); j.Schedule.Skipped = schedule.SkipMissing })
		pass(48 * time.Hour)
		r.expect("gap", "2000-04-02T07:00:00.000Z", "2000-04-03T06:30:00.000Z")
		r.expect("leave", "2000-04-03T06:30:00.000Z")
		pass(time.Until(time.Date(2000, 10, 29, 0, 0, 0, 0, time.UTC)))
		r.job("twice", cron("30 1 * * *"), newYork)
		r.job("both", cron("30 1 * * *"), func(j *trigger.Job) { newYork(j); j.Schedule.Repeated = schedule.Both })
		pass(24 * time.Hour)
		r.expect("twice", "2000-10-29T05:30:00.000Z")
		r.expect("both", "2000-10-29T05:30:00.000Z", "2000-10-29T06:30:00.000Z")
	})
}

func TestMisfire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		for _, m := range []schedule.Misfire{"", schedule.SkipMissed, schedule.RunOnce, schedule.RunAll} {
			r.job("m-"+string(m), cron("0 * * * *"), func(j *trigger.Job) { j.Misfire = m })
			r.job("window-"+string(m), cron("0 * * * *"), func(j *trigger.Job) { j.Misfire, j.CatchUpSeconds = m, 5399 })
		}
		pass(90 * time.Minute) // one firing on time
		r.die()
		pass(4 * time.Hour) // 02:00 to 05:00 are missed
		r.boot(process{})
		pass(time.Minute)
		r.expect("m-", "01:00", "05:00")
		r.expect("m-skip", "01:00")
		r.expect("m-run_once", "01:00", "05:00")
		r.expect("m-run_all", "01:00", "02:00", "03:00", "04:00", "05:00")
		r.expect("window-", "01:00", "05:00")
		r.expect("window-skip", "01:00")
		r.expect("window-run_all", "01:00", "05:00") // at 05:30, 04:00 is 90 minutes away
		pass(time.Hour)
		r.expect("m-skip", "01:00", "06:00")
		r.expect("m-run_once", "01:00", "05:00", "06:00")
		if v := r.view("m-run_all"); v.RunCount != 6 || v.Dropped != 0 {
			t.Errorf("run_all has run %d times and dropped %d, want 6 and 0", v.RunCount, v.Dropped)
		}
	})
}

// A firing that was decided before a crash, and not started, is as late as any other.
func TestMisfireOfDecided(t *testing.T) {
	for misfire, want := range map[schedule.Misfire][]string{schedule.SkipMissed: {}, schedule.RunOnce: {"05:00"}, schedule.RunAll: {"01:00", "02:00", "03:00", "04:00", "05:00"}} {
		t.Run(string(misfire), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.ledger.instant = true
				r.job("late", cron("0 * * * *"), func(j *trigger.Job) { j.Misfire = misfire })
				r.job("lone", cron("0 1 * * *"), func(j *trigger.Job) { j.Misfire = misfire })
				r.die()
				r.boot(process{launcher: dead{}})
				pass(90 * time.Minute) // 01:00 is decided, and cannot be started
				r.die()
				pass(4 * time.Hour)
				r.boot(process{})
				pass(time.Minute)
				r.expect("late", want...)
				if misfire == schedule.SkipMissed {
					r.expect("lone")
				} else {
					r.expect("lone", "01:00")
				}
				if v := r.view("late"); v.RunCount != len(want) {
					t.Errorf("counted %d runs, want %d", v.RunCount, len(want))
				}
			})
		})
	}
}

func TestOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		overlaps := []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapQueueOne, schedule.OverlapQueueAll, schedule.OverlapCancelRunning, schedule.OverlapAllow}
		running := map[string]string{} // the first execution of each
		for _, o := range overlaps {
			r.job(string(o), cron("0 * * * *"), func(j *trigger.Job) { j.Overlap = o })
		}
		pass(time.Hour)
		launches, ids := r.ledger.all()
		for i, in := range launches {
			running[in.Job] = ids[i]
		}
		pass(150 * time.Minute) // 02:00 and 03:00 come while the first ones run
		r.expect("skip", "01:00")
		r.expect("queue_one", "01:00")
		r.expect("queue_all", "01:00")
		r.expect("cancel_running", "01:00", "02:00", "03:00")
		r.expect("allow", "01:00", "02:00", "03:00")
		if x, _ := r.ledger.Execution(t.Context(), running["cancel_running"]); x.Status != stepwell.ExecutionCancelled {
			t.Errorf("the first of cancel_running is %s", x.Status)
		}
		r.die() // what waits survives
		r.boot(process{})
		for _, o := range overlaps[:3] {
			r.done(running[string(o)], stepwell.ExecutionCompleted)
		}
		pass(time.Second)
		r.expect("skip", "01:00")
		r.expect("queue_one", "01:00", "03:00")
		r.expect("queue_all", "01:00", "02:00")
		r.done(r.last("queue_all"), stepwell.ExecutionFailed)
		r.expect("queue_all", "01:00", "02:00", "03:00")
		pass(30 * time.Minute) // 04:00
		r.expect("skip", "01:00", "04:00")
		if v := r.view("skip"); v.Dropped != 2 || v.RunCount != 2 {
			t.Errorf("skip has dropped %d and run %d, want 2 and 2", v.Dropped, v.RunCount)
		}
		if v := r.view("queue_one"); v.Dropped != 1 || v.Waiting != 1 {
			t.Errorf("queue_one has dropped %d and holds %d, want 1 and 1", v.Dropped, v.Waiting)
		}
	})
}

// The end of an execution that nobody tells is noticed all the same.
func TestOverlapUntold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.job("a", cron("0 * * * *"), func(j *trigger.Job) { j.Overlap = schedule.OverlapQueueAll })
		pass(2*time.Hour + time.Second)
		r.expect("a", "01:00")
		if err := r.ledger.end("x1", stepwell.ExecutionCompleted); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute + time.Second)
		r.expect("a", "01:00", "02:00")
	})
}

// Catch-up runs run one after another, unless the job allows more.
func TestCatchUpInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.job("a", cron("0 * * * *"), func(j *trigger.Job) { j.Misfire = schedule.RunAll })
		r.die()
		pass(4*time.Hour + 30*time.Minute)
		r.boot(process{})
		for i, want := range []string{"01:00", "02:00", "03:00", "04:00"} {
			pass(time.Second)
			got := r.ledger.times("a")
			if len(got) != i+1 || got[i] != "2000-01-01T"+want+":00.000Z" {
				t.Fatalf("after %d ends: %v", i, got)
			}
			r.done(r.last("a"), stepwell.ExecutionCompleted)
		}
	})
}

func TestLimitsOfAJob(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("three", cron("0 * * * *"), func(j *trigger.Job) { j.MaxRuns = 3 })
		r.job("expires", cron("0 * * * *"), func(j *trigger.Job) { j.ExpiresAt = new(resource.At(time.Now().Add(2 * time.Hour))) })
		r.job("starts", trigger.Timing{Type: trigger.TypeInterval, Expression: "90m", StartAt: new(resource.At(time.Now().Add(20 * time.Minute)))}, nil)
		pass(5 * time.Hour)
		r.expect("three", "01:00", "02:00", "03:00")
		r.expect("expires", "01:00", "02:00")
		r.expect("starts", "00:20", "01:50", "03:20", "04:50")
		if a, b := r.view("three"), r.view("expires"); a.Status != trigger.StatusCompleted || b.Status != trigger.StatusExpired || !a.NextRunAt.IsZero() {
			t.Errorf("three is %s, expires is %s", a.Status, b.Status)
		}
		for _, id := range []string{"three", "expires"} { // goes on from now
			if _, err := r.Update(t.Context(), id, store.AnyRevision, func(j *trigger.Job) error { j.MaxRuns, j.ExpiresAt = 0, nil; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Hour)
		r.expect("three", "01:00", "02:00", "03:00", "06:00")
		r.expect("expires", "01:00", "02:00", "06:00")
	})
}

func TestJitter(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		const n = 60
		for i := range n {
			r.job(fmt.Sprintf("j%d", i), cron("0 1 * * *"), func(j *trigger.Job) { j.JitterSeconds, j.Misfire = 600, schedule.SkipMissed })
		}
		pass(59 * time.Minute)
		early := 0
		for minute := range 11 {
			if minute == 5 { // a restart in the middle changes nothing
				r.die()
				r.boot(process{})
			}
			pass(time.Minute)
			if minute == 3 {
				early = r.ledger.count()
			}
		}
		if early < n/8 || early > n/2 {
			t.Errorf("%d of %d have fired in the first 3 of 10 minutes", early, n)
		}
		pass(time.Hour)
		for i := range n {
			r.expect(fmt.Sprintf("j%d", i), "01:00")
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("a", cron("0 * * * *"), func(j *trigger.Job) { j.Misfire = schedule.RunAll })
		pass(61 * time.Minute)
		if v, err := r.Pause(t.Context(), "a"); err != nil || v.Status != trigger.StatusPaused || *v.Enabled || !v.NextRunAt.IsZero() {
			t.Fatalf("paused: %+v, %v", v, err)
		}
		if _, err := r.Pause(t.Context(), "a"); err != nil {
			t.Fatalf("pausing twice: %v", err)
		}
		pass(2 * time.Hour)
		r.die()
		r.boot(process{})
		pass(time.Minute)
		r.expect("a", "01:00")
		if v, err := r.Resume(t.Context(), "a"); err != nil || v.Status != trigger.StatusActive {
			t.Fatalf("resumed: %+v, %v", v, err)
		}
		pass(time.Hour)
		r.expect("a", "01:00", "04:00")
	})
}

// What cannot be started for a while is started later; what cannot be started at all is told.
func TestFailingStarts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("a", cron("0 * * * *"), nil)
		var refused []time.Time
		r.ledger.refusing(func(pipelineLaunch) error {
			refused = append(refused, time.Now())
			return &stepwell.Error{Code: stepwell.CodeLimit, Message: "too much is waiting"}
		})
		pass(time.Hour + 20*time.Second)
		if len(refused) != 5 { // at once, then after 1, 2, 4 and 8 seconds
			t.Fatalf("tried %d times in 20 seconds: %v", len(refused), refused)
		}
		if v := r.view("a"); v.LastError == "" || v.Waiting != 1 {
			t.Fatalf("the job says %+v", v)
		}
		r.ledger.refusing(nil)
		pass(time.Minute)
		r.expect("a", "01:00")
		r.ledger.refusing(func(pipelineLaunch) error {
			return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no pipeline a"}
		})
		pass(time.Hour)
		if v := r.view("a"); v.LastError != "there is no pipeline a" || v.Waiting != 0 || v.RunCount != 1 || v.LastErrorAt.IsZero() {
			t.Fatalf("the job says %+v", v)
		}
		r.ledger.refusing(nil)
		pass(time.Hour)
		r.expect("a", "01:00", "03:00")
		if v := r.view("a"); v.LastError != "" {
			t.Fatalf("the job still says %q", v.LastError)
		}
		synctest.Wait()
	})
}

// stuck launches nothing until it is told to stop.
type stuck struct{}

func (stuck) Launch(ctx context.Context, _ pipeline.Launch) (*pipeline.Launched, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A stop in the middle of a start is no failure of the job; the next process starts it.
func TestStopWhileStarting(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die()
		r.boot(process{launcher: stuck{}})
		r.job("a", cron("0 * * * *"), nil)
		pass(time.Hour + time.Second)
		r.die()
		if v := r.view("a"); v.LastError != "" || v.Waiting != 1 {
			t.Errorf("the job says %+v", v)
		}
		r.boot(process{})
		r.expect("a", "01:00")
	})
}
