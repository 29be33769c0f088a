package stream

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
)

// origin identifies the source item of an item. Clones share it, and items derived by a modifier keep it.
type origin struct {
	root    *root
	seq     int64    // number among the root's items and failures, from 1
	key     [16]byte // of the content as it left the source
	marks            // as it left the source
	known   uint64   // ends that have it from an earlier run, by bit
	pos     int64    // number among the items written to a sink, from 1; of this clone
	refused bool     // by that sink
}

// batch is some items of one root on their way. Every stage passes exactly one on for each that it takes,
// possibly empty; thus the batches that meet in a join can be put together by their number.
type batch struct {
	ticket *ticket
	items  []*Item
	parts  []*batch // at a join, before the merge: the batches of its inputs, including this one
}

// ticket is the number of a batch. Its clones share it; the batch is settled when the last of them is.
type ticket struct {
	root    *root
	no      int64
	cursor  json.RawMessage // the last mark set within the batch; nil: none
	seq     int64           // of the last item or failure before that mark
	read    int64           // items before that mark
	pending atomic.Int32    // ends that have not settled it
	settled bool            // guarded by root.mu
}

// root is a source as the origin of items.
type root struct {
	index   int
	node    *node
	ends    uint64 // that its items may reach, by bit
	whole   bool   // a step behind needs all items: it begins anew on resume, and only finished ends count as done
	handOff bool   // its items feed another source, whose outcome is unknown: it begins anew on resume

	mu        sync.Mutex
	queue     []*ticket // not known to be settled, in order
	watermark cursorNote
	changed   bool // watermark is not yet in the checkpoint
}

// add enters a batch that goes on its way.
func (r *root) add(t *ticket) {
	if r.handOff || r.whole {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.queue); n >= manyOpen && r.queue[n-1].no%64 != 0 {
		r.queue[n-1].cursor = nil // when a sink takes long, a few places to go on from are enough
	}
	r.queue = append(r.queue, t)
}

// manyOpen is from how many batches that are not settled on the cursors of most are left out.
const manyOpen = 1024

// settleTicket marks a batch as settled: all ends have its items. It moves the watermark to the last mark before which
// every batch is settled.
func (r *root) settleTicket(t *ticket) {
	if r.handOff || r.whole {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.settled = true
	n := 0
	for ; n < len(r.queue) && r.queue[n].settled; n++ {
		if q := r.queue[n]; q.cursor != nil {
			r.watermark = cursorNote{Root: r.index, Seq: q.seq, Read: q.read, Cursor: q.cursor}
			r.changed = true
		}
	}
	r.queue = slices.Delete(r.queue, 0, n)
}

// news returns the watermark, and whether it has moved since the last call.
func (r *root) news() (cursorNote, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.changed
	r.changed = false
	return r.watermark, changed
}

// batches lends empty batches.
type batches struct{ pool sync.Pool }

func (p *batches) borrowBatch(t *ticket, size int) *batch {
	if b, ok := p.pool.Get().(*batch); ok {
		b.ticket = t
		return b
	}
	return &batch{ticket: t, items: make([]*Item, 0, size)}
}

// returnBatch takes a batch back whose items have gone elsewhere.
func (p *batches) returnBatch(b *batch) {
	clear(b.items)
	b.items, b.ticket, b.parts = b.items[:0], nil, nil
	p.pool.Put(b)
}
