package app

import (
	"context"
	"errors"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// refoldPage is how many executions Refold reads at once.
const refoldPage = 1000

// Refold has the step logs of all executions of a database folded by this program, newest first. each gets what came of each; an error
// that it returns ends the work. Other processes may go on meanwhile: the database is only read.
func Refold(ctx context.Context, o Options, each func(*store.Execution, error) error) (err error) {
	s, err := OpenReader(ctx, o.DB, o.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	actions, err := Actions(o)
	if err != nil {
		return err
	}
	if err := announceStored(ctx, s, actions, o.Log); err != nil {
		return err
	}
	c, err := conductor.New(context.WithoutCancel(ctx), conductor.Options{Store: s, Queue: &queue.Memory{}, Blobs: s.Blobs(), Catalog: actions, Log: o.Log})
	if err != nil {
		return err
	}
	for filter := (store.Filter{Limit: refoldPage}); ; {
		page, err := s.Executions(ctx, filter)
		if err != nil {
			return err
		}
		for i := range page {
			wrong := c.Refold(ctx, &page[i])
			if stepwell.CodeOf(wrong) == stepwell.CodeNotFound {
				if _, err := s.Execution(ctx, page[i].ID); stepwell.CodeOf(err) == stepwell.CodeNotFound {
					continue // it was deleted meanwhile
				}
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := each(&page[i], wrong); err != nil {
				return err
			}
		}
		if len(page) < refoldPage {
			return nil
		}
		filter.Before = page[len(page)-1].ID
	}
}
