package sim

import (
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// What is what has happened.
type What string

// What a Trace tells of, after it has happened.
const (
	Committed  What = "committed"  // Commits are durable
	Pushed     What = "pushed"     // an attempt goes to the workers; Once: it must not run twice
	Claimed    What = "claimed"    // a worker has been told that its attempt is recorded as running
	Begun      What = "begun"      // its action, or what stands for it, is called
	Signalled  What = "signalled"  // a new signal with the Key is durable
	Remembered What = "remembered" // a memo with the Key is durable
	Published  What = "published"  // Update
	Started    What = "started"    // who has asked for the execution ID is told that it is durable
	Booted     What = "booted"     // a process begins
)

// Trace is one thing that has happened. It is valid during the call.
type Trace struct {
	What    What
	At      time.Time
	Run     int64 // number of the execution
	Idx     int32
	Epoch   uint32
	Key     string
	ID      string
	Once    bool
	Value   []byte // of the memo
	Commits []store.Commit
	Update  *conductor.Update
}

func (w *World) trace(t Trace) {
	if w.o.Trace != nil {
		w.traced = t
		w.traced.At = w.Clock.at
		w.o.Trace(&w.traced)
	}
}

// stepOf is a step of an execution.
type stepOf struct {
	run int64
	idx int32
}

// key is that of a step that has been dispatched.
func (w *World) key(run int64, idx int32) string { return w.keys[stepOf{run, idx}] }
