// Package ledger knows which execution has made which partition of a stored pipeline, and from what (docs/partitions.md). It learns of ends by
// the outbox, at least once each, and outlives the executions.
package ledger

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	fast "github.com/go-json-experiment/json"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// The kinds of stored objects: what is known of a partition, under the pipeline's id and the partition's key, and the snapshots by which
// partitions were made, under their hashes.
const (
	kindSnapshot = "partition_snapshot"
	kindEntry    = pipeline.KindPartition
)

// Executions are those of a store.
type Executions interface {
	Executions(ctx context.Context, f store.Filter) ([]store.Execution, error)
	Definition(ctx context.Context, hash []byte) ([]byte, error)
}

// Options are all required, but Found and Log.
type Options struct {
	Objects    store.Objects
	Executions Executions
	Library    *pipeline.Library
	Catalog    plan.Catalog
	Now        func() time.Time
	// Found is called for an execution that Start has found instead of starting one, and that has not ended. Defaults to nothing.
	Found func(ctx context.Context, id string) error
	Log   *slog.Logger // Defaults to slog.Default
}

// Ledger is safe for concurrent use.
type Ledger struct {
	o     Options
	mu    sync.Mutex
	kept  map[string]time.Time // since when snapshots are known to be stored, by their hashes
	swept time.Time
	// unnamed are, by pipeline, the partitions of the executions under way whose rows do not name theirs: those that were started
	// before 2026-11-29. They are read once; when one is asked for, again.
	unnamed map[string][]string
}

// maxKept bounds Ledger.kept.
const maxKept = 10_000

// A snapshot that no partition was made by is removed when nobody has needed it for unneeded. A process relies on it for trusted after it
// has seen it, or has marked it as needed.
const (
	unneeded = 48 * time.Hour
	trusted  = 12 * time.Hour
)

// New makes one.
func New(o Options) *Ledger {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Ledger{o: o, kept: map[string]time.Time{}, unnamed: map[string][]string{}}
}

// entry is what is stored of a partition.
type entry struct {
	Execution string                   `json:"execution"` // that tried last: ids are in the order of their times, numbers of several processes are not
	Version   int                      `json:"version"`   // of the pipeline
	Status    stepwell.ExecutionStatus `json:"status"`
	At        time.Time                `json:"at"`
	Made      *made                    `json:"made,omitempty"`
}

// made is the last execution that completed.
type made struct {
	Execution string    `json:"execution"`
	Version   int       `json:"version"`
	Snapshot  string    `json:"snapshot"` // hash
	At        time.Time `json:"at"`
}

func entryID(pipeline, key string) string { return pipeline + "/" + key }

// Take implements trigger.Sink.
func (g *Ledger) Take(ctx context.Context, list []trigger.Happened) error {
	objects := map[string]*store.Object{}
	var order []string
	for i := range list {
		h := &list[i]
		if h.Kind != trigger.KindEnded || h.Partition == "" || h.Workflow == "" {
			continue
		}
		if _, err := g.o.Library.Pipeline(ctx, h.Workflow); stepwell.CodeOf(err) == stepwell.CodeNotFound {
			continue // deleted, and what is known of its partitions with it
		} else if err != nil {
			return err
		}
		id := entryID(h.Workflow, h.Partition)
		o := objects[id]
		if o == nil {
			var err error
			if o, err = g.entry(ctx, id); err != nil {
				return err
			}
			objects[id], order = o, append(order, id)
		}
		if err := g.ended(ctx, o, h); err != nil {
			return err
		}
	}
	if len(order) == 0 {
		return nil
	}
	put := make([]store.Object, len(order))
	for i, id := range order {
		put[i] = *objects[id]
	}
	_, err := g.o.Objects.PutObjects(ctx, put...)
	return err
}

// Settle takes what waits in the outbox, where no relay runs. What others want to know too stays there, and changes nothing when it
// comes again.
func (g *Ledger) Settle(ctx context.Context, outbox store.Outbox) error {
	for after := int64(0); ; {
		list, err := outbox.Outbox(ctx, after, 0)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].No
		var happened []trigger.Happened
		var done []int64
		for _, o := range list {
			h := trigger.Happened{No: o.No, Kind: o.Kind, Execution: o.Execution, At: o.At}
			if err := json.Unmarshal(o.Body, &h); err != nil {
				continue // the relay tells of it
			}
			if happened = append(happened, h); h.Alone {
				done = append(done, o.No)
			}
		}
		if err := g.Take(ctx, happened); err != nil {
			return err
		}
		if len(done) > 0 {
			if err := outbox.Delivered(ctx, done); err != nil {
				return err
			}
		}
	}
}

// entry is the stored object, or a new one.
func (g *Ledger) entry(ctx context.Context, id string) (*store.Object, error) {
	o, err := g.o.Objects.Object(ctx, kindEntry, id)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return &store.Object{Kind: kindEntry, ID: id, Body: json.RawMessage(`{}`)}, nil
	}
	return o, err
}

// ended takes in the end of an execution. One that began before the one that tried last changes nothing, except that it may have made what
// the other could not.
func (g *Ledger) ended(ctx context.Context, o *store.Object, h *trigger.Happened) error {
	e, err := read(o)
	if err != nil {
		g.o.Log.ErrorContext(ctx, "the ledger of a partition cannot be read; it begins anew", "partition", o.ID, "error", err)
		e = entry{}
	}
	newest := h.Execution >= e.Execution
	if h.Status == stepwell.ExecutionCompleted && (e.Made == nil || newest) {
		hash := hex.EncodeToString(h.Definition)
		if err := g.keep(ctx, hash, h.Definition); err != nil {
			return err
		}
		e.Made = &made{Execution: h.Execution, Version: h.WorkflowVersion, Snapshot: hash, At: h.At}
	}
	if newest {
		e.Execution, e.Version, e.Status, e.At = h.Execution, h.WorkflowVersion, h.Status, h.At
	}
	o.Body, err = json.Marshal(e)
	return err
}

func read(o *store.Object) (e entry, err error) {
	if err = json.Unmarshal(o.Body, &e); err != nil {
		err = unreadable(o.ID, err)
	}
	return e, err
}

func unreadable(id string, err error) error {
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("the ledger of partition %s cannot be read", id), Err: err}
}

// keep stores a snapshot, which then outlives its executions.
func (g *Ledger) keep(ctx context.Context, name string, hash []byte) error {
	g.mu.Lock()
	seen := g.kept[name]
	g.mu.Unlock()
	now := g.o.Now()
	if now.Sub(seen) < trusted || name == "" {
		return nil
	}
	o, err := g.o.Objects.Object(ctx, kindSnapshot, name)
	if err == nil && now.Sub(o.Updated) >= trusted {
		o.Revision = store.AnyRevision
		_, err = g.o.Objects.PutObjects(ctx, *o) // so that Sweep leaves it
	}
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		var body []byte
		body, err = g.o.Executions.Definition(ctx, hash)
		switch {
		case stepwell.CodeOf(err) == stepwell.CodeNotFound: // with its executions: what they made can only be called stale
			return nil
		case err == nil:
			_, err = g.o.Objects.PutObjects(ctx, store.Object{Kind: kindSnapshot, ID: name, Revision: store.AnyRevision, Body: body})
		}
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.kept) >= maxKept {
		clear(g.kept)
	}
	g.kept[name] = now
	return nil
}

// Sweep removes snapshots by which no partition is known to be made any more: those of pipelines that were removed, and of partitions that
// were made anew. It looks at most once a day, at all partitions of all pipelines if there is a snapshot that might go.
func (g *Ledger) Sweep(ctx context.Context) error {
	now := g.o.Now()
	g.mu.Lock()
	due := now.Sub(g.swept) >= 24*time.Hour
	if due {
		g.swept = now
	}
	g.mu.Unlock()
	if !due {
		return nil
	}
	old := map[string]int64{} // revisions, by hash
	err := g.each(ctx, kindSnapshot, "", func(o *store.Object) error {
		if now.Sub(o.Updated) >= unneeded {
			old[o.ID] = o.Revision
		}
		return nil
	})
	if err != nil || len(old) == 0 {
		return err
	}
	err = g.each(ctx, kindEntry, "", func(o *store.Object) error {
		var e glance
		if err := fast.Unmarshal(o.Body, &e); err != nil {
			return unreadable(o.ID, err)
		}
		if e.Made != nil {
			delete(old, e.Made.Snapshot)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for hash, revision := range old {
		if err := g.o.Objects.DeleteObject(ctx, kindSnapshot, hash, revision); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound && stepwell.CodeOf(err) != stepwell.CodeConflict { // somebody needs it again
			return err
		}
	}
	return nil
}

// each calls f for all objects of a kind whose ids have a prefix, in order.
func (g *Ledger) each(ctx context.Context, kind, prefix string, f func(*store.Object) error) error {
	const page = 2_000 // what is read of one is garbage when the next one is read
	for after := ""; ; {
		list, err := g.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kind, Prefix: prefix, After: after, Limit: page})
		if err != nil {
			return err
		}
		for i := range list {
			if err := f(&list[i]); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// glance is as much of an entry as its state needs. Its times, half of the work of reading one, are left.
type glance struct {
	Execution string                   `json:"execution"`
	Status    stepwell.ExecutionStatus `json:"status"`
	Made      *glanceMade              `json:"made"`
	body      json.RawMessage
}

type glanceMade struct {
	Version  int    `json:"version"`
	Snapshot string `json:"snapshot"`
}

// glances reads what is known of the partitions of a pipeline, by their keys.
func (g *Ledger) glances(ctx context.Context, id string) (map[string]glance, error) {
	out := map[string]glance{}
	prefix := entryID(id, "")
	err := g.each(ctx, kindEntry, prefix, func(o *store.Object) error {
		one, err := glanceOf(o)
		out[o.ID[len(prefix):]] = one
		return err
	})
	return out, err
}

func glanceOf(o *store.Object) (glance, error) {
	one := glance{body: o.Body}
	if err := fast.Unmarshal(one.body, &one); err != nil {
		return glance{}, unreadable(o.ID, err)
	}
	return one, nil
}
