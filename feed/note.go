package feed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell/store"
)

// notes are the last progress reports of running steps. They are volatile.
type notes struct {
	steps map[int32]*note
	seq   uint64 // of the last one
	shown uint64 // up to here all have their keys, and may be sent
	armed bool   // a wake-up of the subscribers is due
}

type note struct {
	seq  uint64
	key  string // "" until it has been looked up
	data ProgressData
}

// recordNote takes one in.
func (t *topic) recordNote(idx int32, data ProgressData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.notes.steps[idx]
	if n == nil {
		if len(t.notes.steps) >= maxNames {
			return
		}
		n = &note{}
		t.notes.steps[idx] = n
	}
	t.notes.seq++
	n.seq, n.data = t.notes.seq, data
	if !t.notes.armed {
		t.notes.armed = true
		time.AfterFunc(t.hub.o.ProgressEvery, func() {
			t.mu.Lock()
			t.notes.armed = false
			t.mu.Unlock()
			t.markDirty(dirty{notes: true})
		})
	}
}

// nameNotes looks up the keys of steps at their first progress report.
func (t *topic) nameNotes(ctx context.Context) error {
	list, seq := t.unnamed()
	for _, idx := range list {
		found, err := t.hub.o.Store.Steps(ctx, t.no, store.StepFilter{From: idx, Limit: 1})
		if err != nil {
			return err
		}
		t.mu.Lock()
		if n := t.notes.steps[idx]; n != nil && len(found) == 1 && found[0].Idx == idx {
			n.key = found[0].Key
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes.shown = seq
	return nil
}

func (t *topic) unnamed() (list []int32, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for idx, n := range t.notes.steps {
		if n.key == "" {
			if n.key = t.names[idx]; n.key == "" {
				list = append(list, idx)
			}
		}
	}
	return list, t.notes.seq
}

// since are the notes after one, as messages. The caller holds t.mu and is at the head.
func (t *topic) since(seq uint64) (out []Message) {
	if seq == t.notes.shown {
		return nil
	}
	var list []*note
	for _, n := range t.notes.steps {
		if n.seq > seq && n.seq <= t.notes.shown && n.key != "" {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *note) int { return cmp.Compare(a.seq, b.seq) })
	for _, n := range list {
		n.data.StepID = n.key
		m := message(TypeProgress, t.head, &n.data)
		m.step = n.key
		out = append(out, m)
	}
	return out
}
