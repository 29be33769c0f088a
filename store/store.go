// Package store is the durable half of Stepwell: definitions, executions, steps and the step log.
// It holds the types that every database shares; each reader declares the few methods it needs
// (Committer and Loader for the conductor, Reader for the API, Records for the worker). Package storetest
// is the contract of a store; every database passes it.
//
// The shape (docs/decisions.md, "commit path"): an execution has one row, written at its start
// and at its changes of status; a step has a row once it has ended, waits, or is seen running for
// long; the step log has one row per execution and commit. The key of that row, (execution,
// version), fences every write: the commit of an existing version has lost a race.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// Commit is the change of one execution by one batch. All commits of a call are one transaction.
type Commit struct {
	Execution int64
	// Version is the number of this commit within the execution, from 1 without gaps.
	Version int64
	// Log is the engine's record of the batch (engine.AppendBatch).
	Log []byte
	// Steps replace the rows of their indexes. StepRow.Again says which of them may have one: the others are new.
	Steps []engine.StepRow
	// Superseded steps keep their rows, so that the log can name them, but are no longer listed and
	// their outputs no longer count. They are marked after Steps.
	Superseded []engine.Superseded
	// Forget lists the steps whose memos are removed; their former attempts cannot record any more.
	Forget []engine.Forgotten
	// Create inserts the execution first; set in version 1 only.
	Create *Execution
	// Update changes the execution's own row; nil when nothing of it changed.
	Update *Update
	// Outbox holds entries stored with this commit, removed after their delivery.
	Outbox []Outgoing
	// Outside is work that the steps have given up with this commit: it is to be stopped.
	Outside []OutsideWork
	// Taken are the keys of signals that this commit has used up: all that have come under them until then are
	// kept for finding duplicates, but are no longer pending.
	Taken []string
	// Progress is added to the progress of projects, and finishes those that it brings over their finish line
	// (ProgressChange). Unknown projects are not created.
	Progress []Count
	// Usage is added to sums (UsageOf).
	Usage []Used
}

// Execution is the row of an execution.
type Execution struct {
	No         int64 // assigned by the process that creates it, see Loader.Numbers
	ID         string
	Pipeline   string
	Definition []byte // hash of the snapshot, see Committer.PutDefinition
	Params     json.RawMessage
	Parent     string // id of the execution that this one retries, "" for none
	Trigger    string // manual, retry, scheduled, webhook, event
	Origin
	Dir      string // directory for relative paths of its steps
	Status   stepwell.ExecutionStatus
	Created  time.Time
	Started  time.Time // zero: not yet
	Ended    time.Time // zero: not yet
	Outputs  json.RawMessage
	Failure  *engine.Failure
	Progress engine.Progress
	Version  int64 // of the last commit; filled by readers
	// Owner is the process that runs it; 0: none. It is stored with Create and set by Claim; a Reader leaves it out.
	Owner int64
}

// Held reports whether the execution waits for its admission, or was paused before it: nothing of it has run.
func (x *Execution) Held() bool {
	return x.Status == stepwell.ExecutionPending || x.Status == stepwell.ExecutionPaused && x.Started.IsZero()
}

// Origin says where an execution comes from. All of it is optional.
type Origin struct {
	Workflow        string // id of the stored pipeline
	WorkflowVersion int    // its version
	Job             string // id of the schedule, webhook or event trigger that started it
	Actor           string // the requester (budpipeline: triggered_by)
	Project         string // counts its items; of a retry, those of the execution that it retries
	Lesson          string // that it is a run for; a retry is for that of the execution that it retries
	Partition       string // key of the one that it makes (settings.partition); "": none, or not known of an execution of before 2026-11-29
	// Key makes the start happen once: a second start with the key finds the first (StartKeys). Written with
	// Create, not read back with the row.
	Key     string
	KeyHash []byte // of the request, to distinguish a repetition from another request with this key
	// Concurrency is the value of settings.concurrency.key: executions that share it share its limit.
	Concurrency string
	Priority    int
}

// Update is a change of an execution's status.
type Update struct {
	Status   stepwell.ExecutionStatus
	Started  int64 // µs, 0: unchanged
	Ended    int64 // µs, 0: not ended (a restart clears it)
	Outputs  json.RawMessage
	Failure  *engine.Failure
	Progress engine.Progress
}

// Why says why a commit cannot be made.
type Why uint8

// The reasons to refuse a commit.
const (
	VersionTaken Why = iota + 1 // its version, or the number of the execution that it creates, exists: another process has written it
	VersionGap                  // the version before its own does not exist
	IDTaken                     // the id of the execution that it creates exists
	KeyTaken                    // an execution was started under its start key already
)

// Refusal is a commit that cannot be made: Err is CodeConflict, or CodeInternal for a gap.
type Refusal struct {
	Execution int64
	Why       Why
	Err       error
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap gives Err.
func (r *Refusal) Unwrap() error { return r.Err }

// RefusedError lists the executions whose commits cannot be made, each once. Nothing of the call was stored: without
// these executions the same call succeeds.
type RefusedError struct{ Refusals []Refusal }

func (e *RefusedError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap gives the refusals (*Refusal).
func (e *RefusedError) Unwrap() []error {
	list := make([]error, len(e.Refusals))
	for i := range e.Refusals {
		list[i] = &e.Refusals[i]
	}
	return list
}

// LogLine is one line of a step's own log.
type LogLine struct {
	Seq       int64           `json:"seq"` // order within the execution, from 1, with gaps; set by the store. Another execution may have the same
	Execution int64           `json:"-"`
	Step      int32           `json:"-"`
	StepKey   string          `json:"step_id"` // as its writer knows it
	Attempt   int             `json:"attempt,omitempty"`
	At        time.Time       `json:"timestamp"`
	Level     string          `json:"level"` // debug, info, warning, error
	Message   string          `json:"message"`
	Attrs     json.RawMessage `json:"metadata,omitempty"` // an object
}

// LogSpan is neighbouring log lines of an execution.
type LogSpan struct {
	First, Until int64     // the Seq of the first line, and one that is above that of the last
	At           time.Time // of the first line
	Lines        int
	Debug        int
	Warnings     int
	Errors       int // the lines that are none of these are info
}

// Request is another process's request to the one that runs executions.
type Request struct {
	No        int64
	Owner     int64 // of the process that it is for; 0: any
	Execution string
	Kind      string // cancel, pause, resume, restart
	Body      json.RawMessage
	Owed      bool // taken, and still there
}

// Memo is a value that a step recorded for its later attempts (action.Once).
type Memo struct {
	Execution int64
	Step      int32
	Epoch     uint32 // of the attempt that recorded it
	Key       string
	Value     json.RawMessage
}

// Committer has the conductor's writes. Its methods are safe for concurrent use; the store serialises them: there is
// one writer.
type Committer interface {
	// Commit stores all commits in one durable transaction, or none: *RefusedError when some of them cannot be made.
	Commit(ctx context.Context, commits []Commit) error
	// AppendLogs stores log lines; durable with the next commit at the latest.
	AppendLogs(ctx context.Context, lines []LogLine) error
	// PutDefinition stores a snapshot under its hash; storing it again is free.
	PutDefinition(ctx context.Context, hash, body []byte) error
	// PutRequest leaves a request for the process that runs executions.
	PutRequest(ctx context.Context, r Request) error
	// TakeRequests removes and returns up to limit requests for an owner or for any, oldest first. One whose Owed is set stays, as the owner's, until
	// RequestDone: it comes again if the process dies before.
	TakeRequests(ctx context.Context, owner int64, limit int) ([]Request, error)
	// RequestDone removes a request. Twice is harmless.
	RequestDone(ctx context.Context, no int64) error
	// StartKey finds the execution started under a key; CodeNotFound.
	StartKey(ctx context.Context, key string) (*StartKey, error)
}

// Loader has the conductor's reads to begin and rebuild executions.
type Loader interface {
	// Numbers reserves n numbers for new executions, from first on, never reused. They ascend with every call of one
	// process. Unused ones leave a gap.
	Numbers(ctx context.Context, n int) (first int64, err error)
	// Claim makes owner the owner of up to limit unfinished executions without an owner, higher priority first, then
	// the oldest, and returns them. Concurrent callers get different ones. Executions of dead owners have no owner.
	Claim(ctx context.Context, owner int64, limit int) ([]Execution, error)
	// Definition is the snapshot with the hash, CodeNotFound if there is none.
	Definition(ctx context.Context, hash []byte) ([]byte, error)
	// StepLog yields the execution's log bodies in order of version, from after the given one.
	StepLog(ctx context.Context, execution, after int64) iter.Seq2[LogEntry, error]
	// StepLogs yields the whole logs of many executions, one execution after the other.
	StepLogs(ctx context.Context, executions []int64) iter.Seq2[LogEntry, error]
	// Outputs yields the outputs of completed steps in the order in which they ended.
	Outputs(ctx context.Context, execution int64) iter.Seq2[engine.StepRow, error]
}

// LogEntry is one row of the step log. Readers leave Body as it is.
type LogEntry struct {
	Execution int64
	Version   int64
	Body      []byte
}

// Filter selects executions. Zero fields select all.
type Filter struct {
	Statuses []stepwell.ExecutionStatus
	Pipeline string `query:"pipeline" maxLength:"255" doc:"Name of the pipeline."`
	Workflow string `query:"workflow_id" maxLength:"100"` // id of the stored pipeline
	// WorkflowVersion is its version; 0: any.
	WorkflowVersion int    `query:"workflow_version" minimum:"0" maximum:"1000000" doc:"A version of the stored pipeline; 0: any."`
	Job             string `query:"job_id" maxLength:"100"` // id of the schedule, webhook or event trigger
	Project         string `query:"project" maxLength:"200" doc:"Executions that were started for the project, and retries of them."`
	Lesson          string `query:"lesson" maxLength:"200" doc:"Executions that were started for the lesson, and retries of them."`
	Trigger         string `query:"trigger_type" maxLength:"100"`
	Parent          string `query:"parent_id" maxLength:"36"` // id of the execution that was retried
	Partition       string // of settings.partition. Quick for executions under way; asked with Workflow and Statuses
	// Footprints selects executions with Progress.Footprints: none of before 2026-11-29 has it.
	Footprints bool      `query:"footprints" doc:"Only executions whose streams have items with a bbox, as footprints says: a map shows where they are."`
	From       time.Time `query:"from" doc:"Created at this time or later."`
	To         time.Time `query:"to" doc:"Created before this time."`
	Before     string    `query:"before" maxLength:"36" doc:"Older than the execution with this id."`
	Limit      int       // Defaults to 50, at most 1,000
}

// Step is a step as people see it: every step of the execution has one, with or without a row.
type Step struct {
	engine.StepRow
	Name string // of the definition
}

// StepFilter selects steps. Zero fields select all.
type StepFilter struct {
	Statuses []stepwell.StepStatus
	Key      string
	From     int32 // index to begin at: that of the last one of the page before, plus 1
	Limit    int   // Defaults to 1,000, at most 10,000
}

// LogFilter selects log lines.
type LogFilter struct {
	StepKey string
	Level   string // at least this level
	After   int64  // Seq of the last line of the page before
	Before  int64  // only lines with a lower Seq; 0: all
	Since   time.Time
	Until   time.Time // only lines before it; zero: all
	Attempt int       // of the step; 0: all
	Tail    int       // the last n lines only
	Limit   int       // Defaults to 1,000, at most 10,000
}

// LogTexts is what some log lines say, and the lowest and the highest of their Seqs; those are 0 without lines.
type LogTexts struct {
	Messages    []string
	First, Last int64
}

// Reader has the reads of the API and the feed.
type Reader interface {
	// Execution finds one by id or by a unique beginning of it; CodeNotFound, CodeConflict when
	// several begin so.
	Execution(ctx context.Context, id string) (*Execution, error)
	// Beginning lists executions whose ids begin so, at most limit, in order of id. CodeInvalid when id is empty.
	Beginning(ctx context.Context, id string, limit int) ([]Execution, error)
	// Executions lists, newest first, without outputs: by id, which begins with its time (UUIDv7), or by number where
	// one process at a time gives them. A page begins behind the execution with the id Filter.Before, whether the filter selects that
	// one or not; CodeNotFound if it is not there any more.
	Executions(ctx context.Context, f Filter) ([]Execution, error)
	// UnfinishedRuns lists executions of lessons that are pending, running or being cancelled, but not paused ones, in the order in which
	// they were created (Executions), without outputs, from after the execution with an id on; that one need not be there any more.
	// The cost depends on how many executions have not ended.
	UnfinishedRuns(ctx context.Context, after string, limit int) ([]Execution, error)
	// Steps lists an execution's steps in order of index, those without a row included.
	Steps(ctx context.Context, execution int64, f StepFilter) ([]Step, error)
	// StepsAt lists those of some steps that have a row, in order of index, superseded ones left out. What only the definition
	// says of them is missing: the name, and of steps of its top level key and action.
	StepsAt(ctx context.Context, execution int64, of []int32) ([]Step, error)
	StateReader
	// Events lists the step log in order, from after a version. A version is never split, so a page
	// ends with the first that reaches the limit (Defaults to 1,000): go on after the last one's.
	Events(ctx context.Context, execution int64, after int64, limit int) ([]engine.HistoryEvent, error)
	// Logs lists log lines in order.
	Logs(ctx context.Context, execution int64, f LogFilter) ([]LogLine, error)
	// LogTexts has the messages of the lines that Logs lists for the same filter, in any order. For searching: it costs a fraction of Logs.
	LogTexts(ctx context.Context, execution int64, f LogFilter) (LogTexts, error)
	// LogSpans cuts the log lines of an execution into at most n spans of equally many Seqs, those without lines left out, and
	// counts what is in each. The cost is that of counting entries of indexes.
	LogSpans(ctx context.Context, execution int64, n int) ([]LogSpan, error)
	// LogWarnings counts the log lines of level warning of executions, by their numbers; those without any are left out. Of each it
	// looks at the first so many lines that are not of level info, by an index that has only such lines.
	LogWarnings(ctx context.Context, executions []int64, most int) (map[int64]int, error)
	// WaitingSteps lists steps of unfinished executions that wait for a signal whose key has the prefix, in order of
	// (execution number, index), from after the given one.
	WaitingSteps(ctx context.Context, prefix string, after *WaitingStep, limit int) ([]WaitingStep, error)
	// UsageOf is the sum of what commits have added to a kind and id, the executions that are deleted by now included. A sum ends
	// at 9e18. Nothing is no error.
	UsageOf(ctx context.Context, kind, id string) (stepwell.Spending, error)
	// UsageIn lists the sums of a kind with ids from one on and before another, in order of their bytes, at most limit.
	UsageIn(ctx context.Context, kind, from, before string, limit int) ([]Used, error)
	// EndedIn lists the ends of executions that ended from one time on and before another, in order of their times, at most limit: the
	// last ones. It reads them by an index of times, so it costs what it lists, whatever else the database has.
	EndedIn(ctx context.Context, from, before time.Time, limit int) ([]Ended, error)
}

// Blobs keeps large outputs by content. CodeUnavailable says that the same call may succeed later (IsAway).
type Blobs interface {
	// Put stores a value and returns its reference, which begins with '@'. Storing it again is free. CodeLimit: it is
	// too large to be stored at all.
	Put(ctx context.Context, value []byte) (ref string, err error)
	// Load finds a value; CodeNotFound if it is not there, CodeInternal if it is damaged.
	Load(ctx context.Context, ref string) ([]byte, error)
}
