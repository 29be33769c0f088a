// Package scenario tests pipelines: it reads test files (NAME.test.yaml), runs each test in a world of package sim, and compares what
// came of it with what was expected. docs/testing.md is its description for people.
//
// Equal files give equal reports. Bounds: 10,000 tests in a file, and for each test those of sim.Options.
package scenario

import (
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/spec"
)

// Test is one test, a row of a table filled in.
type Test struct {
	Name     string
	File     string // of the test
	Pos      spec.Pos
	Pipeline string // file; "": a schedule is tested
	At       time.Time
	Params   map[string]any
	Secrets  map[string]string
	// Open tests do not say how the execution must end: their caller looks at Result.Played.
	Open bool

	actions  []string // of workers elsewhere
	unmocked string
	real     []string
	foreign  bool            // it names its own pipeline: what its file says for all tests counts as far as it fits
	params   map[string]bool // that the test itself gives
	row      map[string]any
	own      []*mock // those of the test count before those of its file
	shared   []*mock
	planned  []*planned
	expect   *expectation
	asserts  []assertion
	snapshot []string
	timing   *timing
	items    map[string]*spec.Node  // of sources, by step
	def      *definition.Definition // nil: that of Pipeline
	tape     *tape                  // of an execution that is played again; nil: the mocks say what happens
}

// The treatments of steps without a mock whose action has effects outside of the test.
const (
	unmockedFails = "fail"
	unmockedEmpty = "empty"
	unmockedReal  = "real"
)

// fileKeys are the keys of a test file.
type fileKeys struct {
	commonKeys
	Actions []string `json:"actions" doc:"Actions that only workers elsewhere have; they are mocked."`
	Tests   any      `json:"tests" required:"true" doc:"The tests."`
}

// commonKeys are those of a file, for all its tests, and of a test, which count more.
type commonKeys struct {
	Pipeline string            `json:"pipeline" doc:"The pipeline's file, relative to this one. Defaults to the file beside it that has its name without .test."`
	At       string            `json:"at" doc:"Where the clock starts, RFC 3339."`
	Params   map[string]any    `json:"params" doc:"Parameters of the execution."`
	Secrets  map[string]string `json:"secrets" doc:"Secrets by name. A test fails if one shows up in logs, outputs, errors or events."`
	Mock     any               `json:"mock" aka:"mocks" doc:"How attempts end, by step or action."`
	Real     []string          `json:"real" doc:"Steps whose actions run."`
	Unmocked string            `json:"unmocked" enum:"fail,empty,real" doc:"What becomes of steps without a mock."`
}

// testKeys are the keys of a test.
type testKeys struct {
	Name string `json:"name" required:"true" doc:"Says what must be true."`
	commonKeys
	Table    any         `json:"table" aka:"rows" doc:"The test is run for each row, which templates read as row."`
	When     any         `json:"when" doc:"What happens meanwhile."`
	Expect   any         `json:"expect" aka:"expected" doc:"What must have come of it."`
	Assert   any         `json:"assert" aka:"asserts" doc:"Expressions that must be true."`
	Snapshot []string    `json:"snapshot" doc:"What must be as it was recorded: plan, calls, history, outputs."`
	Schedule *timingKeys `json:"schedule" doc:"A schedule, instead of a pipeline."`
	Fires    []string    `json:"fires" doc:"When the schedule fires, from at on."`
	Items    any         `json:"items" doc:"What sources of streams give, by step."`
}

// timingKeys are the keys of a schedule.
type timingKeys struct {
	Expression string `json:"expression" aka:"cron" doc:"A cron expression."`
	Every      string `json:"every" doc:"An interval."`
	At         string `json:"at" doc:"One time."`
	Timezone   string `json:"timezone" aka:"zone" doc:"An IANA name."`
	Skipped    string `json:"skipped" enum:"run_after,skip"`
	Repeated   string `json:"repeated" enum:"first,second,both"`
	Misfire    string `json:"misfire" enum:"skip,run_once,run_all" doc:"With down_until: which of the missed firings are made up for."`
	DownUntil  string `json:"down_until" doc:"Nothing fires until then, as after an outage; fires are those that are made up for then."`
}

// timing is a schedule that is tested.
type timing struct {
	*schedule.Schedule
	misfire schedule.Misfire
	down    time.Time
	fires   []firing
	pos     spec.Pos
}

type firing struct {
	at  time.Time
	pos spec.Pos
}

// assertion is an expression that must be true.
type assertion struct {
	*expr.Template
	pos spec.Pos
}

// expectation is what must have come of an execution. Nodes say where it stands.
type expectation struct{ node *spec.Node }

var shapes = func() (s struct{ file, test, outcome, planned *spec.Shape }) {
	all := spec.NewShapes([]spec.Keys{{Of: fileKeys{}, What: "the test file"}, {Of: testKeys{}, What: "a test"}, {Of: outcomeKeys{}, What: "an outcome"},
		{Of: plannedKeys{}, What: "an entry of when"}, {Of: timingKeys{}, What: "a schedule"}, {Of: waitKeys{}, What: "a wait"}, {Of: action.NewStep{}, What: "a spawned step"},
		{Of: decisionKeys{}, What: "a decision"}, {Of: signalKeys{}, What: "a signal"}})
	s.file, s.test, s.outcome, s.planned = all.Of(fileKeys{}), all.Of(testKeys{}), all.Of(outcomeKeys{}), all.Of(plannedKeys{})
	return s
}()
