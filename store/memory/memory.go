// Package memory is a store in the memory of one process, without a file: for tests of pipelines (package sim) and for runs that
// keep nothing. It keeps every promise of package storetest but one: its content ends with the process.
package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Store is a database in memory. Its methods are safe for concurrent use. Reads cost the size of what they look through: there
// are no indexes beside those by id and number.
type Store struct {
	now   func() time.Time
	blobs *Blobs

	mu          sync.RWMutex
	executions  map[int64]*execution
	strays      map[int64]*execution // memos and work of executions that are not stored
	numbers     []int64              // of executions, ascending
	ids         map[string]int64
	next        int64 // number of an execution that has been given to nobody
	definitions map[string]*snapshot
	shared      *Definitions // nil: with nobody
	keys        map[string]store.StartKey
	requests    []store.Request
	requestNo   int64
	lineSeq     int64

	objects map[objectKey]*store.Object
	blobsOf map[objectKey][]string // hashes that objects refer to

	signals    map[string][]*signal // by key, in order of arrival
	outbox     []store.Outgoing
	outgoingNo int64
	audit      []store.AuditEntry
	auditNo    int64
	projects   map[string]*store.ProjectProgress
	deleted    map[string]int64            // epochs of projects whose progress was deleted
	items      map[string]map[string]int64 // of projects, when they were counted, in µs
	usage      map[[2]string]stepwell.Spending
	sweep      store.Sweep
}

var _ store.Store = (*Store)(nil)

// execution is one execution with all that is its own.
type execution struct {
	row     store.Execution // Version is that of the last commit
	log     [][]byte        // bodies by version, from 1
	unnamed []string        // store.Commit.Unnamed of each
	steps   map[int32]*step
	seen    map[engine.Attempt]int64 // the version that first says that it runs
	lines   []store.LogLine
	memos   map[memoKey][]byte
	fences  map[int32]uint32 // epochs below it record no memos
	waiting map[int32]string // keys of signals
	outside map[workKey]store.OutsideWork
	blobs   map[string]bool // hashes
}

// step is a row and what the store knows beside it.
type step struct {
	engine.StepRow
	version    int64
	superseded bool
}

type (
	memoKey struct {
		step int32
		key  string
	}
	workKey struct {
		step  int32
		epoch uint32
	}
	objectKey struct{ kind, id string }
)

// New makes an empty store. Now is the clock of all times that are recorded or decide; nil: the system's.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, blobs: newBlobs(now), executions: map[int64]*execution{}, strays: map[int64]*execution{}, ids: map[string]int64{}, next: 1,
		definitions: map[string]*snapshot{}, keys: map[string]store.StartKey{}, objects: map[objectKey]*store.Object{}, blobsOf: map[objectKey][]string{},
		signals: map[string][]*signal{}, projects: map[string]*store.ProjectProgress{}, deleted: map[string]int64{}, items: map[string]map[string]int64{},
		usage: map[[2]string]stepwell.Spending{}}
}

// Share has the store keep its definitions in d. It is called before the store is used.
func (s *Store) Share(d *Definitions) *Store {
	s.shared = d
	return s
}

// Blobs implements store.Store.
func (s *Store) Blobs() store.Blobs { return s.blobs }

// Close does nothing: the content lasts as long as the store is referred to.
func (s *Store) Close() error { return nil }

// Backup is refused: there is no database to copy.
func (s *Store) Backup(context.Context, string, func(done, total int)) error {
	return stepwell.Invalid("use a database in a file", "a store in memory is not copied")
}

// Release makes all executions those of nobody, as after the end of the process that ran them: Claim gives them out again.
func (s *Store) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.executions {
		x.row.Owner = 0
	}
}

// micros is a time as databases keep it.
func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// clone is a copy of a value in bytes; nil stays nil.
func clone[B ~[]byte](raw B) B { return slices.Clone(raw) }

func (s *Store) find(no int64) *execution { return s.executions[no] }
