package store

import (
	"context"
	"time"
)

// Nodes are the processes that run the executions of one store together. The store's clock alone judges leases. The
// methods are safe for concurrent use, from many processes.
type Nodes interface {
	// Join adds a node whose lease begins now. Its number is never used again.
	Join(ctx context.Context, address string, lease time.Duration) (no int64, now time.Time, err error)
	// Beat renews a node's lease and its roles, takes those of the roles that no other node has, and gives up all others. CodeConflict:
	// there is no such node any more.
	Beat(ctx context.Context, no int64, roles []string, lease time.Duration) (*Beat, error)
	// Leave ends a node: others take its executions and roles over at once. Twice is harmless.
	Leave(ctx context.Context, no int64) error
	// Adopt makes a living node the owner of up to limit unfinished executions whose owner has left, or has died, or that have none, in
	// the order of Loader.Claim; concurrent callers get different ones. Who is new, or was late itself, may not judge: until its leases
	// have followed each other without a gap for as long as a lease lasts, it gets none of an owner that seems dead. A node that
	// does not live gets none.
	Adopt(ctx context.Context, no int64, lease time.Duration, limit int) ([]Execution, error)
	// OwnerOf finds the owner of an execution by its whole id; CodeNotFound. With take, the node becomes the owner of
	// one that has ended, to restart it.
	OwnerOf(ctx context.Context, id string, node int64, take bool) (*Ownership, error)
	// AdoptOne is Adopt for one unfinished execution, by its whole id. It reports whether the node is its owner now.
	AdoptOne(ctx context.Context, no int64, lease time.Duration, id string) (bool, error)
	// Versions are the last versions of executions, by number; one that is not there has 0, one of another owner is left out.
	Versions(ctx context.Context, owner int64, executions []int64) (map[int64]int64, error)
	// Yield gives an execution of a node up to one whose engine has at least a revision: others do not adopt it.
	Yield(ctx context.Context, no, execution int64, revision int) error
	// Owned lists ids of unfinished executions of a node, by number from after one on.
	Owned(ctx context.Context, no, after int64, limit int) ([]Execution, error)
}

// Changes tell a process what others have done to the same store.
type Changes interface {
	// ChangedObjects lists kind and id of the objects that were changed or deleted after a change, oldest change first, and the number
	// of the last of these changes. after < 0 asks for the number of the newest change alone.
	ChangedObjects(ctx context.Context, after int64, limit int) (changed []Object, last int64, err error)
	// Unheard lists keys of signals that no commit has taken although steps of an owner's unfinished executions wait for them.
	Unheard(ctx context.Context, owner int64, limit int) (keys []string, err error)
}

// The topics that processes announce to each other; "" stands for all.
const (
	TopicNodes    = "nodes"    // one has joined or left
	TopicRequests = "requests" // one is there for a living node
	TopicObjects  = "objects"
	TopicPermits  = "permits"
)

// Notifier passes on what other processes announce. Notifications get lost: whoever uses them looks as well.
type Notifier interface {
	// Listen calls heard with topics until ctx ends, "" after each break: anything may have happened. It returns at once where there are no
	// notifications.
	Listen(ctx context.Context, heard func(topic string))
}

// Beat is the answer to a beat.
type Beat struct {
	// Session changes when this process has a new connection to the database: it may be another one by now, which lacks the last commits.
	Session int64
	Now     time.Time     // the store's clock
	Ends    time.Duration // until the first lease of another node that lives ends; 0: there is none
	Late    bool          // the lease had ended before this beat
	Others  []NodeRow
	Roles   []string // those that the node has now
	Orphans bool     // Adopt would find executions
}

// NodeRow is a node as others see it.
type NodeRow struct {
	No      int64
	Address string // where other nodes reach it
	Alive   bool   // its lease has not ended
}

// Ownership says who runs an execution.
type Ownership struct {
	NodeRow // zero: nobody
	Ended   bool
}
