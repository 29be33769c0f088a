package field_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// commit stores a commit that ends some iterations and queues new ones, and is what its process tells of it.
func (r *rows) commit(x *store.Execution, ends []int, queued int) *field.Commit {
	since := r.now(x).Version
	c := &field.Commit{Execution: x, StepChanges: store.StepChanges{Since: since, Version: since + 1}}
	r.mu.Lock()
	for range queued {
		i := len(r.states[x.No]) - 1
		s := store.StepState{Idx: int32(2 + i), Version: c.Version, Status: stepwell.StepQueued, Key: fmt.Sprintf("each[%d]", i)}
		r.states[x.No] = append(r.states[x.No], s)
		r.events[x.No] = append(r.events[x.No], engine.HistoryEvent{Version: c.Version, Step: s.Idx, StepKey: s.Key, Type: "queued", At: began})
		c.Tasks = append(c.Tasks, &engine.Task{Idx: s.Idx, Key: s.Key})
	}
	r.mu.Unlock()
	r.end(x, ends...)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range ends {
		s := r.states[x.No][1+i]
		c.Rows = append(c.Rows, engine.StepRow{Idx: s.Idx, Status: s.Status, Attempt: s.Attempt, Key: s.Key, Worker: s.Worker, Queued: s.Queued, Started: s.Started, Ended: s.Ended, Cost: s.Cost})
	}
	return c
}

// TestTablesAreToldOfCommits: while an execution is followed in the process that runs it, its table and frames are made of what the
// commits are told to have done: nothing is read. Where something is missing between, the store is.
func TestTablesAreToldOfCommits(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 100)
	w := &watched{notice: map[int]func(*field.Commit){}}
	h := r.hub(field.Options{Watch: w.watch, Every: time.Millisecond, Poll: time.Hour, TableBytes: 1}) // too large to be kept, were it not followed
	f, err := h.Follow(t.Context(), r.now(x), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for w.watching() == 0 {
		time.Sleep(time.Millisecond)
	}
	w.commit(r.commit(x, nil, 0)) // what came before is read
	p := &page{version: 1, status: map[uint32]uint32{}}
	if err := p.read(t, f); err != nil {
		t.Fatal(err)
	}
	whole, some := r.reads()
	for i := range 40 {
		c := r.commit(x, []int{i, 99 - i}, 3)
		w.commit(c)
		if got, want := r.columns(t, h, r.now(x)), r.columns(t, r.hub(field.Options{}), r.now(x)); !bytes.Equal(got, want) {
			t.Fatalf("after commit %d the table is not the one that another server makes", c.Version)
		}
		whole++ // by the other server
	}
	for p.version < r.now(x).Version {
		if err := p.read(t, f); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.status) != 80+120 || p.again > 0 {
		t.Errorf("the page knows of %d changed steps, and fetched again %d times", len(p.status), p.again)
	}
	if now, read := r.reads(); now != whole || read != some {
		t.Errorf("%d tables and %d rows were read, want %d and %d", now, read, whole, some)
	}
	r.commit(x, []int{50}, 1) // nobody tells of it
	w.commit(r.commit(x, []int{51}, 0))
	if got, want := r.columns(t, h, r.now(x)), r.columns(t, r.hub(field.Options{}), r.now(x)); !bytes.Equal(got, want) {
		t.Error("after a gap the table is not the one that another server makes")
	}
}

// TestFramesHavePlaces: a frame says where new steps are, as the whole table does.
func TestFramesHavePlaces(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 10)
	w := &watched{notice: map[int]func(*field.Commit){}}
	h := r.hub(field.Options{Watch: w.watch, Every: time.Millisecond, Poll: time.Millisecond})
	f, err := h.Follow(t.Context(), r.now(x), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.commit(r.commit(x, []int{3}, 5))
	m, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := columns.Decode(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	all, err := columns.Decode(r.columns(t, h, r.now(x)))
	if err != nil {
		t.Fatal(err)
	}
	placed := got.Column("place_index")
	if len(placed) != 5 || placed[0] != 12 || placed[4] != 16 {
		t.Fatalf("the places of %v, want those of the steps 12 to 16", placed)
	}
	for k, i := range placed {
		for _, name := range []string{"parent", "layer", "pos", "degree"} {
			if got, want := got.Column("place_" + name)[k], all.Column(name)[i]; got != want {
				t.Errorf("step %d: %s is %d, want %d", i, name, got, want)
			}
		}
	}
}
