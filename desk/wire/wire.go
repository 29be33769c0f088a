// Package wire is the protocol between a node and its workers: the documents, said once for HTTP and for streams.
//
// A worker joins, then takes turns: a turn carries outcomes in and tasks out. Between turns it calls what
// action.Host offers in process. Every call is a POST of a JSON object below Path; over a stream (Path + "stream", a
// WebSocket) the same calls are Requests, answered by Responses in any order.
//
// Times are durations in milliseconds: a worker's clock decides nothing. Unknown members are ignored. Stable.
package wire

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Protocol is the number of this protocol, Oldest the oldest that a node serves.
const (
	Protocol = 1
	Oldest   = 1
)

// Path is below what the calls are: Path + "join".
const Path = "/api/v1/worker/"

// Limits of one call.
const (
	MaxBody     = 32 << 20 // bytes
	MaxOutcomes = 1000
	MaxHolding  = 20_000
	MaxActions  = 1000
	MaxWaitMS   = 30_000
	MaxName     = 200 // bytes, of a worker, an action or a queue
)

// Action is an action that a worker serves. A node that knows it by its name needs nothing else.
type Action struct {
	Name          string       `json:"name"`
	Summary       string       `json:"summary,omitempty"`
	Params        []spec.Field `json:"params,omitempty"`
	OpenParams    bool         `json:"open_params,omitempty"`
	Outputs       []spec.Field `json:"outputs,omitempty"`
	NotIdempotent bool         `json:"not_idempotent,omitempty"`
	Cancels       bool         `json:"cancels,omitempty"`    // the worker takes Turned.Cancels of it
	Spawns        []string     `json:"spawns,omitempty"`     // names of the steps that it may spawn
	DependsOn     []string     `json:"depends_on,omitempty"` // of a spawned step that names none
	KeyParam      string       `json:"key_param,omitempty"`  // whose value is the key of a spawned step
}

// ActionOf describes an action under a name of it.
func ActionOf(s *spec.Spec, name string) Action {
	a := Action{Name: name, Summary: s.Summary, Params: s.Params, OpenParams: s.OpenParams, Outputs: s.Outputs}
	a.NotIdempotent, a.Cancels, a.Spawns, a.DependsOn, a.KeyParam = s.NotIdempotent, s.Cancels, s.Spawns, s.DependsOn, s.KeyParam
	return a
}

// Spec is what a node knows of an action that it has not itself. Without Params it takes any.
func (a *Action) Spec() spec.Spec {
	s := spec.Spec{Name: a.Name, Summary: a.Summary, Params: a.Params, OpenParams: a.OpenParams || len(a.Params) == 0, Outputs: a.Outputs, OpenOutputs: true}
	s.NotIdempotent, s.Cancels, s.Spawns, s.DependsOn, s.KeyParam = a.NotIdempotent, a.Cancels, a.Spawns, a.DependsOn, a.KeyParam
	return s
}

// Join begins a worker's time with a node, or begins it anew: what it held it still holds. A name belongs to the
// identity that joined under it; a second process under one name gets a name of its own, if both give an Instance.
type Join struct {
	Worker      string   `json:"worker"`
	Instance    string   `json:"instance,omitempty"` // names the process, at random: other processes have others
	Protocol    int      `json:"protocol"`
	Version     string   `json:"version,omitempty"`
	Queues      []string `json:"queues,omitempty"` // Defaults to all
	Concurrency int      `json:"concurrency"`
	Actions     []Action `json:"actions"`
	Holding     []ID     `json:"holding,omitempty"`
}

// Joined answers it.
type Joined struct {
	Node         string   `json:"node"`
	Worker       string   `json:"worker,omitempty"`  // the name in all calls that follow, where it is not the one that was asked for
	LeaseSeconds float64  `json:"lease_seconds"`     // what is held must be listed more often than that
	Nodes        []string `json:"nodes"`             // addresses of all nodes, to join each of them
	Address      string   `json:"address,omitempty"` // of this node, as messages in lists have it
	Streams      string   `json:"streams,omitempty"` // the identity under which segments of streams are handed over; "": they stay with the node
}

// JoinFirst is the hint of a call by a worker that has not joined the node.
const JoinFirst = "join first"

// ID names an attempt of a step.
type ID struct {
	StepID string `json:"step_id"` // "{execution_id}:{index}"
	Epoch  uint32 `json:"epoch"`
	Kind   string `json:"kind,omitempty"` // Cancel, of Turned.Cancels and their outcomes. Defaults to the attempt itself
}

// Cancel is the kind of a call that stops what a step has left going on outside.
const Cancel = "cancel"

// Step is the id of a step.
func Step(execution string, idx int32) string { return execution + ":" + strconv.Itoa(int(idx)) }

// Split takes a step's id apart. CodeInvalid.
func Split(step string) (execution string, idx int32, err error) {
	at := strings.LastIndexByte(step, ':')
	n, err := strconv.ParseInt(step[at+1:], 10, 32)
	if at <= 0 || err != nil || n < 0 {
		return "", 0, stepwell.Invalid(`a step's id is "{execution_id}:{index}"`, "step_id %q", stepwell.Head(step, MaxName))
	}
	return step[:at], int32(n), nil
}

// Turn carries outcomes in and asks for tasks.
type Turn struct {
	Worker   string    `json:"worker"`
	Instance string    `json:"instance,omitempty"` // as in Join
	Outcomes []Outcome `json:"outcomes,omitempty"`
	Holding  []ID      `json:"holding,omitempty"` // renews the leases of all listed
	Took     []ID      `json:"took,omitempty"`    // from a list: held from now on; what is not wanted comes in Stop
	Back     []ID      `json:"back,omitempty"`    // not begun, and not to be
	Want     int       `json:"want,omitempty"`    // at most so many tasks
	WaitMS   int       `json:"wait_ms,omitempty"` // for the first task, or for news in Stop
	Leaving  bool      `json:"leaving,omitempty"` // the worker goes; what it still holds is taken from it
}

// Turned answers a turn.
type Turned struct {
	Tasks []Task `json:"tasks"`
	Stop  []ID   `json:"stop"` // to be stopped; their outcomes are awaited
	// Cancels are calls that stop work outside, of steps that have ended: State names the work. They come besides what is wanted and
	// are not held; each is answered with an outcome of its id, completed or failed.
	Cancels   []Task    `json:"cancels,omitempty"`
	Committed []ID      `json:"committed"` // their outcomes are durable, or no longer wanted: forget them
	Refused   []Refused `json:"refused"`   // their outcomes never will be: forget them
	// Others are to be offered again.
	Drain bool     `json:"drain,omitempty"` // finish what is held, then leave: no more tasks will come
	Nodes []string `json:"nodes,omitempty"` // as in Joined, when they are others than before
}

// Refused says why an outcome is not taken.
type Refused struct {
	ID
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
}

// Task is a finished call: its parameters are rendered, checked and complete.
type Task struct {
	ID
	ExecutionID   string          `json:"execution_id"`
	ExecutionNo   int64           `json:"execution_no"`
	Pipeline      string          `json:"pipeline"`
	StepKey       string          `json:"step_key"`
	StepName      string          `json:"step_name"`
	Action        string          `json:"action"`
	Attempt       int             `json:"attempt"`
	Params        json.RawMessage `json:"params"`
	State         json.RawMessage `json:"state,omitempty"` // left by the call before that waited
	TimeoutMS     int64           `json:"timeout_ms"`
	Dir           string          `json:"dir,omitempty"`
	LogLevel      string          `json:"log_level,omitempty"`
	NotIdempotent bool            `json:"not_idempotent,omitempty"` // claim it before it begins
	Members       []Member        `json:"members,omitempty"`        // of a step that stands for several: those, itself included
	GoesOn        string          `json:"goes_on,omitempty"`        // id of the execution of which only failed items are repeated
	Media         string          `json:"media,omitempty"`          // name of the lesson's file in texts of params, to be replaced by the path of a copy, which the call media gives in parts
	Values        json.RawMessage `json:"values,omitempty"`         // what templates read that the action renders itself: an object, by name
}

// Member is one of the steps that a task stands for: the stream steps that items connect.
type Member struct {
	StepID   string `json:"step_id"`
	ID       string `json:"id"` // by which the outcome, lines and progress name it
	LogLevel string `json:"log_level,omitempty"`
}

// Message is a step in a list outside of the node, for whoever takes it from there. With Task it may begin at once, else
// a Claim answers the task; one that is no longer wanted is refused then, or its outcome is.
type Message struct {
	StepID      string `json:"step_id"`
	StepName    string `json:"step_name"`
	ExecutionID string `json:"execution_id"`
	Epoch       uint32 `json:"epoch"`
	Queue       string `json:"queue,omitempty"`
	Node        string `json:"node,omitempty"` // address of the node that awaits the outcome
	Task        *Task  `json:"task,omitempty"` // without secrets, and at most MaxTask bytes
}

// MaxTask is the size of the largest finished call in a Message, in bytes.
const MaxTask = 64 << 10

// The statuses of an outcome.
const (
	Completed = "completed"
	Failed    = "failed"
	Skipped   = "skipped"
	Waiting   = "waiting"
)

// Outcome is how an attempt ended.
type Outcome struct {
	ID
	Status       string          `json:"status"`
	Output       json.RawMessage `json:"output,omitempty"` // of a completed one: an object; of a failed one {"usage": …}, if it has used what its service counts
	Error        *Error          `json:"error,omitempty"`  // of a failed or skipped one
	Permanent    bool            `json:"permanent,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Defer        bool            `json:"defer,omitempty"` // does not count as an attempt
	RanMS        float64         `json:"ran_ms,omitempty"`
	Wait         *Wait           `json:"wait,omitempty"`
	// Resources are what the attempt has used of machine and network, where the worker knows. Values below zero count as zero.
	Resources *stepwell.Resources `json:"resources,omitempty"`
	Log       []Line              `json:"log,omitempty"` // the last lines
	// Of a task with members, Output is not used.
	Members []MemberOutcome `json:"members,omitempty"`
	Member  string          `json:"member,omitempty"`  // of a failed one: that Error is about
	Partial bool            `json:"partial,omitempty"` // items have failed
	// Footprints says that it is known where items are (action.Members). Workers of releases before 2026-11-29 do not say it.
	Footprints bool `json:"footprints,omitempty"`
}

// MemberOutcome is how one of the members ended: completed, unless it has an error or was stopped. A failed outcome in which none
// has says nothing of them but Items.
type MemberOutcome struct {
	ID        string          `json:"id"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     *Error          `json:"error,omitempty"`
	StoppedBy string          `json:"stopped_by,omitempty"` // the member whose failure stopped it
	Items     *action.Counts  `json:"items,omitempty"`      // if Output does not say them
}

// Error is a failure.
type Error struct {
	Code    stepwell.Code `json:"code,omitempty"` // Defaults to failed
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
}

// Wait is a step without a worker, as action.WaitError has it.
type Wait struct {
	AfterMS   int64           `json:"after_ms,omitempty"` // 0, with await: no time
	Resume    bool            `json:"resume,omitempty"`
	State     json.RawMessage `json:"state,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Await     bool            `json:"await,omitempty"`
	Elsewhere bool            `json:"elsewhere,omitempty"`
	Require   string          `json:"require,omitempty"`
	External  string          `json:"external_id,omitempty"`
}

// Claim says that a held attempt begins, or takes one that the worker knows from a list: then it begins, and the answer is
// its Task. 409: it must not begin. A worker need not have joined to claim.
type Claim struct {
	Worker string  `json:"worker"`
	StepID string  `json:"step_id"`
	Epoch  uint32  `json:"epoch,omitempty"` // Defaults to the attempt that is in a list
	Take   bool    `json:"take,omitempty"`  // it does not begin yet
	RanMS  float64 `json:"ran_ms,omitempty"`
}

// Spawn adds steps.
type Spawn struct {
	Worker string    `json:"worker"`
	Epoch  uint32    `json:"epoch"`
	Steps  []NewStep `json:"steps"`
}

// NewStep is action.NewStep, with numbers as they are written. Its "timeout" is ignored.
type NewStep struct {
	action.NewStep
	DependsOn      []string        `json:"depends_on"` // null: those of its action
	Params         json.RawMessage `json:"params,omitempty"`
	TimeoutSeconds float64         `json:"timeout_seconds,omitempty"`
}

// Line is a line of a step's log.
type Line struct {
	Level   string          `json:"level"` // debug, info, warning or error
	Message string          `json:"message"`
	Attrs   json.RawMessage `json:"metadata,omitempty"` // an object
	Member  string          `json:"member,omitempty"`   // whose line it is. Defaults to the task's step
}

// Log adds lines.
type Log struct {
	Worker string `json:"worker"`
	Epoch  uint32 `json:"epoch"`
	Lines  []Line `json:"lines"`
}

// Progress is the share done.
type Progress struct {
	Worker   string           `json:"worker"`
	Epoch    uint32           `json:"epoch"`
	Fraction float64          `json:"fraction"`
	Note     string           `json:"note,omitempty"`
	Advanced bool             `json:"advanced,omitempty"` // the next attempt need not repeat it all: the loss of this one does not count
	Members  []MemberProgress `json:"members,omitempty"`
}

// MemberProgress is the share done of a member, 0: not known, and its items.
type MemberProgress struct {
	ID       string  `json:"id"`
	Fraction float64 `json:"fraction,omitempty"`
	action.Counts
	Total int64 `json:"items_total,omitempty"` // expected, 0: not known
}

// Memo records a value under a key (Value), or asks for the recorded one (no Value).
type Memo struct {
	Worker string          `json:"worker"`
	Epoch  uint32          `json:"epoch"`
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// Own makes work outside known, as action.Host.Own does.
type Own struct {
	Worker string          `json:"worker"`
	Epoch  uint32          `json:"epoch"`
	State  json.RawMessage `json:"state"`
}

// Outputs asks for the outputs of a step of the same execution, named by the call, or with none for those of all, merged.
type Outputs struct {
	Worker string `json:"worker"`
	Epoch  uint32 `json:"epoch"`
}

// Media asks for a part of the file that the attempt's Task.Media names.
type Media struct {
	Worker string `json:"worker"`
	Epoch  uint32 `json:"epoch"`
	Offset int64  `json:"offset"`
}

// MediaPart is what lies behind the offset: at most MaxMedia bytes, in base64.
type MediaPart struct {
	Size int64  `json:"size"` // of the whole file
	Data []byte `json:"data"`
}

// MaxMedia bounds a MediaPart, in bytes.
const MaxMedia = 4 << 20

// Callback asks for the address at which something outside can end the step while it awaits the key.
type Callback struct {
	Worker string `json:"worker"`
	Epoch  uint32 `json:"epoch"`
}

// Address answers it. It stays the same for the attempts of a step until one has awaited it.
type Address struct {
	Key string `json:"key"` // to be awaited, as external_id
	URL string `json:"url"`
}

// Value answers Memo and Outputs.
type Value struct {
	Found bool            `json:"found"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Problem is the body of every answer that is not a success.
type Problem struct {
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
	Hint    string        `json:"hint"`
}

// Request is a call on a stream: Call is what follows Path, No is the worker's number for it.
type Request struct {
	No   int64           `json:"no"`
	Call string          `json:"call"`
	Body json.RawMessage `json:"body"`
}

// Response answers the request of its number: Status is that of HTTP.
type Response struct {
	No     int64           `json:"no"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}
