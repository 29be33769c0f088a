package trigger_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Ten thousand jobs fire within one minute; the process dies in the middle of it, and another one takes over after a
// pause in which more of them are due. Each fires once, for its own second.
func TestTenThousandInAMinute(t *testing.T) {
	jobs := 10_000
	if testing.Short() || raceEnabled {
		jobs = 1000
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		for i := range jobs {
			r.job(fmt.Sprintf("j%d", i), cron(fmt.Sprintf("%d 0 1 * * *", i%60)), nil)
		}
		if n := r.Stats(); n.Jobs != jobs || n.Active != jobs || n.Next.UTC().Format(time.TimeOnly) != "01:00:00" {
			t.Fatalf("stats: %+v", n)
		}
		b := &bomb{left: jobs / 2, after: true}
		r.die()
		r.boot(process{objects: bombed{r.store, b, r.ledger}, launcher: bombed{r.store, b, r.ledger}})
		pass(time.Hour + 40*time.Second) // dies on the way, at some start or write
		if !b.blown || r.ledger.count() == jobs {
			t.Fatalf("the process lives; %d jobs have fired", r.ledger.count())
		}
		r.die()
		pass(10 * time.Second)
		r.boot(process{})
		pass(time.Hour)
		if got := r.ledger.count(); got != jobs {
			t.Errorf("%d executions of %d jobs", got, jobs)
		}
		for i := range jobs {
			r.expect(fmt.Sprintf("j%d", i), fmt.Sprintf("2000-01-01T01:00:%02d.000Z", i%60))
			if v := r.view(fmt.Sprintf("j%d", i)); v.RunCount != 1 || v.Waiting != 0 {
				t.Fatalf("%s is told to have run %d times, %d wait", v.ID, v.RunCount, v.Waiting)
			}
		}
	})
}

// The process dies at each of its effects in turn (writing down what is due, starting it, writing down that it was
// started, taking entries from the outbox), before and after it. Nothing is lost, nothing happens twice.
func TestCrashAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, blown := 1, true; blown; n++ {
			t.Run(fmt.Sprintf("%d/%t", n, after), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) { blown = crash(t, r, &bomb{left: n, after: after}) })
			})
		}
	}
}

// crash plays one story with a bomb in it, and says whether it went off.
func crash(t *testing.T, r *rig, b *bomb) bool {
	r.ledger.instant = true
	all := func(j *trigger.Job) { j.Misfire = schedule.RunAll }
	r.job("hourly", cron("0 * * * *"), all)
	r.job("allow", cron("0 * * * *"), func(j *trigger.Job) { all(j); j.Overlap = schedule.OverlapAllow })
	r.job("queue", cron("0 1,2 * * *"), func(j *trigger.Job) { all(j); j.Overlap = schedule.OverlapQueueAll })
	r.job("after", trigger.Timing{Type: trigger.TypeAfter, After: &trigger.After{Job: "hourly", On: trigger.OnAny}}, func(j *trigger.Job) {
		j.Overlap = schedule.OverlapAllow
	})
	r.die()
	faulty := bombed{r.store, b, r.ledger}
	r.boot(process{objects: faulty, launcher: faulty})
	relay := relayed(t, r, faulty)
	pass(time.Hour + time.Second)
	deliver(t, r)
	relay.Wake()
	pass(time.Hour)
	deliver(t, r)
	relay.Wake()
	pass(5 * time.Minute)
	relay.die()
	r.die()
	r.boot(process{})
	relay = relayed(t, r, r.store)
	pass(2 * time.Minute)
	deliver(t, r)
	relay.Wake()
	pass(time.Minute)
	relay.die()
	r.expect("hourly", "01:00", "02:00")
	r.expect("allow", "01:00", "02:00")
	r.expect("queue", "01:00", "02:00")
	followed := map[string]int{}
	launches, _ := r.ledger.all()
	for _, in := range launches {
		if in.Job == "after" {
			followed[in.Key]++
		}
	}
	if len(followed) != 2 {
		t.Errorf("the job that follows has run for %v", followed)
	}
	for job, want := range map[string]int{"hourly": 2, "allow": 2, "queue": 2, "after": 2} {
		if v := r.view(job); v.RunCount != want || v.Waiting != 0 {
			t.Errorf("%s is told to have run %d times and %d wait, want %d and 0", job, v.RunCount, v.Waiting, want)
		}
	}
	if list, err := r.store.Outbox(t.Context(), 0, 10); err != nil || len(list) != 0 {
		t.Errorf("the outbox still holds %v, %v", list, err)
	}
	return b.blown
}

// running is a relay in a process.
type running struct {
	*trigger.Relay
	die func()
}

func relayed(t *testing.T, r *rig, outbox store.Outbox) running {
	relay := trigger.NewRelay(outbox, r.log, r.Schedules)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	return running{relay, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

// deliver puts the ends of all executions that have not been told yet into the outbox, as commits would.
func deliver(t *testing.T, r *rig) {
	t.Helper()
	launches, ids := r.ledger.all()
	for i, id := range ids {
		if in := launches[i]; in.Job == "hourly" && r.ledger.tell(id) {
			ended(t, r.store, id, in.Job, stepwell.ExecutionCompleted)
		}
	}
}

// ended commits an execution's end.
func ended(t *testing.T, s store.Committer, id, job string, status stepwell.ExecutionStatus) {
	t.Helper()
	no, err := s.(store.Loader).Numbers(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	hash := make([]byte, 32)
	if err := s.PutDefinition(t.Context(), hash, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	x := &store.Execution{No: no, ID: id, Pipeline: "p", Definition: hash, Origin: store.Origin{Job: job}, Status: status, Created: at, Started: at, Ended: at}
	err = s.Commit(t.Context(), []store.Commit{{Execution: no, Version: 1, Log: []byte("[]"), Create: x,
		Update: &store.Update{Status: status, Started: at.UnixMicro(), Ended: at.UnixMicro(), Progress: engine.Progress{}},
		Outbox: []store.Outgoing{{Kind: trigger.KindEnded, Execution: id, At: at, Body: fmt.Appendf(nil, `{"status":%q,"pipeline":"p","job":%q}`, status, job)}}}})
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever passes between restarts: with run_all and allow, every time of every job is started exactly once.
func TestEveryTimeOnce(t *testing.T) {
	if raceEnabled {
		t.Skip("takes minutes with the race detector; the other tests run the same code")
	}
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		problem := ""
		bubbleIn(t, fmt.Sprintf("%s/%d.db", dir, n), func(t *testing.T, r *rig) {
			r.ledger.instant = true
			overlap := rapid.SampledFrom([]schedule.Overlap{schedule.OverlapAllow, schedule.OverlapQueueAll}).Draw(rt, "overlap")
			r.job("a", trigger.Timing{Type: trigger.TypeInterval, Expression: "7m"}, func(j *trigger.Job) {
				j.Misfire, j.Overlap, j.JitterSeconds = schedule.RunAll, overlap, rapid.Int64Range(0, 900).Draw(rt, "jitter")
			})
			begun := time.Now()
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				b := &bomb{left: rapid.IntRange(1, 12).Draw(rt, "effects"), after: rapid.Bool().Draw(rt, "after")}
				r.die()
				pass(time.Duration(rapid.IntRange(0, 3600).Draw(rt, "down")) * time.Second)
				r.boot(process{objects: bombed{r.store, b, r.ledger}, launcher: bombed{r.store, b, r.ledger}})
				pass(time.Duration(rapid.IntRange(0, 3600).Draw(rt, "up")) * time.Second)
			}
			r.die()
			r.boot(process{})
			pass(20 * time.Minute)
			synctest.Wait()
			plan, err := schedule.Parse(schedule.Spec{Every: "7m"})
			if err != nil {
				t.Fatal(err)
			}
			until := time.Now().Add(-16 * time.Minute)
			seen := map[string]int{}
			for _, at := range r.ledger.times("a") {
				seen[at]++
			}
			for at := range plan.Between(begun.Add(time.Second), until) {
				key := at.UTC().Format("2006-01-02T15:04:05.000Z")
				if seen[key] != 1 {
					problem = fmt.Sprintf("%s was started %d times; all: %v", key, seen[key], r.ledger.times("a"))
				}
			}
			if v := r.view("a"); v.RunCount != r.ledger.count() {
				problem = fmt.Sprintf("told to have run %d times, has %d", v.RunCount, r.ledger.count())
			}
		})
		if problem != "" { // not inside the bubble: rapid leaves by a panic
			rt.Fatal(problem)
		}
	})
}
