package trigger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// firings are what became of the times of a job, the earliest end first, and checks that small pages give the same.
func (r *rig) firings(job string) []trigger.Firing {
	r.t.Helper()
	all, next, err := r.Firings(r.t.Context(), job, "", 1000)
	if err != nil || next != "" {
		r.t.Fatalf("%d firings, next %q, %v", len(all), next, err)
	}
	var paged []trigger.Firing
	for before := ""; ; before = next {
		var page []trigger.Firing
		if page, next, err = r.Firings(r.t.Context(), job, before, 7); err != nil {
			r.t.Fatal(err)
		}
		if paged = append(paged, page...); next == "" {
			break
		}
	}
	if !slices.Equal(all, paged) {
		r.t.Fatalf("in pages: %+v, at once: %+v", paged, all)
	}
	slices.Reverse(all)
	return all
}

// told are the firings of a job in words.
func (r *rig) told(job string) (list []string) {
	r.t.Helper()
	for _, f := range r.firings(job) {
		text := f.At.Format("15:04") + " " + f.Status
		if f.Count > 1 {
			text = fmt.Sprintf("%s-%s %s ×%d", f.At.Format("15:04"), f.To.Format("15:04"), f.Status, f.Count)
		}
		list = append(list, strings.TrimSpace(text+" "+string(f.Reason+f.Execution)))
	}
	return list
}

func (r *rig) tells(job string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.told(job); !slices.Equal(got, want) {
		r.t.Fatalf("%s: the ledger says\n%s\nwant\n%s", job, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each time ends as started, dropped or refused, with the reason; several that are dropped in a row are one row.
func TestLedger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hourly := cron("0 * * * *")
		r.job("skip", hourly, nil)
		r.job("one", hourly, func(j *trigger.Job) { j.Overlap = schedule.OverlapQueueOne })
		pass(4*time.Hour + time.Minute)
		first := r.last("skip")
		r.tells("skip", "01:00 ran "+first, "02:00-04:00 dropped ×3 overlap")
		r.tells("one", "01:00 ran "+r.last("one"), "02:00-03:00 dropped ×2 overlap", "04:00 waiting")
		r.done(first, stepwell.ExecutionCompleted)
		pass(time.Hour)
		second := r.last("skip")
		if _, err := r.Pause(t.Context(), "skip"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Hour)
		if _, err := r.Resume(t.Context(), "skip"); err != nil {
			t.Fatal(err)
		}
		r.tells("skip", "01:00 ran "+first, "02:00-04:00 dropped ×3 overlap", "05:00 ran "+second, "06:00-08:00 dropped ×3 paused")
		r.done(second, stepwell.ExecutionCompleted)
		r.ledger.refusing(func(pipeline.Launch) error {
			return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no pipeline p"}
		})
		pass(time.Hour)
		all := r.firings("skip")
		if last := all[len(all)-1]; last.Status != trigger.FiringRefused || !strings.Contains(string(last.Error), "no pipeline p") || last.Decided.Format("15:04") != "09:00" {
			t.Errorf("the refused one is %+v", last)
		}
		r.ledger.refusing(nil)
		r.die()
		pass(5 * time.Hour) // 10:00 to 14:00 are missed, and the last of them is caught up
		r.boot(process{})
		pass(time.Minute)
		if got := r.told("skip")[5:]; !slices.Equal(got, []string{"10:00-13:00 dropped ×4 misfire", "14:00 caught_up " + r.last("skip")}) {
			t.Errorf("after an outage: %v", got)
		}
		r.job("changed", hourly, nil)
		r.die()
		pass(2 * time.Hour)
		r.boot(process{idle: true})
		if _, err := r.Update(t.Context(), "changed", store.AnyRevision, func(j *trigger.Job) error { j.Schedule = cron("30 * * * *"); return nil }); err != nil {
			t.Fatal(err)
		}
		if got := r.told("changed"); len(got) != 1 || !strings.HasPrefix(got[0], "15:00-16:00 dropped ×2 ") {
			t.Errorf("a changed schedule: %v", got)
		}
	})
}

// What was missed under run_all is caught up to the last, however short the outage: nothing of it counts as on time and
// falls to the overlap of the others. 13 are missed, 13 are started.
func TestRunAllDropsNothing(t *testing.T) {
	for _, overlap := range []schedule.Overlap{"", schedule.OverlapQueueOne, schedule.OverlapCancelRunning, schedule.OverlapAllow} {
		bubble(t, func(t *testing.T, r *rig) {
			r.job("a", trigger.Timing{Type: trigger.TypeInterval, Expression: "10s"}, func(j *trigger.Job) { j.Misfire, j.Overlap = schedule.RunAll, overlap })
			r.die()
			pass(130 * time.Second)
			r.boot(process{})
			for range 13 {
				pass(time.Second / 2)
				if id := r.last("a"); id != "" {
					r.done(id, stepwell.ExecutionCompleted)
				}
			}
			caught := 0
			for _, f := range r.firings("a") {
				if f.Status == trigger.FiringCaughtUp && f.Execution != "" {
					caught++
				}
			}
			if caught != 13 {
				t.Errorf("%q: %d of 13 are caught up: %v", overlap, caught, r.told("a"))
			}
		})
	}
}

// A catch-up firing under run_once waits for the execution that a crash has left running.
func TestRunOnceWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.job("a", cron("0 * * * *"), nil)
		pass(time.Hour)
		first := r.last("a")
		r.die()
		pass(90 * time.Minute)
		r.boot(process{})
		pass(time.Second)
		r.tells("a", "01:00 ran "+first, "02:00 waiting")
		r.done(first, stepwell.ExecutionCompleted)
		r.tells("a", "01:00 ran "+first, "02:00 caught_up "+r.last("a"))
	})
}

// A job that follows another starts for each end, also when its own execution takes longer; unless it is told otherwise.
func TestFollowersQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.job("first", cron("* * * * *"), func(j *trigger.Job) { j.Overlap = schedule.OverlapAllow })
		after := trigger.Timing{Type: trigger.TypeAfter, After: &trigger.After{Job: "first"}}
		r.job("each", after, nil)
		r.job("told", after, func(j *trigger.Job) { j.Overlap = schedule.OverlapSkip })
		relay := relayed(t, r, r.store)
		defer relay.die()
		for i := range 4 {
			ended(t, r.store, fmt.Sprint("e", i), "first", stepwell.ExecutionCompleted)
			relay.Wake()
			pass(time.Second)
		}
		for range 4 {
			r.done(r.last("each"), stepwell.ExecutionCompleted)
		}
		if v := r.view("each"); v.RunCount != 4 || v.Overlap != schedule.OverlapQueueAll {
			t.Errorf("the follower has run %d times", v.RunCount)
		}
		if v := r.view("told"); v.RunCount != 1 || v.Dropped != 3 {
			t.Errorf("the one that skips has run %d times", v.RunCount)
		}
		if _, err := r.Pause(t.Context(), "each"); err != nil {
			t.Fatal(err)
		}
		ended(t, r.store, "e9", "first", stepwell.ExecutionCompleted)
		relay.Wake()
		pass(time.Second)
		all := r.firings("each")
		if last := all[len(all)-1]; len(all) != 5 || last.Status != trigger.FiringDropped || last.Reason != trigger.DropPaused || last.After != "e9" || all[0].After != "e0" {
			t.Errorf("the ledger says %+v", all)
		}
	})
}

// The ledger goes back for as long as it is kept, in small pieces; a job that takes the place of a deleted one begins anew.
func TestLongLedger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("a", cron("* * * * *"), nil)
		pass(500 * time.Minute)
		all := r.firings("a")
		if len(all) != 500 {
			t.Fatalf("%d firings", len(all))
		}
		for i, f := range all {
			if f.Status != trigger.FiringRan || f.At.Unix() != all[0].At.Unix()+int64(i)*60 {
				t.Fatalf("%d: %+v", i, f)
			}
		}
		state, err := r.store.Object(t.Context(), "schedule_state", "a")
		if err != nil || len(state.Body) > 8<<10 {
			t.Errorf("the state has %d bytes, %v", len(state.Body), err)
		}
		for _, bad := range []string{"x", "1", "1-x", "--", "1--1"} {
			if _, _, err := r.Firings(t.Context(), "a", bad, 10); stepwell.CodeOf(err) != stepwell.CodeInvalid {
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
		removed, _, err := r.store.Prune(t.Context(), store.Retention{Firings: time.Now().Add(-4 * time.Hour)})
		if err != nil || removed.Firings == 0 {
			t.Errorf("removed %+v, %v", removed, err)
		}
		if n := len(r.firings("a")); n < 240 || n > 240+32 {
			t.Errorf("%d are left of four hours", n)
		}
		if err := r.Delete(t.Context(), "a", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
		r.job("a", cron("* * * * *"), nil)
		pass(time.Minute)
		if n := len(r.firings("a")); n != 1 {
			t.Errorf("a new job of the same id has %d firings", n)
		}
	})
}

// A backfill counts what it starts, tells what it leaves out, and says in whose name it starts.
func TestBackfillCounts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		r.job("a", cron("0 * * * *"), nil)
		pass(3*time.Hour + time.Minute) // 01:00 to 03:00 have fired
		if err := r.Delete(t.Context(), "a", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
		r.job("a", cron("*/30 * * * *"), nil)
		day := trigger.BackfillRange{From: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC), To: time.Date(2000, 1, 1, 3, 0, 1, 0, time.UTC)}
		got, err := r.Backfill(t.Context(), "a", day, "anna")
		if err != nil || got.Count != 2 || got.Skipped != 3 || got.First.Format("15:04") != "01:30" || got.Last.Format("15:04") != "02:30" {
			t.Fatalf("%+v, %v", got, err)
		}
		pass(time.Second)
		launches, _ := r.ledger.all()
		if last := launches[len(launches)-1]; last.Actor != "anna" {
			t.Errorf("started by %q", last.Actor)
		}
		if got, err = r.Backfill(t.Context(), "a", day, "anna"); err != nil || got.Count != 0 || got.Skipped != 5 {
			t.Errorf("again: %+v, %v", got, err)
		}
		if all := r.firings("a"); len(all) != 2 || !all[0].Backfill || all[0].Status != trigger.FiringRan {
			t.Errorf("the ledger says %+v", all)
		}
	})
}

// accounted says what is wrong with the ledger of a job: each time of a schedule in a range has exactly one end.
func (r *rig) accounted(job string, plan *schedule.Schedule, from, until time.Time) string {
	ends := map[int64]int{}
	for _, f := range r.firings(job) {
		if f.Count == 1 {
			ends[f.At.Unix()]++
			continue
		}
		n := 0
		for at := range plan.Between(f.At.Time, f.To.Time.Add(time.Second)) {
			ends[at.Unix()]++
			n++
		}
		if n != f.Count {
			return fmt.Sprintf("%+v has %d times", f, n)
		}
	}
	for at := range plan.Between(from, until) {
		if ends[at.Unix()] != 1 {
			return fmt.Sprintf("%s has %d ends: %v", at.UTC().Format(time.DateTime), ends[at.Unix()], r.told(job))
		}
	}
	return ""
}

// Whatever the policies, and whatever crashes before or after which effect: each time has exactly one end.
func TestEveryTimeHasOneEnd(t *testing.T) {
	if raceEnabled {
		t.Skip("takes minutes with the race detector; the other tests run the same code")
	}
	dir := t.TempDir()
	plan, err := schedule.Parse(schedule.Spec{Every: "7m"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		j := trigger.Job{
			Misfire: rapid.SampledFrom([]schedule.Misfire{schedule.RunAll, schedule.RunOnce, schedule.SkipMissed}).Draw(rt, "misfire"),
			Overlap: rapid.SampledFrom([]schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueueOne, schedule.OverlapQueueAll,
				schedule.OverlapCancelRunning}).Draw(rt, "overlap"),
			CatchUpSeconds: rapid.SampledFrom([]int64{0, 3600}).Draw(rt, "window"),
		}
		instant, steps := rapid.Bool().Draw(rt, "instant"), rapid.SliceOfN(chapters(), 1, 8).Draw(rt, "steps")
		problem := ""
		bubbleIn(t, fmt.Sprintf("%s/%d.db", dir, n), func(t *testing.T, r *rig) {
			r.ledger.instant = instant
			r.job("a", trigger.Timing{Type: trigger.TypeInterval, Expression: "7m"}, func(a *trigger.Job) {
				a.Misfire, a.Overlap, a.CatchUpSeconds = j.Misfire, j.Overlap, j.CatchUpSeconds
			})
			begun := time.Now()
			for _, c := range steps {
				c.play(t, r)
			}
			r.die()
			r.boot(process{})
			pass(20 * time.Minute)
			problem = r.accounted("a", plan, begun.Add(time.Second), time.Now().Add(-8*time.Minute))
		})
		if problem != "" { // not inside the bubble: rapid leaves by a panic
			rt.Fatal(problem)
		}
	})
}

// chapter is a part of the story of a job: nobody is there, then a process that dies at one of its effects, then a pause.
type chapter struct {
	down, up, paused time.Duration
	effects          int
	after, end       bool
}

func chapters() *rapid.Generator[chapter] {
	return rapid.Custom(func(t *rapid.T) chapter {
		seconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Second
		}
		return chapter{down: seconds("down", 7200), up: seconds("up", 3600), paused: max(0, seconds("paused", 7200)-time.Hour), effects: rapid.IntRange(1, 12).Draw(t, "effects"),
			after: rapid.Bool().Draw(t, "after"), end: rapid.Bool().Draw(t, "end")}
	})
}

func (c *chapter) play(t *testing.T, r *rig) {
	t.Helper()
	b := &bomb{left: c.effects, after: c.after}
	r.die()
	pass(c.down)
	r.boot(process{objects: bombed{r.store, b, r.ledger}, launcher: bombed{r.store, b, r.ledger}})
	pass(c.up)
	if c.paused > 0 {
		r.die()
		r.boot(process{})
		_, err := r.Pause(t.Context(), "a")
		pass(c.paused)
		if _, err2 := r.Resume(t.Context(), "a"); err != nil || err2 != nil {
			t.Error(err, err2)
		}
	}
	if v := r.view("a"); v.LastExecution != "" && c.end {
		r.done(string(v.LastExecution), stepwell.ExecutionCompleted)
	}
}
