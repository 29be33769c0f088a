package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/stepwell/stepwell"
)

// intakeBytes ends a batch early, to bound memory when items are large.
const intakeBytes = 1 << 20

// patience is how long an item waits for its batch to fill up.
const patience = 50 * time.Millisecond

// markPause is how long after a batch another mark ends the next one at once. Marks that come faster are
// taken together: the last one of a batch counts.
const markPause = 5 * time.Millisecond

const maxCursor = 64 << 10

// intake is the stage of a source. It is the Out of its Read.
type intake struct {
	seg  *segment
	node *node
	root *root
	in   *inbox // of a source that takes items
	out  outlet

	ctx      context.Context
	batch    *batch
	bytes    int
	no       int64
	seq      int64
	read     int64
	since    time.Time // of the first item in the batch
	sent     time.Time // of the last batch
	cursor   json.RawMessage
	at, upTo int64 // seq and read at the cursor
}

// run reads the source to its end.
func (s *intake) run(ctx context.Context) (err error) {
	defer s.seg.recordDuration(s.node)
	s.node.counts.reads.Store(true)
	defer s.node.counts.reads.Store(false)
	s.ctx = ctx
	s.seq, s.read = s.root.watermark.Seq, s.root.watermark.Read
	s.node.counts.skipped.Add(s.read)
	s.renew()
	if s.node.opened != nil { // else there is nothing to read
		err := s.node.pages.replay(s)
		if err == nil {
			err = s.source(ctx)
		}
		s.node.pages.close()
		if err != nil {
			m, ok := errors.AsType[*member](err)
			if !ok || !s.seg.empty(s.node, m.err) {
				return err
			}
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.seg.batches.returnBatch(s.batch)
	return s.out.finish(ctx)
}

func (s *intake) source(ctx context.Context) (err error) {
	defer s.seg.rescue(s.node, &err)
	var in iter.Seq[*Item]
	if s.in != nil {
		in = s.taken
	}
	if err := s.node.opened.(Source).Read(ctx, in, s); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &member{s.node, err}
	}
	if s.in != nil { // items that the source skipped
		for range s.taken {
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// taken gives the items of the steps before. It ends early when the context is done; then so do the methods of Out.
func (s *intake) taken(yield func(*Item) bool) {
	for {
		s.node.counts.working.Add(1)
		b, what := s.in.next(s.ctx, nil)
		s.node.counts.working.Add(-1)
		if what != arrived || s.in.merge(b) != nil {
			return
		}
		s.node.counts.in.Add(int64(len(b.items)))
		for _, it := range b.items {
			if !yield(it) {
				return
			}
		}
		s.seg.batches.returnBatch(b)
	}
}

// Item implements Out.
func (s *intake) Item(it *Item) error {
	s.node.pages.item(it)
	return s.give(it)
}

// give passes an item on.
func (s *intake) give(it *Item) error {
	s.seq++
	s.read++
	it.origin = origin{root: s.root, seq: s.seq}
	s.bytes += len(it.raw)
	n := len(s.batch.items)
	s.batch.items = append(s.batch.items, it)
	switch {
	case n+1 >= s.seg.settings.Batch || s.bytes >= intakeBytes:
		return s.flush()
	case n == 0:
		s.since = time.Now()
	case n < 8 || n&15 == 0: // the clock is not free
		if time.Since(s.since) > patience {
			return s.flush()
		}
	}
	return nil
}

// Mark implements Out.
func (s *intake) Mark(cursor any) error {
	if s.seg.keyed && !s.root.handOff && !s.root.whole {
		raw, err := json.Marshal(cursor)
		if err != nil {
			return fmt.Errorf("cursor: %w", err)
		}
		if len(raw) > maxCursor {
			return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("a cursor of %d bytes; %d are allowed", len(raw), maxCursor)}
		}
		raw = s.seg.sealed(raw)
		s.node.pages.mark(s.seq, raw)
		return s.mark(raw)
	}
	return s.paused()
}

// mark takes note of a cursor.
func (s *intake) mark(cursor json.RawMessage) error {
	s.cursor, s.at, s.upTo = cursor, s.seq, s.read
	return s.paused()
}

// paused passes on the items so far, when it is time to.
func (s *intake) paused() error {
	if now := time.Now(); len(s.batch.items) >= s.seg.settings.Batch/4 || now.Sub(s.sent) >= markPause {
		return s.flush()
	}
	return nil
}

// Fail implements Out.
func (s *intake) Fail(f Failure) error {
	if s.node.pages != nil {
		s.node.pages.failure(recordOf(&f, at{}, time.Now(), s.seg.hide))
	}
	return s.failed(f)
}

// failed records a failure of the source.
func (s *intake) failed(f Failure) error {
	s.seq++
	m := s.root.mark(f.Collection, f.Item, Place{File: f.Context.File, Line: f.Context.Line}, nil)
	if _, _, err := s.seg.sought.matchItem(s.root, m, f.Item); err != nil {
		return s.seg.fail(s.node, err)
	}
	return s.seg.record(s.node, f, at{s.root.index, s.seq, m})
}

// Expect implements Out.
func (s *intake) Expect(total int64) { s.node.counts.total.Store(total) }

// flush sends the batch, even if it is empty but has a mark.
func (s *intake) flush() error {
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	if len(s.batch.items) == 0 && s.cursor == nil {
		return nil
	}
	t := s.batch.ticket
	t.cursor, t.seq, t.read = s.cursor, s.at, s.upTo
	s.cursor = nil
	s.seg.read.Add(int64(len(s.batch.items)))
	s.node.counts.made.Add(int64(len(s.batch.items)))
	s.root.add(t)
	b := s.batch
	s.renew()
	s.sent = time.Now()
	s.node.counts.working.Add(1)
	_, err := s.out.edges[0].deliver(s.ctx, b)
	s.node.counts.working.Add(-1)
	return err
}

func (s *intake) renew() {
	s.no++
	t := &ticket{root: s.root, no: s.no}
	t.pending.Store(s.root.settlers())
	s.batch, s.bytes = s.seg.batches.borrowBatch(t, s.seg.settings.Batch), 0
}
