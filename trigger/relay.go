package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

// The kinds of entries of the outbox that a Relay hands out.
const (
	KindEnded    = "execution.ended"
	KindBreached = "execution.breached" // it took longer than its pipeline promises
	KindBegun    = "begun"              // an execution, or its restart; no event for triggers
)

// Happened is an entry of the outbox.
type Happened struct {
	No        int64                    `json:"-"` // of the entry; ascending
	Kind      string                   `json:"-"`
	Execution string                   `json:"-"`
	At        time.Time                `json:"-"`
	Body      json.RawMessage          `json:"-"` // as stored
	Status    stepwell.ExecutionStatus `json:"status"`
	Pipeline  string                   `json:"pipeline,omitempty"`
	Job       string                   `json:"job,omitempty"`
	Workflow  string                   `json:"workflow,omitempty"`
	Breached  string                   `json:"breached,omitempty"` // "", expected or maximum
	Version   int64                    `json:"version,omitempty"`  // with KindBegun: of the commit
	pipeline.Making
}

// Sink receives events, at least once each and in order, except entries it has put off. After nil, all of them are
// durable; after a *LaterError all except its entries. After any other error all come again.
type Sink interface {
	Take(ctx context.Context, list []Happened) error
}

// LaterError puts entries off that cannot be dealt with now, for a reason that may pass and that concerns them alone:
// they come again, and those behind them do not wait.
type LaterError struct{ Entries map[int64]error } // by number, why

// Put notes one.
func (e *LaterError) Put(no int64, why error) {
	if e.Entries == nil {
		e.Entries = map[int64]error{}
	}
	e.Entries[no] = why
}

// OrNil is nil when nothing was put off.
func (e *LaterError) OrNil() error {
	if len(e.Entries) == 0 {
		return nil
	}
	return e
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%d entries of the outbox are retried later", len(e.Entries))
}

// relayPage is how many entries are read at once, and maxLater how many may be put off before the others wait too.
const (
	relayPage = 500
	maxLater  = 10_000
)

// Relay delivers the entries of the outbox to the sinks, and then removes them. Only one may run at a time.
type Relay struct {
	outbox store.Outbox
	sinks  []Sink
	log    *slog.Logger
	ring   chan struct{}

	later []*putOff // owned by Run
}

// putOff is an entry that some sinks take later.
type putOff struct {
	Happened
	sinks map[int]bool
	tries int
	due   time.Time
}

// NewRelay makes one. A nil log is slog.Default.
func NewRelay(outbox store.Outbox, log *slog.Logger, sinks ...Sink) *Relay {
	log = cmp.Or(log, slog.Default())
	return &Relay{outbox: outbox, sinks: sinks, log: log, ring: make(chan struct{}, 1)}
}

// Wake signals that the outbox may hold entries. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.ring <- struct{}{}:
	default:
	}
}

// Run delivers all entries, then waits for Wake, until ctx ends. Failed deliveries are retried, in order; entries put
// off are retried one by one. It may be called again afterwards.
func (r *Relay) Run(ctx context.Context) error {
	r.later = nil // another process may have delivered them since
	for tries := 0; ctx.Err() == nil; {
		pause := time.Duration(0)
		if err := r.runOnce(ctx); err != nil && ctx.Err() == nil {
			pause = backoff(tries)
			tries++
			r.log.WarnContext(ctx, "events could not be delivered; it will be retried", "error", err, "pause", pause)
		} else {
			tries = 0
		}
		r.rest(ctx, pause)
	}
	return nil
}

func backoff(tries int) time.Duration { return min(time.Minute, time.Second<<min(tries, 6)) }

// rest waits for a pause to be over, or without one for Wake or the next entry that was put off.
func (r *Relay) rest(ctx context.Context, pause time.Duration) {
	ring := r.ring
	if pause > 0 {
		ring = nil
	} else if pause = r.nextDue(); pause < 0 {
		select {
		case <-ctx.Done():
		case <-ring:
		}
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-ring:
	case <-timer.C:
	}
}

// nextDue is how long nothing is due that was put off, negative when nothing was.
func (r *Relay) nextDue() time.Duration {
	next := time.Duration(-1)
	for _, p := range r.later {
		if d := max(0, time.Until(p.due)); next < 0 || d < next {
			next = d
		}
	}
	return next
}

// runOnce retries due entries, and delivers new ones.
func (r *Relay) runOnce(ctx context.Context) error {
	if err := r.again(ctx); err != nil {
		return err
	}
	// From the first number every time: where several processes write, a lower number may be committed later.
	waiting := map[int64]bool{}
	for _, p := range r.later {
		waiting[p.No] = true
	}
	for after := int64(0); len(r.later) < maxLater; {
		list, err := r.outbox.Outbox(ctx, after, relayPage)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].No
		if list = slices.DeleteFunc(list, func(o store.Outgoing) bool { return waiting[o.No] }); len(list) == 0 {
			continue
		}
		off := map[int64]*putOff{}
		happened := r.decode(ctx, list)
		for i, sink := range r.sinks {
			if err := r.take(ctx, i, sink, happened, off); err != nil {
				return err
			}
		}
		var done []int64
		for i := range list {
			if off[list[i].No] == nil {
				done = append(done, list[i].No)
			}
		}
		if len(done) > 0 {
			if err := r.outbox.Delivered(ctx, done); err != nil {
				return err
			}
		}
		for i := range happened {
			if p := off[happened[i].No]; p != nil {
				r.later = append(r.later, p)
			}
		}
	}
	return nil
}

// decode skips unreadable entries.
func (r *Relay) decode(ctx context.Context, list []store.Outgoing) (happened []Happened) {
	for _, o := range list {
		h := Happened{No: o.No, Kind: o.Kind, Execution: o.Execution, At: o.At, Body: o.Body}
		if err := json.Unmarshal(o.Body, &h); err != nil {
			r.log.ErrorContext(ctx, "an entry of the outbox cannot be read; it is dropped", "no", o.No, "kind", o.Kind, "error", err)
			continue
		}
		happened = append(happened, h)
	}
	return happened
}

// take delivers a list to a sink and records the entries that it puts off.
func (r *Relay) take(ctx context.Context, i int, sink Sink, list []Happened, off map[int64]*putOff) error {
	err := sink.Take(ctx, list)
	later, ok := errors.AsType[*LaterError](err)
	if !ok {
		return err
	}
	for j := range list {
		why := later.Entries[list[j].No]
		if why == nil {
			continue
		}
		p := off[list[j].No]
		if p == nil {
			p = &putOff{Happened: list[j], sinks: map[int]bool{}, due: time.Now().Add(backoff(0))}
			off[p.No] = p
		}
		p.sinks[i] = true
		if p.tries == 0 {
			r.log.WarnContext(ctx, "an event could not be delivered; it will be retried, and what comes behind it does not wait", "kind", p.Kind,
				"execution", p.Execution, "error", why)
		}
	}
	return nil
}

// again retries due entries that were put off.
func (r *Relay) again(ctx context.Context) error {
	now := time.Now()
	var due []Happened
	entries := map[int64]*putOff{}
	for _, p := range r.later {
		if !p.due.After(now) {
			due, entries[p.No] = append(due, p.Happened), p
		}
	}
	if len(due) == 0 {
		return nil
	}
	for i, sink := range r.sinks {
		var mine []Happened
		for _, h := range due {
			if p := entries[h.No]; p.sinks[i] {
				mine = append(mine, h)
			}
		}
		if len(mine) == 0 {
			continue
		}
		for _, h := range mine {
			entries[h.No].tries++
			delete(entries[h.No].sinks, i)
		}
		if err := r.take(ctx, i, sink, mine, entries); err != nil {
			for _, h := range mine {
				entries[h.No].sinks[i] = true
			}
			return err
		}
	}
	return r.settle(ctx, entries)
}

// settle removes entries that all sinks have accepted, and reschedules the others.
func (r *Relay) settle(ctx context.Context, entries map[int64]*putOff) error {
	var done []int64
	for no, p := range entries {
		if len(p.sinks) == 0 {
			done = append(done, no)
		} else {
			p.due = time.Now().Add(backoff(p.tries))
		}
	}
	if len(done) == 0 {
		return nil
	}
	if err := r.outbox.Delivered(ctx, done); err != nil {
		return err
	}
	r.later = slices.DeleteFunc(r.later, func(p *putOff) bool { return len(p.sinks) == 0 })
	return nil
}
