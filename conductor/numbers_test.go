package conductor_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
)

// Executions get their numbers from blocks: a start asks the store for none of its own, and goes on while the store does not
// answer for the next block.
func TestNumbersComeInBlocks(t *testing.T) {
	var asked atomic.Int32
	answer := make(chan struct{})
	r := newRig(t, build{faulty: &faulty{numbers: func() error {
		if asked.Add(1) == 2 {
			<-answer
		}
		return nil
	}}})
	p := r.register(pipeline(t, one("t.echo")))
	seen := map[int64]bool{}
	begin := func(n int) {
		for range n {
			id, err := r.Start(t.Context(), conductor.Request{Pipeline: p})
			if err != nil {
				t.Fatal(err)
			}
			if x := r.end(id, stepwell.ExecutionCompleted); seen[x.No] {
				t.Fatalf("number %d was given twice", x.No)
			} else {
				seen[x.No] = true
			}
		}
	}
	begin(1000)
	if n := asked.Load(); n != 2 {
		t.Errorf("the store was asked %d times", n)
	}
	close(answer)
	begin(100)
	if n := asked.Load(); n != 2 {
		t.Errorf("the store was asked %d times", n)
	}
}

// A store that lacks its last commits, such as a standby that has taken over, may give numbers again that executions have: in memory here,
// or in the store. The start takes others, and nobody is told.
func TestNumbersGivenAgain(t *testing.T) {
	for _, held := range []bool{true, false} {
		f := &faulty{}
		var asked atomic.Int32
		f.given = func(first int64) int64 {
			if asked.Add(1) == 2 {
				return 1
			}
			return first
		}
		g := newGate()
		r := newRig(t, build{faulty: f, actions: actions(g)})
		var waits string
		if held {
			waits = r.begin(pipeline(t, one("t.gate")))
			<-g.begun
		}
		p := r.register(pipeline(t, one("t.echo")))
		seen := map[int64]bool{}
		for range 1030 {
			id, err := r.Start(t.Context(), conductor.Request{Pipeline: p})
			if err != nil {
				t.Fatal(err)
			}
			if x := r.end(id, stepwell.ExecutionCompleted); seen[x.No] || held && x.No == 1 {
				t.Fatalf("number %d was given twice", x.No)
			} else {
				seen[x.No] = true
			}
		}
		if n := asked.Load(); n < 3 {
			t.Errorf("the store was asked %d times: no number was given again", n)
		}
		close(g.open)
		if held {
			r.end(waits, stepwell.ExecutionCompleted)
		}
	}
}

// A store that has no numbers refuses the start that waits for one, and no later one.
func TestNumbersRefused(t *testing.T) {
	f := &faulty{}
	failed := false
	f.numbers = func() error {
		if failed = !failed; failed {
			return errors.New("no numbers today")
		}
		return nil
	}
	r := newRig(t, build{faulty: f})
	p := r.register(pipeline(t, one("t.echo")))
	if _, err := r.Start(t.Context(), conductor.Request{Pipeline: p}); err == nil {
		t.Error("it was started without a number")
	}
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
}
