// Package estimate says how long executions still take, from what the steps of their pipeline took before.
//
// A Book has a curve for each of the newest completed executions of a pipeline: how long after its start each of its steps had
// ended. An execution that runs is found on each curve by how many of its steps have ended, and what remains there is scaled by
// its own size and pace. So an estimate costs a look-up in a few sorted lists, whatever the size of the execution, and none is
// made before an execution of the pipeline has completed. Experimental.
package estimate

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Limits of a Book.
const (
	newest    = 5      // curves of a pipeline
	looked    = 12     // executions that are looked at for them: retries are left out
	mostSteps = 20_000 // steps that are read for a pipeline; of an execution beyond it only the duration counts
	points    = 512    // of a curve
	pipelines = 1000   // that are known at once
	learned   = 20     // pipelines that one call of Learn reads
	fresh     = time.Minute
	empty     = time.Second // the same while there is no curve
)

// Past is the part of the store that a Book reads.
type Past interface {
	Executions(ctx context.Context, f store.Filter) ([]store.Execution, error)
	States(ctx context.Context, execution int64, of []int32) ([]store.StepState, error)
}

// Progress is how far an execution is.
type Progress struct {
	engine.Progress
	ETA *float64 `json:"eta_seconds" minimum:"0" doc:"How long a running execution still takes, from the steps' durations in the newest completed executions of its pipeline; null when it does not run, and while there are none."`
}

// Book knows curves. Its methods may be called from any goroutine; a nil Book knows nothing.
type Book struct {
	past Past
	now  func() time.Time

	mu    sync.Mutex
	pages map[string]*page
}

// page is what is known of a pipeline.
type page struct {
	at      time.Time // when it was read
	reading bool
	curves  []curve
}

// New makes an empty book. now is the clock; nil is time.Now.
func New(past Past, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{past: past, now: now, pages: map[string]*page{}}
}

// Learn reads what executions of pipelines took, of those that are not known (asked again after a second) or were read more
// than a minute ago, 20 at most: a later call reads the others. It is for readers of lists and for those who begin to follow an execution, not for each event.
func (b *Book) Learn(ctx context.Context, of ...string) error {
	if b == nil {
		return nil
	}
	for _, name := range b.due(of) {
		curves, err := b.read(ctx, name)
		b.keep(name, curves, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// due marks pipelines as being read.
func (b *Book) due(of []string) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range of {
		p := b.pages[name]
		if p != nil && !p.stale(b.now()) || len(names) == learned {
			continue
		}
		if p == nil {
			b.evict()
			p = &page{}
			b.pages[name] = p
		}
		p.reading = true
		names = append(names, name)
	}
	return names
}

// stale reports whether it is to be read again.
func (p *page) stale(now time.Time) bool {
	lasts := fresh
	if len(p.curves) == 0 {
		lasts = empty
	}
	return !p.reading && now.Sub(p.at) >= lasts
}

// evict makes room: it forgets the pipeline that was read the longest ago.
func (b *Book) evict() {
	if len(b.pages) < pipelines {
		return
	}
	oldest, at := "", time.Time{}
	for name, p := range b.pages {
		if !p.reading && (oldest == "" || p.at.Before(at)) {
			oldest, at = name, p.at
		}
	}
	delete(b.pages, oldest)
}

func (b *Book) keep(name string, curves []curve, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[name]
	if p == nil {
		return
	}
	p.reading = false
	if err == nil {
		p.at, p.curves = b.now(), curves
	}
}

// read makes the curves of a pipeline.
func (b *Book) read(ctx context.Context, name string) ([]curve, error) {
	past, err := b.past.Executions(ctx, store.Filter{Pipeline: name, Limit: looked,
		Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionCompleted, stepwell.ExecutionCompletedWithFailures}})
	if err != nil {
		return nil, err
	}
	var curves []curve
	left := mostSteps
	for i := range past {
		x := &past[i]
		if x.Parent != "" || x.Started.IsZero() || x.Ended.Before(x.Started) || len(curves) == newest {
			continue
		}
		var steps []store.StepState
		if x.Progress.Total <= left {
			left -= x.Progress.Total
			if steps, err = b.past.States(ctx, x.No, nil); err != nil {
				return nil, err
			}
		}
		curves = append(curves, curveOf(x, steps))
	}
	return curves, nil
}

// Progress adds to the counts of an execution how long it still takes.
func (b *Book) Progress(x *store.Execution, p *engine.Progress) Progress {
	return Progress{Progress: *p, ETA: b.eta(x, p)}
}

// eta is the median over the curves; nil while nothing is known.
func (b *Book) eta(x *store.Execution, p *engine.Progress) *float64 {
	if b == nil || x.Status != stepwell.ExecutionRunning || x.Started.IsZero() {
		return nil
	}
	b.mu.Lock()
	known := b.pages[x.Pipeline]
	var curves []curve // never changed once they are there
	if known != nil {
		curves = known.curves
	}
	b.mu.Unlock()
	if len(curves) == 0 {
		return nil
	}
	elapsed := max(0, b.now().Sub(x.Started).Seconds())
	all := make([]float64, 0, newest)
	for i := range curves {
		all = append(all, curves[i].remains(p, elapsed))
	}
	slices.Sort(all)
	eta := math.Round(all[len(all)/2]*10) / 10
	return &eta
}
