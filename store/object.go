package store

import (
	"context"
	"encoding/json"
	"time"
)

// Object is a managed object: a pipeline or one of its versions, a schedule, a webhook, an API key. Its body belongs
// to the package that owns the kind.
type Object struct {
	Kind string
	ID   string // unique within the kind
	Name string // unique within the kind unless ""
	// Revision counts the changes from 1 (the ETag of the API). PutObjects expects the revision to replace: 0 for a
	// new object, AnyRevision for any.
	Revision int64
	Body     json.RawMessage
	// Blobs are references of the blobs that the object refers to from now on: as long as it does they stay. nil: those
	// that it has referred to. PutObjects takes them; they are not read back.
	Blobs   []string
	Created time.Time // set by the store
	Updated time.Time // set by the store
}

// KindFirings is the kind of objects that retention removes by age: the ledger of firings.
const KindFirings = "schedule_firings"

// AnyRevision matches every revision, and a missing object.
const AnyRevision = -1

// ObjectFilter selects objects, in order of id.
type ObjectFilter struct {
	Kind   string // required
	Prefix string // of the id
	After  string // id of the last one of the page before
	Limit  int    // Defaults to 100, at most 10,000
}

// Objects stores managed objects. Every call is one durable transaction.
type Objects interface {
	// PutObjects stores all, or none, and returns them as stored: CodeConflict when a revision differs from the
	// stored one, or a name is taken; CodeNotFound when the object of a revision above 0 is missing. The message
	// names the object. CodeInvalid for a malformed reference to a blob.
	PutObjects(ctx context.Context, objects ...Object) ([]Object, error)
	// DeleteObject removes one, which refers to no blob any more: CodeNotFound, or CodeConflict as with PutObjects.
	DeleteObject(ctx context.Context, kind, id string, revision int64) error
	// Object finds one by id, else by name; CodeNotFound.
	Object(ctx context.Context, kind, idOrName string) (*Object, error)
	// Objects lists.
	Objects(ctx context.Context, f ObjectFilter) ([]Object, error)
}

// StartKey says which execution was started under a key.
type StartKey struct {
	Key       string
	Hash      []byte
	Execution string // id
	Created   time.Time
}

// Signal is an outside event, for the step that waits for its key. It may come before the
// step waits: it is kept until then, or until retention removes it.
type Signal struct {
	Key  string
	ID   string // marks repetitions; a second signal with the same key and id is dropped
	Body json.RawMessage
	At   time.Time
}

// Signals stores signals from outside.
type Signals interface {
	// PutSignal stores a signal durably; fresh is false when it was there already, taken or not.
	PutSignal(ctx context.Context, s Signal) (fresh bool, err error)
	// KeepFirst durably stores a signal that no step will take, as long as signals are kept, and returns the first
	// body of its key and id.
	KeepFirst(ctx context.Context, s Signal) (first json.RawMessage, err error)
	// SignalsFor gives, of each key, the oldest signal that no commit has taken, by time and id.
	SignalsFor(ctx context.Context, keys []string) ([]Signal, error)
	// Awaiting lists the steps of unfinished executions that wait for one of the keys.
	Awaiting(ctx context.Context, keys []string) ([]Waiter, error)
	// Kept is about how many bytes the signals take that no commit has taken.
	Kept(ctx context.Context) (bytes int64, err error)
}

// Waiter is a step that waits for a signal.
type Waiter struct {
	Key       string
	Execution string // id
	Owner     int64  // of the execution; 0: none
	Step      int32
	Seen      time.Time // by the store's clock; it waits since before
}

// Outgoing is an outbox entry, to be delivered because of a commit.
type Outgoing struct {
	No        int64 // set by the store, ascending
	Kind      string
	Execution string // id
	Body      json.RawMessage
	At        time.Time
}

// Outbox hands out entries for delivery, at least once.
type Outbox interface {
	// Outbox lists entries in the order of their commits, from after a number. Limit defaults to 1,000, at most 10,000.
	Outbox(ctx context.Context, after int64, limit int) ([]Outgoing, error)
	// Delivered removes entries.
	Delivered(ctx context.Context, nos []int64) error
}

// AuditEntry records a change and its author.
type AuditEntry struct {
	No     int64           `json:"no"` // set by the store, ascending
	At     time.Time       `json:"at"`
	Actor  string          `json:"actor"`
	Role   string          `json:"role"`
	Remote string          `json:"remote" doc:"The address that the request came from."`
	Action string          `json:"action"` // such as schedule.update
	Object string          `json:"object" doc:"The id of what was changed."`
	Result string          `json:"result" doc:"ok, or the code of the error."`
	Detail json.RawMessage `json:"detail,omitempty"` // an object without secrets
}

// AuditFilter selects entries, newest first.
type AuditFilter struct {
	Actor  string    `query:"actor" maxLength:"200"`
	Action string    `query:"action" maxLength:"100"`
	Object string    `query:"object" maxLength:"200"`
	Since  time.Time `query:"since"`
	Before int64     // No of the last one of the page before
	Limit  int       // Defaults to 100, at most 1,000
}

// Audit stores the record of changes and their authors.
type Audit interface {
	AppendAudit(ctx context.Context, entries []AuditEntry) error
	AuditEntries(ctx context.Context, f AuditFilter) ([]AuditEntry, error)
}

// WaitingStep is a step that waits for a signal.
type WaitingStep struct {
	Execution string // id
	Pipeline  string
	Step
}

// Totals are counts for the metrics of budpipeline §4.4.
type Totals struct {
	Executions map[string]int64 // by status, of all that the store still has
	Since      map[string]int64 // by status, of executions ended since the given time
	Durations  time.Duration    // sum over executions completed since then
	Completed  int64            // how many that were
}

// Retention is the age at which data may be removed.
type Retention struct {
	Executions time.Time // executions that ended before; zero: none
	Logs       time.Time // log lines of executions that ended before; zero: none
	Keys       time.Time // start keys, taken signals and pending signals from before; zero: none
	Audit      time.Time // audit entries from before; zero: none
	Ends       time.Time // counts of executions that ended in an hour before (EndKinds); zero: none
	Firings    time.Time // objects of the kind KindFirings that were last changed before; zero: none
	Blobs      bool      // blobs that nothing refers to, which go in any case where executions go
	Batch      int       // executions in one transaction. Defaults to 100
}

// Removed counts removed rows and files.
type Removed struct{ Executions, Lines, Keys, Audit, Firings, Blobs int64 }

// Copier copies a database. A store that is copied with its own tools refuses (CodeInvalid).
type Copier interface {
	// Backup writes a copy of the database as it was at one moment, and of the blobs it refers to, while it is in use.
	// CodeConflict when the target exists. Progress may be nil.
	Backup(ctx context.Context, path string, progress func(done, total int)) error
}

// Keeper counts a database's rows and removes old ones, for the server.
type Keeper interface {
	// Totals counts executions.
	Totals(ctx context.Context, since time.Time) (*Totals, error)
	// Prune removes one batch of expired data, oldest first; more is true when there may be another: call it again,
	// also after an error. Only terminal executions go, with all their data; blobs that only they refer to go a day
	// later. An execution that cannot be removed is named in the error and left out from then on; the rest is
	// removed.
	Prune(ctx context.Context, r Retention) (removed Removed, more bool, err error)
}

// Copied is the result of BackupInto.
type Copied struct {
	Path    string
	Size    int64    // of the file, in bytes
	Blobs   int      // that it refers to
	Removed []string // names of older copies that made room, oldest first
}

// Store is a whole database, as storetest describes it.
type Store interface {
	Committer
	Loader
	Reader
	Records
	Objects
	Signals
	Outbox
	Audit
	Projects
	Keeper
	Copier
	// Blobs is where large outputs are.
	Blobs() Blobs
	// Close ends it; once more changes nothing.
	Close() error
}
