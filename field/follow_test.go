package field_test

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// page is what a page that follows an execution knows.
type page struct {
	version int64
	status  map[uint32]uint32
	again   int
}

// read takes in the next frames.
func (p *page) read(t *testing.T, f *field.Follower) error {
	t.Helper()
	m, err := f.Next(t.Context())
	if m != nil {
		table, err := columns.Decode(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		if table.Version <= p.version {
			t.Errorf("version %d comes behind %d", table.Version, p.version)
		}
		p.version = table.Version
		if table.Again {
			p.again++
		}
		for k, i := range table.Column("index") {
			p.status[i] = table.Column("status")[k]
		}
	}
	return err
}

// watched has followers told of changes by hand.
type watched struct {
	mu     sync.Mutex
	notice map[int]func(*field.Commit)
	n      int
}

func (w *watched) watch(_ int64, notice func(*field.Commit)) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	n := w.n
	w.notice[n] = notice
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.notice, n)
	}
}

func (w *watched) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, notice := range w.notice {
		notice(nil)
	}
}

func (w *watched) commit(c *field.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, notice := range w.notice {
		notice(c)
	}
}

func (w *watched) watching() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.notice)
}

func TestFollowersGetWhatChanges(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 20_000)
	w := &watched{notice: map[int]func(*field.Commit){}}
	h := r.hub(field.Options{Watch: w.watch, Every: time.Millisecond, Poll: time.Millisecond})
	var pages []*page
	var followers []*field.Follower
	follow := func(since int64) {
		f, err := h.Follow(t.Context(), r.now(x), since)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		followers, pages = append(followers, f), append(pages, &page{version: since, status: map[uint32]uint32{}})
	}
	follow(1)
	follow(1)
	for i := range 300 {
		r.end(x, i, 1000+i)
		w.tell()
		if i == 150 {
			follow(100) // from the log: it was there at version 100
		}
	}
	last := r.now(x).Version
	for k, f := range followers {
		for pages[k].version < last {
			if err := pages[k].read(t, f); err != nil {
				t.Fatal(err)
			}
		}
		first := 0
		if k == 2 {
			first = 99
		}
		for i := first; i < 300; i++ {
			for _, step := range []uint32{uint32(2 + i), uint32(1002 + i)} {
				if pages[k].status[step] != uint32(stepwell.StepCompleted) {
					t.Fatalf("page %d does not know that step %d has completed", k, step)
				}
			}
		}
		if pages[k].again > 0 || len(pages[k].status) > 601 {
			t.Errorf("page %d: fetched again %d times, %d steps", k, pages[k].again, len(pages[k].status))
		}
	}
	var many []int
	for i := range 16_000 {
		many = append(many, 2000+i)
	}
	r.end(x, many...)
	if err := pages[0].read(t, followers[0]); err != nil || pages[0].again != 1 {
		t.Errorf("after many changes: %v, again %d", err, pages[0].again)
	}
	r.finish(x)
	for pages[0].read(t, followers[0]) == nil {
	}
	if _, err := followers[0].Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for _, f := range followers {
		f.Close()
		f.Close()
	}
	for end := time.Now().Add(time.Minute); w.watching() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the execution is still watched")
		}
	}
}

// TestSlowFollowers: one that does not come back holds nobody up, and gets what has changed meanwhile as one message, the same as others
// who are as far behind.
func TestSlowFollowers(t *testing.T) {
	r := newRows(t)
	x := r.begin(1, 1000)
	w := &watched{notice: map[int]func(*field.Commit){}}
	h := r.hub(field.Options{Watch: w.watch, Every: time.Millisecond, Poll: time.Hour})
	follow := func() (*field.Follower, *page) {
		f, err := h.Follow(t.Context(), r.now(x), r.now(x).Version)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f, &page{version: r.now(x).Version, status: map[uint32]uint32{}}
	}
	quick, seen := follow()
	var slow []*field.Follower
	for range 40 {
		f, _ := follow()
		slow = append(slow, f)
	}
	for w.watching() == 0 {
		time.Sleep(time.Millisecond)
	}
	var messages []*field.Message
	for i := range 4 {
		r.end(x, 10*i, 10*i+1)
		w.tell()
		for seen.version < r.now(x).Version {
			if err := seen.read(t, quick); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 { // they take the changes of both ends, and never say that they have written them
			for _, f := range slow {
				m, err := f.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				messages = append(messages, m)
			}
		}
	}
	if len(seen.status) < 8 {
		t.Errorf("the quick one knows of %d changed steps", len(seen.status))
	}
	for _, m := range messages {
		table, err := columns.Decode(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(table.Column("index")); n < 4 || &m.Body[0] != &messages[0].Body[0] || &m.Deflated()[0] != &messages[0].Deflated()[0] {
			t.Fatalf("a slow one gets %d changed steps, in a message of its own: %v", n, &m.Body[0] != &messages[0].Body[0])
		}
	}
	got, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(messages[0].Deflated()), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff"))))
	if err != nil || !bytes.Equal(got, messages[0].Body) {
		t.Errorf("compressed, a message is another one: %v", err)
	}
	behind := &page{version: versionOf(t, messages[0]), status: map[uint32]uint32{}}
	if err := behind.read(t, slow[0]); err != nil || behind.version != r.now(x).Version || len(behind.status) < 4 {
		t.Errorf("what a slow one gets then: %v, version %d of %d, %d steps", err, behind.version, r.now(x).Version, len(behind.status))
	}
}

func TestFollowersAreBounded(t *testing.T) {
	r := newRows(t)
	stopping := make(chan struct{})
	h := r.hub(field.Options{Followers: 2, Stopping: stopping})
	x := r.begin(1, 10)
	var list []*field.Follower
	for range 2 {
		f, err := h.Follow(t.Context(), x, 1)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	if _, err := h.Follow(t.Context(), x, 1); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("one more: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := list[0].Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("of a client that has gone: %v", err)
	}
	close(stopping)
	if _, err := list[0].Next(t.Context()); stepwell.CodeOf(err) != stepwell.CodeUnavailable || list[0].Since() != strconv.Itoa(1) {
		t.Errorf("when the server stops: %v", err)
	}
	list[0].Close()
	if f, err := h.Follow(t.Context(), x, 0); err != nil {
		t.Error(err)
	} else {
		p := &page{status: map[uint32]uint32{}}
		if err := p.read(t, f); err != nil || p.again != 1 {
			t.Errorf("from the beginning: %v %+v", err, p)
		}
		f.Close()
	}
	list[1].Close()
	small := r.hub(field.Options{Bytes: 2 << 10})
	if _, err := small.Follow(t.Context(), r.begin(2, 10_000), 1); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("a large table: %v", err)
	}
}

func versionOf(t *testing.T, m *field.Message) int64 {
	t.Helper()
	table, err := columns.Decode(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return table.Version
}

// now is a copy of an execution's row.
func (r *rows) now(x *store.Execution) *store.Execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	copied := *x
	return &copied
}

// finish ends an execution.
func (r *rows) finish(x *store.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Version++
	x.Status = stepwell.ExecutionCompleted
	r.states[x.No][0].Status, r.states[x.No][0].Version = stepwell.StepCompleted, x.Version
}
