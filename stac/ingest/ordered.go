package ingest

import (
	"context"
	"iter"
	"sync"
)

// ordered runs at most n jobs concurrently, and passes their results to take, in the order of the jobs. A job waits
// until its results are taken, so that memory is bounded by some results of each. With ahead it makes the next one
// meanwhile; without, it waits until take has returned: results not taken would be made again by a resumed run. It
// returns when all its goroutines have ended: with the first error of take, or the cause of ctx.
func ordered[J, R any](ctx context.Context, n int, ahead bool, jobs iter.Seq[J], run func(ctx context.Context, job J, give func(R) bool), take func(J, R) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var queue []*giver[J, R]
	oldest := func() error {
		first := queue[0]
		queue = queue[1:]
		for r := range first.out {
			if err := take(first.job, r); err != nil {
				return err
			}
			if !ahead {
				first.taken <- struct{}{} // it waits for that
			}
		}
		return context.Cause(ctx)
	}
	for job := range jobs {
		g := &giver[J, R]{job, make(chan R), make(chan struct{}, 1), ahead}
		wg.Go(func() {
			defer close(g.out)
			run(ctx, job, func(r R) bool { return g.send(ctx, r) })
		})
		if queue = append(queue, g); len(queue) >= n {
			if err := oldest(); err != nil {
				return err
			}
		}
	}
	for len(queue) > 0 {
		if err := oldest(); err != nil {
			return err
		}
	}
	return nil
}

// giver is a job that is running.
type giver[J, R any] struct {
	job   J
	out   chan R
	taken chan struct{}
	ahead bool
}

// send hands a result over and reports whether more is wanted.
func (g *giver[J, R]) send(ctx context.Context, r R) bool {
	select {
	case g.out <- r:
	case <-ctx.Done():
		return false
	}
	if g.ahead {
		return true
	}
	select {
	case <-g.taken:
		return true
	case <-ctx.Done():
		return false
	}
}
