package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// loopGroup is a set of loops that end together (an errgroup that reports each error at once).
type loopGroup struct {
	ctx    context.Context
	cancel context.CancelFunc
	fail   func(error) // told of a loop that ends by itself with an error
	wg     sync.WaitGroup
}

func newLoopGroup(ctx context.Context, fail func(error)) *loopGroup {
	c := &loopGroup{fail: fail}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// start runs a loop until end.
func (c *loopGroup) start(name string, run func(context.Context) error) {
	c.wg.Go(func() {
		if err := run(c.ctx); err != nil && (c.ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
			c.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// end ends the loops and waits for them.
func (c *loopGroup) end() {
	c.cancel()
	c.wg.Wait()
}

// firstError keeps the first error that it is told.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// or is the first error, else err, unless that is the end that was asked for.
func (f *firstError) or(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
