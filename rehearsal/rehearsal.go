// Package rehearsal tests, crashes, checks and replays definitions that somebody else sends, in a process of its own: this program
// again, with a request on its standard input and an answer on its output. Nothing outside is called: no action runs that has effects,
// no file is read, and there are no snapshots (scenario.Options.Closed).
//
// The process may use 256 MB of memory and 10 seconds, and is ended at both. It gets no variable of the environment whose name speaks
// of a key, a token, a secret or a password.
package rehearsal

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/lab"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/spec"
)

// Limits of one rehearsal.
const (
	MaxTime   = 10 * time.Second
	MaxMemory = 256 << 20
	MaxFiles  = 20 // sub-pipelines
	maxSent   = 32 << 20
)

// The kinds of rehearsals.
const (
	Lint   = "lint"   // find mistakes
	Test   = "test"   // run the tests
	Lab    = "lab"    // crash the tests
	Replay = "replay" // play one recording with another definition
	Past   = "past"   // play several
	Plan   = "plan"   // lay out: the answer is that it can be done within the limits
)

// Request is one rehearsal.
type Request struct {
	Kind      string            `json:"kind"`
	Document  string            `json:"document"`            // the definition
	Tests     string            `json:"tests,omitempty"`     // of Test and Lab: a test file
	Pipelines map[string]string `json:"pipelines,omitempty"` // definitions that it runs, by name
	Actions   []api.Action      `json:"actions,omitempty"`   // all that there are: those of workers and plugins are announced
	Params    map[string]any    `json:"params,omitempty"`    // of Plan
	Run       string            `json:"run,omitempty"`       // a regular expression of names of tests
	Schedule  string            `json:"schedule,omitempty"`  // of Lab: the one schedule to run
	Seed      uint64            `json:"seed,omitempty"`
	Fails     bool              `json:"fails,omitempty"` // of replays: steps of which nothing is known fail
	Recorded  []Recorded        `json:"recorded,omitempty"`
}

// Recorded is an execution with the definition that it ran.
type Recorded struct {
	Recording  *scenario.Recording `json:"recording"`
	Definition json.RawMessage     `json:"definition"`
}

// Answer is what came of a rehearsal: of the kind that was asked for.
type Answer struct {
	Failure  *Failure           `json:"failure,omitempty"`
	Problems []spec.Problem     `json:"problems,omitempty"`
	Test     *scenario.Report   `json:"test,omitempty"`
	Lab      *lab.Report        `json:"lab,omitempty"`
	Replay   *scenario.Replayed `json:"replay,omitempty"`
	Past     *scenario.Backtest `json:"past,omitempty"`
}

// Failure is why there is no answer.
type Failure struct {
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
}
