package feed

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Limits of a Board.
const (
	boardEvery = 250 * time.Millisecond // between two messages of a kind
	boardRows  = 200                    // rows of a message
	boardDirty = 2000                   // changed executions that wait for their message
	boardRing  = 512                    // messages that a client may be behind,
	boardBytes = 8 << 20                // and their size
)

// Row is an entry of a list.
type Row struct {
	ID   string
	Data json.RawMessage // as the list shows it
	// Same is what is compared: Data without what changes all the time, such as how long something has taken. Defaults to Data.
	Same []byte
}

// List is a kind of rows that a Board tells the changes of.
type List struct {
	Kind string
	// Read returns the rows that may change. It is called every Options.Poll while there are followers, and compared with the time before;
	// a row that is missing then is told as removed if Drops is set.
	Read  func(context.Context) ([]Row, error)
	Drops bool
}

// BoardData is the data of a message: rows that are new or have changed, ids of those that are no longer in the list. With
// Reload there was more: the list is to be read again.
type BoardData struct {
	Rows    []json.RawMessage `json:"rows"`
	Removed []string          `json:"removed,omitempty"`
	Reload  bool              `json:"reload,omitempty"`
}

// Board tells what changes in lists: executions at once, from what Hub.Observe is told, and all lists by a read that all
// followers share. Changes are merged: each kind has a message every 250 ms at most, with the newest of each row. A follower
// holds a place in a ring of messages, so a slow one costs no memory; one that is too far behind reads its lists again.
type Board struct {
	hub   *Hub
	epoch string
	lists []List
	show  func(*store.Execution) Row
	known []map[string][]byte // of each list: the rows that were read last
	told  [2]map[string]bool  // executions that were observed since the last read, and before it

	mu        sync.Mutex
	followers int
	primed    bool          // the lists were read since there are followers: what changes from now on is told
	first     chan struct{} // there is a first follower
	dirty     map[string]store.Execution
	over      bool // there were more
	ring      []boardMessage
	bytes     int
	last      uint64        // of the last message
	changed   chan struct{} // closed at the next message
}

type boardMessage struct {
	no    uint64
	kind  string
	frame []byte
}

// Board is the hub's; it tells nothing until Serve is called.
func (h *Hub) Board() *Board { return h.board }

func newBoard(h *Hub) *Board {
	return &Board{hub: h, epoch: strings.ToLower(rand.Text()[:8]), dirty: map[string]store.Execution{}, changed: make(chan struct{}), first: make(chan struct{}, 1), told: [2]map[string]bool{{}, {}}}
}

// Serve sets the lists, before Run. show makes the row of an execution, of which Kind is that of the first list.
func (b *Board) Serve(show func(*store.Execution) Row, lists ...List) {
	b.show, b.lists = show, lists
	b.known = make([]map[string][]byte, len(lists))
}

// observe takes in the state of an execution. Without followers it costs a lock.
func (b *Board) observe(x *store.Execution, progress *engine.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followers == 0 {
		return
	}
	if _, there := b.dirty[x.ID]; !there && len(b.dirty) >= boardDirty {
		b.over = true
		return
	}
	row := *x
	row.Progress = *progress
	b.dirty[x.ID] = row
}

// run makes the messages until ctx ends.
func (b *Board) run(ctx context.Context) {
	every := time.NewTicker(boardEvery)
	defer every.Stop()
	var polled time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.first:
		case <-every.C:
		}
		if len(b.lists) == 0 {
			continue
		}
		followed, primed := b.standing()
		if !followed {
			continue
		}
		if !primed {
			b.known, b.told, polled = make([]map[string][]byte, len(b.lists)), [2]map[string]bool{{}, {}}, time.Time{}
		}
		b.tellExecutions()
		if b.hub.o.Now().Sub(polled) < b.hub.o.Poll {
			continue
		}
		for i := range b.lists {
			if err := b.poll(ctx, i, !primed); err != nil && ctx.Err() == nil {
				b.hub.o.Log.Error("a list cannot be followed for now", "list", b.lists[i].Kind, "error", err)
			}
		}
		polled = b.hub.o.Now()
		b.told = [2]map[string]bool{{}, b.told[0]}
		b.prime()
	}
}

func (b *Board) standing() (followed, primed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.followers > 0, b.primed
}

// prime lets followers begin, which must not read their lists before the board has.
func (b *Board) prime() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followers > 0 && !b.primed {
		b.primed = true
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// tellExecutions tells of those that were observed, the oldest first; the rest is told next time.
func (b *Board) tellExecutions() {
	b.mu.Lock()
	ids := slices.Sorted(maps.Keys(b.dirty))
	ids = ids[:min(len(ids), boardRows)]
	rows := make([]Row, 0, len(ids))
	for _, id := range ids {
		x := b.dirty[id]
		delete(b.dirty, id)
		rows = append(rows, b.show(&x))
	}
	over := b.over
	b.over = false
	b.mu.Unlock()
	d := BoardData{Reload: over}
	for _, r := range rows {
		d.Rows = append(d.Rows, r.Data)
		b.told[0][r.ID] = true
	}
	b.tell(b.lists[0].Kind, d)
}

// poll reads a list and tells what is new in it. The first time there is nothing to compare with; if that failed, the second time
// followers have to read the list again.
func (b *Board) poll(ctx context.Context, i int, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	rows, err := b.lists[i].Read(ctx)
	if err != nil {
		return err
	}
	before, now, d := b.known[i], make(map[string][]byte, len(rows)), BoardData{}
	for _, r := range rows {
		same := r.Same
		if same == nil {
			same = r.Data
		}
		now[r.ID] = same
		switch {
		case before == nil || bytes.Equal(before[r.ID], same):
		case i == 0 && (b.told[0][r.ID] || b.told[1][r.ID]): // the row of an execution that goes on is older than what was observed
		case len(d.Rows) < boardRows:
			d.Rows = append(d.Rows, r.Data)
		default:
			d.Reload = true
		}
	}
	if b.lists[i].Drops {
		for id := range before {
			if _, there := now[id]; !there {
				d.Removed = append(d.Removed, id)
			}
		}
		if slices.Sort(d.Removed); len(d.Removed) > boardRows {
			d.Removed, d.Reload = d.Removed[:boardRows], true
		}
	}
	d.Reload = d.Reload || before == nil && !first
	b.known[i] = now
	b.tell(b.lists[i].Kind, d)
	return nil
}

// tell adds a message to the ring, if there is anything to tell.
func (b *Board) tell(kind string, d BoardData) {
	if len(d.Rows) == 0 && len(d.Removed) == 0 && !d.Reload {
		return
	}
	if d.Rows == nil {
		d.Rows = []json.RawMessage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	m := boardMessage{no: b.last, kind: kind, frame: b.frame(kind, b.last, d)}
	b.ring = append(b.ring, m)
	b.bytes += len(m.frame)
	for len(b.ring) > boardRing || b.bytes > boardBytes && len(b.ring) > 1 {
		b.bytes -= len(b.ring[0].frame)
		b.ring[0].frame = nil
		b.ring = b.ring[1:]
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Board) seq(no uint64) string { return b.epoch + "." + strconv.FormatUint(no, 10) }

// frame is a message as server-sent event.
func (b *Board) frame(kind string, no uint64, data any) []byte {
	raw, err := json.Marshal(data)
	if err != nil { // rows were encoded before
		raw = []byte(`{"rows":[],"reload":true}`)
	}
	return fmt.Appendf(nil, "id: %s\nevent: %s\ndata: {\"type\":%q,\"seq\":%q,\"data\":%s}\n\n", b.seq(no), kind, kind, b.seq(no), raw)
}
