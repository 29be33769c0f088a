package trigger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Many change, start, pause and fill jobs while these fire: every start is counted, before and after a restart, and no
// time has fired twice.
func TestManyHands(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ledger.instant = true
		pass(time.Hour)
		const jobs = 5
		for i := range jobs {
			overlap := []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueueAll, schedule.OverlapQueueOne, schedule.OverlapCancelRunning}[i]
			r.job(fmt.Sprint("job-", i), trigger.Timing{Type: trigger.TypeInterval, Expression: "@every 1s"}, func(j *trigger.Job) { j.Overlap = overlap })
		}
		var hands sync.WaitGroup
		for n := range 8 {
			hands.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(n)))
				for range 60 {
					if err := anything(t, r, fmt.Sprint("job-", random.IntN(jobs)), random.IntN(5)); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // of the bubble
				}
			})
		}
		hands.Wait()
		for i := range jobs {
			if _, err := r.Resume(t.Context(), fmt.Sprint("job-", i)); err != nil {
				t.Fatal(err)
			}
		}
		pass(3 * time.Minute)
		for i := range jobs {
			if _, err := r.Pause(t.Context(), fmt.Sprint("job-", i)); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		counted := func(when string) {
			for i := range jobs {
				id, runs := fmt.Sprint("job-", i), 0
				seen := map[string]bool{}
				launches, _ := r.ledger.all()
				for _, in := range launches {
					if in.Job == id {
						runs++
					}
				}
				for _, at := range r.ledger.times(id) {
					if seen[at] {
						t.Errorf("%s has fired twice for %s", id, at)
					}
					seen[at] = true
				}
				if v := r.view(id); v.RunCount != runs || v.Waiting != 0 {
					t.Errorf("%s, %s says %d runs and %d that wait, there were %d", when, id, v.RunCount, v.Waiting, runs)
				}
			}
		}
		counted("before the restart")
		r.die()
		r.boot(process{})
		counted("after it")
	})
}

// anything does something to a job.
func anything(t *testing.T, r *rig, job string, what int) (err error) {
	switch what {
	case 0:
		_, err = r.Update(t.Context(), job, store.AnyRevision, func(j *trigger.Job) error { j.Description += "x"; return nil })
	case 1:
		_, err = r.Trigger(t.Context(), job, pipeline.Launch{})
	case 2:
		_, err = r.Pause(t.Context(), job)
	case 3:
		_, err = r.Resume(t.Context(), job)
	case 4:
		to := time.Now().Truncate(time.Second)
		if v, e := r.Job(job); e != nil || v.Status != trigger.StatusActive {
			return e
		}
		if _, err := r.Backfill(t.Context(), job, trigger.BackfillRange{From: to.Add(-5 * time.Second), To: to}, ""); err != nil {
			t.Log(err) // paused meanwhile
		}
	}
	return err
}
