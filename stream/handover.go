package stream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell/stream/durable"
)

// Where several workers run segments, Options.Shared is a place that all of them reach. A segment takes its files over from
// there, and hands them over as often as its checkpoint becomes durable; a worker that was given up publishes nothing
// (durable.Handover). Without such a place none of this is called.

// handover is how a segment's files go to the next worker.
type handover struct {
	ctx   context.Context
	files *durable.Handover // checkpoint, spools, journals; nil: there is no checkpoint
	told  *durable.Handover // what stream.report and a retry read
	last  time.Time
	away  bool // the last save has failed
}

// parts of a segment's files, and of those of its result.
var (
	segmentFiles = []string{".ckpt", ".data", pagesSuffix, spoolSuffix}
	resultFiles  = []string{".json", spoolSuffix, printsSuffix, soughtSuffix, foundSuffix}
)

// stopTime is how long a segment that is to end tries to hand over what it has.
const stopTime = 10 * time.Second

// sharedName is the name of files of the checkpoint directory in the shared place.
func (c *catalog) sharedName(path string) string {
	return strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(path, c.dir)), "/")
}

// takeOver gets the files of a segment from the worker that had it.
func (s *segment) takeOver(ctx context.Context) (err error) {
	if s.catalog.shared == nil || s.handover != nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", errNotTaken, err)
		}
	}()
	h := &handover{ctx: ctx}
	own := durable.Owner{Execution: s.call.Execution, Epoch: s.call.Epoch}
	take := func(base string, parts []string) (*durable.Handover, error) {
		return durable.TakeOver(ctx, s.catalog.shared, s.catalog.sharedName(base), base, own, parts...)
	}
	if h.told, err = take(s.resultBase(), resultFiles); err != nil {
		return err
	}
	if s.keyed {
		if h.files, err = take(s.base, segmentFiles); err != nil {
			return err
		}
	}
	if s.call.GoesOn != "" {
		before := s.ofRetried(s.resultBase())
		if err := durable.Fetch(ctx, s.catalog.shared, s.catalog.sharedName(before), before); err != nil {
			return fmt.Errorf("the result of the retried execution: %w", err)
		}
	}
	s.handover = h
	return nil
}

// handOver stores the files for the worker that may go on. must: it waits until the shared place can be reached; else it
// tries again with a later block. The checkpoint's lock is held.
func (s *segment) handOver(must bool) error {
	h := s.handover
	if !must && len(s.graph.ends) > 1 && time.Since(h.last) < s.interval { // each end has blocks of its own
		return nil
	}
	defer func() { h.last = time.Now() }()
	return s.reach(must, h.save)
}

// reach does something at the shared place.
func (s *segment) reach(must bool, do func(ctx context.Context) error) error {
	h := s.handover
	ctx := h.ctx
	if must && ctx.Err() != nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := do(ctx)
		if err == nil || errors.Is(err, durable.ErrFenced) {
			s.reached(nil)
			return err
		}
		if s.reached(err); !must {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// reached says in the log when the shared place goes away, and when it is back.
func (s *segment) reached(err error) {
	was := s.handover.away
	s.handover.away = err != nil
	switch {
	case len(s.steps) == 0 || s.steps[0] == nil || was == (err != nil):
	case err != nil:
		s.warn(s.steps[0], "the stream cannot be handed over to another worker for now: "+err.Error())
	default:
		s.steps[0].host.Log(slog.LevelInfo, "the place that workers share can be reached again")
	}
}

// save stores what is told first: a later checkpoint counts on it.
func (h *handover) save(ctx context.Context) error {
	if err := h.told.Save(ctx); err != nil || h.files == nil {
		return err
	}
	return h.files.Save(ctx)
}

// hand is Env.Hand of the components.
func (s *segment) hand() func(context.Context) error {
	if s.handover == nil || s.handover.files == nil {
		return nil
	}
	return func(context.Context) error {
		s.checkpoint.mu.Lock()
		defer s.checkpoint.mu.Unlock()
		return s.handOver(true)
	}
}

// tellAll stores the result of the segment for the worker that runs stream.report.
func (s *segment) tellAll(ctx context.Context, cause error) error {
	if s.catalog.shared == nil || errors.Is(cause, errNotTaken) || errors.Is(cause, durable.ErrFenced) {
		return nil
	}
	if err := s.takeOver(ctx); err != nil { // it has failed before that
		return err
	}
	return s.reach(true, s.handover.told.Save)
}

// errNotTaken is the error of a segment whose files could not be taken over.
var errNotTaken = errors.New("take the stream over")

// fetchResults gets the results of an execution's segments from the workers that ran them.
func (r *reporter) fetchResults(ctx context.Context, folder string) error {
	if r.catalog.shared == nil {
		return nil
	}
	found, err := durable.HandoversIn(ctx, r.catalog.shared, r.catalog.sharedName(folder)+"/")
	for name := range found {
		err = errors.Join(err, durable.Fetch(ctx, r.catalog.shared, name, filepath.Join(folder, path.Base(name))))
	}
	if err != nil {
		return fmt.Errorf("results of the segments: %w", err)
	}
	return nil
}

// sweepShared removes what was not saved since a time: names below a prefix that are in one group, other than one.
func (c *catalog) sweepShared(ctx context.Context, prefix string, before time.Time, group func(name string) string, but string) error {
	if c.shared == nil {
		return nil
	}
	found, err := durable.HandoversIn(ctx, c.shared, prefix)
	last := map[string]time.Time{}
	for name, at := range found {
		if of := group(name); at.After(last[of]) {
			last[of] = at
		}
	}
	for of, at := range last {
		if of != but && at.Before(before) {
			err = errors.Join(err, durable.RemoveAll(ctx, c.shared, of+"/"))
		}
	}
	return err
}

// claimShared is claim among the streams of all workers. It gives the owner of a claim that is there already.
func (s *segment) claimShared(file, owner string) (has string, err error) {
	ctx, name := s.handover.ctx, s.catalog.sharedName(file)
	err = s.catalog.shared.Create(ctx, name, []byte(owner))
	if !errors.Is(err, fs.ErrExist) {
		return owner, err
	}
	body, err := s.catalog.shared.Get(ctx, name)
	return string(body), err
}
