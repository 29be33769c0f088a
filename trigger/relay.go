package trigger

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// The kinds of entries of the outbox that a Relay hands out.
const (
	KindEnded    = "execution.ended"
	KindBreached = "execution.breached" // it took longer than its pipeline promises
)

// Happened is an entry of the outbox.
type Happened struct {
	No        int64                    `json:"-"` // of the entry; ascending
	Kind      string                   `json:"-"`
	Execution string                   `json:"-"`
	At        time.Time                `json:"-"`
	Status    stepwell.ExecutionStatus `json:"status"`
	Pipeline  string                   `json:"pipeline,omitempty"`
	Job       string                   `json:"job,omitempty"`
	Workflow  string                   `json:"workflow,omitempty"`
	Breached  string                   `json:"breached,omitempty"` // "", expected or maximum
}

// Sink takes what has happened, at least once each and in order. When it returns nil, that is durable.
type Sink interface {
	Take(ctx context.Context, list []Happened) error
}

// Relay hands what the outbox holds to those who wait for it, and then removes it. One at a time may run.
type Relay struct {
	outbox store.Outbox
	sinks  []Sink
	log    *slog.Logger
	ring   chan struct{}
}

// NewRelay makes one. A nil log is slog.Default.
func NewRelay(outbox store.Outbox, log *slog.Logger, sinks ...Sink) *Relay {
	if log == nil {
		log = slog.Default()
	}
	return &Relay{outbox: outbox, sinks: sinks, log: log, ring: make(chan struct{}, 1)}
}

// Wake tells that the outbox may hold something. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.ring <- struct{}{}:
	default:
	}
}

// Run hands out what there is, then waits for Wake, until ctx ends. What fails is tried again, in order.
func (r *Relay) Run(ctx context.Context) error {
	for tries := 0; ctx.Err() == nil; {
		pause := time.Duration(0)
		if err := r.runOnce(ctx); err != nil && ctx.Err() == nil {
			pause = min(time.Minute, time.Second<<min(tries, 6))
			tries++
			r.log.WarnContext(ctx, "what has happened could not be passed on; it is tried again", "error", err, "pause", pause)
		} else {
			tries = 0
		}
		r.rest(ctx, pause)
	}
	return nil
}

// rest waits for Wake, or for a pause to be over.
func (r *Relay) rest(ctx context.Context, pause time.Duration) {
	if pause == 0 {
		select {
		case <-ctx.Done():
		case <-r.ring:
		}
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// runOnce empties the outbox.
func (r *Relay) runOnce(ctx context.Context) error {
	const page = 500
	for {
		list, err := r.outbox.Outbox(ctx, 0, page)
		if err != nil || len(list) == 0 {
			return err
		}
		var happened []Happened
		nos := make([]int64, 0, len(list))
		for _, o := range list {
			nos = append(nos, o.No)
			h := Happened{No: o.No, Kind: o.Kind, Execution: o.Execution, At: o.At}
			if err := json.Unmarshal(o.Body, &h); err != nil {
				r.log.ErrorContext(ctx, "an entry of the outbox cannot be read; it is dropped", "no", o.No, "kind", o.Kind, "error", err)
				continue
			}
			happened = append(happened, h)
		}
		for _, sink := range r.sinks {
			if err := sink.Take(ctx, happened); err != nil {
				return err
			}
		}
		if err := r.outbox.Delivered(ctx, nos); err != nil {
			return err
		}
	}
}
