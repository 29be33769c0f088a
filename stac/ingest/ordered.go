package ingest

import (
	"context"
	"iter"
	"sync"
)

// ordered runs jobs at once, at most n, and gives what they make to take, in the order of the jobs. A job
// waits while what it has made is not taken, so that memory is bounded by n results and those being made.
// It returns when all its goroutines have ended: with the first error of take, or the cause of ctx.
func ordered[J, R any](ctx context.Context, n int, jobs iter.Seq[J], run func(ctx context.Context, job J, give func(R) bool), take func(J, R) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type started struct {
		job J
		out chan R
	}
	var queue []started
	oldest := func() error {
		first := queue[0]
		queue = queue[1:]
		for r := range first.out {
			if err := take(first.job, r); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	}
	for job := range jobs {
		s := started{job, make(chan R, 1)}
		wg.Go(func() {
			defer close(s.out)
			run(ctx, job, func(r R) bool {
				select {
				case s.out <- r:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
		if queue = append(queue, s); len(queue) >= n {
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
