package conductor_test

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
)

// heldBy are the reasons for which an execution is held: one at a time here.
var heldBy = map[string]struct {
	settings string
	set      func(*conductor.Options)
}{
	"the limit of the process": {"", limited(1)},
	"a key":                    {byKey, nil},
	"a key and the limit":      {byKey, limited(1)},
}

// unbegun checks that an execution is paused, and that nothing of it has run.
func (r *rig) unbegun(id string) {
	r.t.Helper()
	x, err := r.store.Execution(r.t.Context(), id)
	if err != nil || x.Status != stepwell.ExecutionPaused || !x.Held() {
		r.t.Fatalf("want a paused execution that has not begun: %+v, error %v", x, err)
	}
}

func (r *rig) pause(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		if err := r.Pause(r.t.Context(), id); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) resume(id string) {
	r.t.Helper()
	if err := r.Resume(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
}

// A held execution that is paused is not admitted, keeps no other one from it, also after a crash, and gets its turn in order once it is
// resumed.
func TestPauseOfAHeldExecution(t *testing.T) {
	for why, by := range heldBy {
		t.Run(why, func(t *testing.T) {
			g, db := newGate(), filepath.Join(t.TempDir(), "held.db")
			b := build{db: db, actions: actions(g), set: by.set}
			r := newRig(t, b)
			p := gated(t, r, by.settings)
			first, paused, dropped, last := r.start(p, 0, nil), r.start(p, 0, nil), r.start(p, 0, nil), r.start(p, 0, nil)
			<-g.begun
			r.pause(paused, paused, dropped)
			r.unbegun(paused)
			if err := r.Restart(t.Context(), paused, "a", false); stepwell.CodeOf(err) != stepwell.CodeConflict {
				t.Errorf("restarted: %v", err)
			}
			if err := r.Cancel(t.Context(), dropped, ""); err != nil {
				t.Fatal(err)
			}
			r.end(dropped, stepwell.ExecutionCancelled)
			r.counts(2, 1)
			r.stop()

			g = newGate()
			b.actions = actions(g)
			r = newRig(t, b)
			if err := r.RecoverAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := (<-g.begun).Execution; again != first {
				t.Fatalf("%s begins again, want %s", again, first)
			}
			if next := letGo(g); next != last {
				t.Fatalf("%s begins, want %s, as %s is paused", next, last, paused)
			}
			r.unbegun(paused)
			r.resume(paused)
			r.resume(paused)
			r.status(paused, stepwell.ExecutionPending)
			if next := letGo(g); next != paused {
				t.Fatalf("%s begins, want %s", next, paused)
			}
			g.open <- struct{}{}
			r.end(paused, stepwell.ExecutionCompleted)
			r.counts(0, 0)
		})
	}
}

// An execution that is paused and resumed while it is held keeps its place before later ones.
func TestPausedAndResumedInItsTurn(t *testing.T) {
	for why, by := range heldBy {
		t.Run(why, func(t *testing.T) {
			g := newGate()
			r := newRig(t, build{actions: actions(g), set: by.set})
			p := gated(t, r, by.settings)
			_, second, third := r.start(p, 0, nil), r.start(p, 0, nil), r.start(p, 0, nil)
			<-g.begun
			r.pause(second)
			r.resume(second)
			if next := letGo(g); next != second {
				t.Errorf("%s begins, want %s", next, second)
			}
			if next := letGo(g); next != third {
				t.Errorf("%s begins, want %s", next, third)
			}
			g.open <- struct{}{}
			r.end(third, stepwell.ExecutionCompleted)
		})
	}
}

// A pause at the moment of the admission comes before it or after it: the execution has not begun and the next one has its turn, or it is
// paused as a running one. In both cases it goes on when it is resumed.
func TestPauseAgainstAdmission(t *testing.T) {
	for why, by := range heldBy {
		t.Run(strings.ReplaceAll(why, " ", "_"), func(t *testing.T) {
			g := newGate()
			r := newRig(t, build{actions: actions(g), set: by.set})
			p := gated(t, r, by.settings)
			before := 0
			for i := range 30 {
				first, second, third := r.start(p, 0, nil), r.start(p, 0, nil), r.start(p, 0, nil)
				if began := (<-g.begun).Execution; began != first {
					t.Fatalf("%s began, want %s", began, first)
				}
				ended := make(chan struct{})
				go func() {
					g.open <- struct{}{}
					close(ended)
				}()
				if i%2 == 0 {
					<-ended
					for range i * 100 { // sometimes it has been admitted by then
						runtime.Gosched()
					}
				}
				r.pause(second)
				<-ended
				x, err := r.store.Execution(t.Context(), second)
				if err != nil || x.Status != stepwell.ExecutionPaused {
					t.Fatalf("after the pause: %+v, error %v", x, err)
				}
				if x.Held() {
					before++
					if next := (<-g.begun).Execution; next != third {
						t.Fatalf("%s begins, want %s", next, third)
					}
				}
				r.resume(second)
				for range 2 {
					g.open <- struct{}{}
				}
				r.end(second, stepwell.ExecutionCompleted)
				r.end(third, stepwell.ExecutionCompleted)
				for len(g.begun) > 0 {
					<-g.begun
				}
			}
			t.Logf("%d of 30 pauses came first", before)
			r.counts(0, 0)
		})
	}
}
