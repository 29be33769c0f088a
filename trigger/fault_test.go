package trigger_test

import (
	"context"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

type pipelineLaunch = pipeline.Launch

// dead starts nothing.
type dead struct{}

func (dead) Launch(context.Context, pipeline.Launch) (*pipeline.Launched, error) {
	return nil, errDead
}

var errDead = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the process is dead"}

// bomb lets a process die at the n-th of its effects: right before it, or right after it and before anybody knows.
// From then on nothing it does has an effect.
type bomb struct {
	mu     sync.Mutex
	left   int
	after  bool
	blown  bool
	counts int
}

// effect carries an effect out, unless the process is dead.
func (b *bomb) effect(do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blown {
		return errDead
	}
	b.counts++
	b.left--
	if b.left > 0 {
		return do()
	}
	b.blown = true
	if b.after {
		_ = do() // nobody learns how it went
	}
	return errDead
}

// bombed is the store, and what starts executions, for a process that dies.
type bombed struct {
	*sqlite.Store
	bomb   *bomb
	ledger *ledger
}

func (b bombed) PutObjects(ctx context.Context, objects ...store.Object) (done []store.Object, err error) {
	err = b.bomb.effect(func() error {
		done, err = b.Store.PutObjects(ctx, objects...)
		return err
	})
	return done, err
}

func (b bombed) Delivered(ctx context.Context, nos []int64) error {
	return b.bomb.effect(func() error { return b.Store.Delivered(ctx, nos) })
}

func (b bombed) Launch(ctx context.Context, in pipeline.Launch) (l *pipeline.Launched, err error) {
	err = b.bomb.effect(func() error {
		l, err = b.ledger.Launch(ctx, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}
