package stream

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/durable"
)

// Module is a kind of stream step.
type Module struct {
	// Spec describes it. Spec.Stream must be set; Params are the fields of `config`.
	Spec spec.Spec
	// Open makes the component of one step for one run of its segment: a Source, a Modifier or a Sink, as
	// Spec.Stream.Role says. config has been checked against the Spec, its defaults are filled in, and templates
	// outside of Raw fields are rendered. It may read files and make requests; an error ends the step before any item
	// flows. Only a sink may change anything outside.
	Open func(ctx context.Context, env *Env, config map[string]any) (any, error)
	// Check returns every problem of a config that the Spec cannot tell, for validation: without I/O. Texts
	// may hold templates. Defaults to none.
	Check func(config map[string]any) []error
	// Try checks like Open but changes nothing: for --dry-run and `stac validate-workflow`. Optional.
	Try func(ctx context.Context, env *Env, config map[string]any) []error
	// Replaces reports whether a finished run of a sink leaves exactly its own items (semantics §8, Writing): then a
	// run that begins anew reads its sources whole. Defaults to no.
	Replaces func(config map[string]any) bool
}

// Env is a segment's interface to the component of one of its steps.
type Env struct {
	Step     string // the step's id
	Workflow string // the pipeline's name
	Run      string // the execution's id
	Dir      string // against which relative paths are meant; Path does it
	// Started is when the execution began: the same for all its streams and attempts, and after a crash.
	Started time.Time
	// Collection is the collection that this run of the segment is for, when it is one of many behind a
	// discovery step: the member of the discovery's `collections`. Else nil.
	Collection map[string]any
	// Cursor is the resume position of a source, State that of a sink; nil: at the beginning. A sink whose output does
	// not match State returns ErrStateGone from Open, and the segment begins anew.
	Cursor, State json.RawMessage
	// Past is the state that the last run of the step has left, of a sink that begins anew all the same; nil: none.
	Past json.RawMessage
	// Data is an existing directory of this step for files that must survive a crash, such as a spool.
	Data string

	// Shared is a directory that all streams of this execution see, for facts about collections. The first writer
	// creates it; "": there is none.
	Shared string
	// Hand implements HandOver; nil: the files of Data stay on this machine.
	Hand func(ctx context.Context) error
	// Tell sends a source's Collection to the steps behind (CollectionSink); nil: there is none.
	Tell func(ctx context.Context, c *Item) error
	// Wants reports, once Read has been called, whether any step takes Collections. nil: none does.
	Wants func() bool

	// Log writes to the step's log.
	Log func(level slog.Level, message string, attrs ...slog.Attr)
	// Fail records a failure without dropping an item: a modifier may pass the item on all the same. The
	// error is not nil when too many have failed; the module returns it. For any goroutine.
	Fail func(f Failure) error
	// Refuse says that a sink will not make an item durable, which Write was given. The error as with Fail.
	Refuse func(it *Item, cause error) error
	// Claim implements Claims; nil: there are no other streams.
	Claim func(path string, share bool) error
	// Tally counts items for Given; nil: nothing is known.
	Tally func() (read, failed int64)
	// Eval evaluates a {{ template }} in the step's scope and the names in extra. Safe for concurrent use.
	Eval func(template string, extra map[string]any) (any, error)
	// Scope is the scope of the step's templates (params, steps, execution and so on), for modules that compile theirs
	// once and evaluate them for every item. Safe for concurrent use. nil: an empty scope.
	Scope expr.Scope
}

// Claims declares that this step writes a file or directory: as a whole, or appending (share). It fails when another
// stream of the same execution (an iteration, an entry of a matrix, an earlier stream) has claimed the path, unless
// both share it: the later stream would replace the earlier one's data. The same step may claim a path again, also
// after a crash.
func (e *Env) Claims(path string, share bool) error {
	if e.Claim == nil {
		return nil
	}
	return e.Claim(path, share)
}

// HandOver stores the files of Data as they are for the worker that may go on with the stream. A sink calls it right before
// it publishes: durable.ErrFenced says that another worker goes on already, and that nothing may be published here.
func (e *Env) HandOver(ctx context.Context) error {
	if e.Hand == nil {
		return nil
	}
	return e.Hand(ctx)
}

// Given counts the items that the sources have given that lead to this step, in the runs that this one goes on from too, and
// those that have failed on the way. rows are to be published.
func (e *Env) Given(rows int64) durable.Given {
	g := durable.Given{Rows: rows}
	if e.Tally != nil {
		g.Read, g.Failed = e.Tally()
	}
	return g
}

// Path is a path of the user's, resolved; URLs stay as they are.
func (e *Env) Path(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(e.Dir, path)
}

// Failure types: the specification's error classes (stac-manager §5).
const (
	ConfigurationError = "ConfigurationError" // a config that cannot work: the step does not begin
	ModuleException    = "ModuleException"    // the module cannot go on: the step ends
	DataProcessing     = "DataProcessingError"
	ExtensionError     = "ExtensionError"
	ValidationError    = "ValidationError"
	NetworkError       = "NetworkError"
	PaginationLoop     = "pagination_loop"
	Conflict           = "conflict" // branches set one path to different values
)

// Failure is one failure record (stac-manager §4).
type Failure struct {
	Step       string // filled in by the segment when empty
	Item       string // "unknown" when empty
	Collection string
	Type       string // one of the failure types, or a module's own. Defaults to that of Err, else DataProcessing
	Err        error
	Context    Context

	box *Box // of the item
}

// Context says more about a failure. Empty fields are left out.
type Context struct {
	File    string `json:"source_file,omitempty"`
	Line    int64  `json:"line_number,omitempty"`
	Field   string `json:"field_name,omitempty"`
	URL     string `json:"url,omitempty"`
	Status  int    `json:"http_status,omitempty"`
	Attempt int    `json:"retry_attempt,omitempty"`
	Schema  string `json:"schema,omitempty"`  // of a validation error
	Pointer string `json:"pointer,omitempty"` // JSON pointer into the item
	Keyword string `json:"keyword,omitempty"`
}

// Error is an error of a known type with its context. A plain error from Modify is of DataProcessing.
type Error struct {
	Type    string
	Context Context
	Err     error
	abort   bool
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// At makes the error of one field of an item, nil for nil. The item's place is added where the item fails.
func At(field string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Type: DataProcessing, Context: Context{Field: field}, Err: err}
}

// Abort makes an error that ends the step and those that need it, instead of failing one item.
func Abort(err error) error { return &Error{Type: ModuleException, Err: err, abort: true} }
