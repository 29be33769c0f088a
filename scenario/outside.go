package scenario

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// outside is what goes on around the process that runs an execution, and outlives it: the clock, the calls that were made and who has
// asked for what. It is written as JSON, so that another process can go on with it (How.Killed, How.Outside).
type outside struct {
	At      time.Time         `json:"at"`
	Start   time.Time         `json:"start"`
	ID      string            `json:"id"`
	Folder  string            `json:"folder"`
	Calls   []Call            `json:"calls"`
	IDs     []string          `json:"ids"` // Call.id
	Count   map[string]int    `json:"count"`
	Dropped map[string]int    `json:"dropped"`
	Numbers []numbered        `json:"numbers"`
	KeysOf  map[int32]string  `json:"keys_of"`
	Due     []dueCall         `json:"due"`
	Fired   []int             `json:"fired"` // entries of when, by place
	Pending map[int]time.Time `json:"pending"`
	Again   []int             `json:"again"`
	Asked   map[int]int       `json:"asked"`
	Sent    map[int]signal    `json:"sent"`
}

type (
	numbered struct {
		Idx    int32
		Epoch  uint32
		Number int
	}
	dueCall struct {
		Key    string
		Number int
		At     time.Time
	}
	signal struct {
		Key, ID string
		Body    []byte
		At      time.Time
	}
)

// outside is what a process that goes on needs to know.
func (r *run) outside() ([]byte, error) {
	o := outside{At: r.world.Clock.True(), Start: r.start, ID: r.id, Folder: r.folder, Calls: r.calls, Count: r.count, Dropped: r.dropped, KeysOf: r.keysOf, Pending: map[int]time.Time{},
		Asked: map[int]int{}, Sent: map[int]signal{}}
	for i := range r.calls {
		o.IDs = append(o.IDs, r.calls[i].id)
	}
	for at, n := range r.numbers {
		o.Numbers = append(o.Numbers, numbered{at.idx, at.epoch, n})
	}
	for at, due := range r.due {
		o.Due = append(o.Due, dueCall{at.key, at.number, due})
	}
	for i, p := range r.t.planned {
		if r.fired[p] {
			o.Fired = append(o.Fired, i)
		}
		if at, ok := r.pending[p]; ok {
			o.Pending[i] = at
		}
		if n, ok := r.asked[p]; ok {
			o.Asked[i] = n
		}
		if s, ok := r.sent[p]; ok {
			o.Sent[i] = signal{s.Key, s.ID, s.Body, s.At}
		}
		for _, again := range r.again {
			if again == p {
				o.Again = append(o.Again, i)
			}
		}
		if r.doing == p {
			o.Again = append(o.Again, i)
		}
	}
	return json.Marshal(o)
}

// goOn takes in what was outside of a process that was killed. The world begins with it.
func (r *run) goOn(raw []byte) (at time.Time, err error) {
	var o outside
	if err := json.Unmarshal(raw, &o); err != nil {
		return at, stepwell.Errorf(stepwell.CodeInternal, "", "what was outside cannot be read: %v", err)
	}
	r.start, r.id, r.folder, r.calls, r.count, r.dropped, r.keysOf = o.Start, o.ID, o.Folder, o.Calls, o.Count, o.Dropped, o.KeysOf
	for i := range r.calls {
		r.calls[i].id = o.IDs[i]
	}
	for _, n := range o.Numbers {
		r.numbers[attemptOf{n.Idx, n.Epoch}] = n.Number
	}
	for _, d := range o.Due {
		r.due[callOf{d.Key, d.Number}] = d.At
	}
	for _, i := range o.Fired {
		r.fired[r.t.planned[i]] = true
	}
	for i, n := range o.Asked {
		r.asked[r.t.planned[i]] = n
	}
	for i, s := range o.Sent {
		r.sent[r.t.planned[i]] = store.Signal{Key: s.Key, ID: s.ID, Body: s.Body, At: s.At}
	}
	for _, i := range o.Again {
		r.again = append(r.again, r.t.planned[i])
	}
	for i, at := range o.Pending {
		r.pending[r.t.planned[i]] = at
	}
	return o.At, nil
}

// planAgain plans what was pending when the process was killed.
func (r *run) planAgain() {
	for _, p := range r.t.planned { // in order: equal runs are equal
		if at, ok := r.pending[p]; ok {
			r.world.Plan(at, func(ctx context.Context) error { return r.happen(ctx, p) })
		}
	}
}
