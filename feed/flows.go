package feed

import (
	"sync"
	"time"
)

// Flow is how the items of a running step of a stream move.
type Flow struct {
	Items
	InRate, OutRate float64 // items a second, of the last seconds
	Working         float64 // the share of the last seconds in which it worked, 0 to 1
}

// Bounds of what is kept of running streams: so many steps of all executions, and rates over one to two spans.
const (
	maxFlows  = 20_000
	flowSpan  = 3 * time.Second
	staleFlow = 10 * time.Minute
)

// flows are the last counts of running steps of streams. An entry goes when its execution ends.
type flows struct {
	mu    sync.Mutex
	steps map[int64]map[int32]*flow
	count int
	swept time.Time
}

// flow has the counts of a step at three moments.
type flow struct {
	before, middle, last moment
}

type moment struct {
	at    time.Time
	items Items
}

// record takes in what a step has reported.
func (f *flows) record(no int64, idx int32, items Items, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.steps[no]
	s := of[idx]
	m := moment{now, items}
	switch {
	case s == nil:
		if f.count >= maxFlows && now.Sub(f.swept) >= staleFlow {
			f.sweep(now)
		}
		if f.count >= maxFlows {
			return
		}
		of = f.steps[no]
		if of == nil {
			of = map[int32]*flow{}
			f.steps[no] = of
		}
		of[idx] = &flow{m, m, m}
		f.count++
	case items.In < s.last.items.In || items.Busy < s.last.items.Busy: // another attempt
		*s = flow{m, m, m}
	default:
		if now.Sub(s.middle.at) >= flowSpan {
			s.before, s.middle = s.middle, m
		}
		s.last = m
	}
}

// sweep drops what has not reported for long: another process has taken it up.
func (f *flows) sweep(now time.Time) {
	f.swept = now
	for no, of := range f.steps {
		for idx, s := range of {
			if now.Sub(s.last.at) > staleFlow {
				delete(of, idx)
				f.count--
			}
		}
		if len(of) == 0 {
			delete(f.steps, no)
		}
	}
}

// forget drops an execution.
func (f *flows) forget(no int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count -= len(f.steps[no])
	delete(f.steps, no)
}

// flowing takes in what a step has reported, unless its execution has ended.
func (h *Hub) flowing(no int64, idx int32, items *Items) {
	if items == nil {
		return
	}
	h.mu.Lock()
	_, over := h.ends.nos[no]
	h.mu.Unlock()
	if !over {
		h.flows.record(no, idx, *items, h.o.Now())
	}
}

// Flows are the steps of streams of an execution that this process runs or follows, by index, as they were reported in the attempt
// that runs. It is empty after the end.
func (h *Hub) Flows(no int64) map[int32]Flow {
	now := h.o.Now()
	h.flows.mu.Lock()
	defer h.flows.mu.Unlock()
	out := make(map[int32]Flow, len(h.flows.steps[no]))
	for idx, s := range h.flows.steps[no] {
		v := Flow{Items: s.last.items}
		if spent := now.Sub(s.before.at).Seconds(); spent > 0 {
			v.InRate = float64(s.last.items.In-s.before.items.In) / spent
			v.OutRate = float64(s.last.items.Out-s.before.items.Out) / spent
		}
		if spent := s.last.at.Sub(s.before.at); spent > 0 { // what is on its way is not known yet
			v.Working = min(float64(s.last.items.Busy-s.before.items.Busy)/float64(spent.Milliseconds()), 1)
		}
		out[idx] = v
	}
	return out
}
