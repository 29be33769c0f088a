package trigger

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// kindLeftover marks a deleted job whose chunks of firings are still there. Its id is the job's, a slash, and the number of
// the job's last row: a job that takes its place has rows behind that. The mark is stored before the job is deleted, so that
// a crash leaves nothing behind.
const kindLeftover = "schedule_leftover"

// leaves marks the chunks of a job that is to be deleted, if it has any; "" when not. The caller holds the lock.
func (s *Schedules) leaves(ctx context.Context, e *entry) (mark string, err error) {
	chunks, err := s.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kindFirings, Prefix: e.ID + "/", Limit: 1})
	if err != nil || len(chunks) == 0 {
		return "", err
	}
	mark = e.ID + "/" + strconv.FormatInt(e.state.Ledger, 10)
	_, err = s.o.Objects.PutObjects(ctx, store.Object{Kind: kindLeftover, ID: mark, Revision: store.AnyRevision, Body: []byte("{}")})
	return mark, err
}

// clean removes the remains of deleted jobs on each signal, until ctx ends.
func (s *Schedules) clean(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.cleanOnce(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.WarnContext(ctx, "the firings of deleted jobs are not removed for now", "error", err)
		}
		timer := time.NewTimer(cleanPause)
		select {
		case <-ctx.Done():
		case <-s.left:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// cleanPause is how long clean waits to try again.
const cleanPause = 10 * time.Minute

func (s *Schedules) cleanOnce(ctx context.Context) error {
	return resource.Each(ctx, s.o.Objects, kindLeftover, func(o *store.Object) error {
		job, text, _ := strings.Cut(o.ID, "/")
		last, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the mark " + o.ID + " cannot be read", Err: err}
		}
		s.mu.Lock() // until a job that is being deleted is
		e := s.jobs[job]
		stays := e != nil && e.state.Ledger >= last && e.Created.UnixMicro() <= last
		s.mu.Unlock()
		if !stays {
			err = s.removeChunks(ctx, job, last)
		}
		if err != nil {
			return err
		}
		return gone(s.o.Objects.DeleteObject(ctx, kindLeftover, o.ID, store.AnyRevision))
	})
}

// removeChunks removes the chunks of a job that have no row behind the given one.
func (s *Schedules) removeChunks(ctx context.Context, job string, last int64) error {
	const page = 100
	for {
		list, err := s.o.Objects.Objects(ctx, store.ObjectFilter{Kind: kindFirings, Prefix: job + "/", After: chunkID(job, last+1), Limit: page})
		if err != nil {
			return err
		}
		for i := range list {
			if err := gone(s.o.Objects.DeleteObject(ctx, kindFirings, list[i].ID, store.AnyRevision)); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
	}
}

// gone ignores that the object to delete does not exist.
func gone(err error) error {
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil
	}
	return err
}
