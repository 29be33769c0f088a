package access

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Limits of a Recorder.
const (
	recordBatch = 500                    // entries written at once
	recordRoom  = 10_000                 // entries that wait
	recordPause = time.Second            // after a failure
	recordEnd   = 5 * time.Second        // for the last batch
	endPause    = 100 * time.Millisecond // after a failure then
)

// RecordStore is the storage of a Recorder; implemented by store.Audit.
type RecordStore interface {
	AppendAudit(ctx context.Context, entries []store.AuditEntry) error
}

// Recorder writes the audit log. Concurrent entries are written together; an entry that Record has accepted is written
// before Run returns, or Run returns the error.
type Recorder struct {
	store RecordStore
	log   *slog.Logger
	ring  chan struct{}

	mu      sync.Mutex
	waiting []store.AuditEntry
	room    sync.Cond
	ended   bool
}

// NewRecorder makes a recorder. log defaults to slog.Default.
func NewRecorder(s RecordStore, log *slog.Logger) *Recorder {
	log = cmp.Or(log, slog.Default())
	r := &Recorder{store: s, log: log, ring: make(chan struct{}, 1)}
	r.room.L = &r.mu
	return r
}

// Record takes an entry, with the present time if it has none. It waits while too many are waiting to be written;
// CodeUnavailable: ctx ended meanwhile. When Run has returned, the entry is written at once.
func (r *Recorder) Record(ctx context.Context, e store.AuditEntry) error {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	stop := context.AfterFunc(ctx, func() { r.mu.Lock(); defer r.mu.Unlock(); r.room.Broadcast() })
	defer stop()
	r.mu.Lock()
	for len(r.waiting) >= recordRoom && !r.ended && ctx.Err() == nil {
		r.room.Wait()
	}
	if r.ended {
		r.mu.Unlock()
		return r.store.AppendAudit(context.WithoutCancel(ctx), []store.AuditEntry{e})
	}
	defer r.mu.Unlock()
	if len(r.waiting) >= recordRoom {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the audit log cannot be written", Err: context.Cause(ctx)}
	}
	r.waiting = append(r.waiting, e)
	select {
	case r.ring <- struct{}{}:
	default:
	}
	return nil
}

// Run writes entries until ctx ends, and then the rest.
func (r *Recorder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.ring:
			r.drain(ctx)
		}
	}
	return r.end()
}

// drain writes waiting entries, and retries until ctx ends.
func (r *Recorder) drain(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := r.write(ctx)
		if err == nil && !more {
			return
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return // end writes them
		}
		r.log.Error("the audit log could not be written; it will be retried", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(recordPause):
		}
	}
}

// write writes one batch. Entries that could not be written stay queued.
func (r *Recorder) write(ctx context.Context) (more bool, err error) {
	r.mu.Lock()
	batch := r.waiting[:min(len(r.waiting), recordBatch)]
	r.mu.Unlock()
	if len(batch) == 0 {
		return false, nil
	}
	if err := r.store.AppendAudit(ctx, batch); err != nil {
		return true, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting = r.waiting[len(batch):]; len(r.waiting) == 0 {
		r.waiting = nil // frees the written entries
	}
	r.room.Broadcast()
	return len(r.waiting) > 0, nil
}

// end writes the rest when no more entries are accepted.
func (r *Recorder) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), recordEnd)
	defer cancel()
	r.mu.Lock()
	r.ended = true
	r.room.Broadcast()
	r.mu.Unlock()
	for {
		more, err := r.write(ctx)
		if stepwell.CodeOf(err) == stepwell.CodeUnavailable { // a database that has just been cut off comes back
			select {
			case <-ctx.Done():
			case <-time.After(endPause):
				continue
			}
		}
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			return errors.Join(&stepwell.Error{Code: stepwell.CodeInternal, Message: "the end of the audit log is lost", Err: err})
		}
		if !more {
			return nil
		}
	}
}
