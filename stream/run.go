package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// run runs the segment from the lock of its checkpoint to its last block.
func (s *segment) run(ctx context.Context) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.takeOver(ctx); err != nil {
		return err
	}
	flow, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.cancel = cancel
	err = s.attempt(ctx, flow)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if cerr := s.checkpoint.close(); err == nil {
		err = cerr
	}
	return err
}

// lock takes the segment for this run alone.
func (s *segment) lock() (unlock func(), err error) {
	s.prints = &prints{path: s.resultBase() + printsSuffix}
	if !s.keyed {
		if s.data, err = os.MkdirTemp("", "stepwell-stream-"); err != nil {
			return nil, err
		}
		s.spool = &spool{path: s.resultBase() + spoolSuffix}
		return func() { os.RemoveAll(s.data) }, errors.Join(s.spool.drop(), s.prints.drop())
	}
	var lock *flock.Flock
	if lock, err = lockCheckpoint(s.base + ".ckpt"); err != nil {
		return nil, err
	}
	s.spool = &spool{path: s.base + spoolSuffix, live: s.resultBase() + liveSuffix}
	s.data = s.base + ".data"
	return func() { _ = lock.Unlock() }, nil // the lock ends with the file in any case
}

// attempt opens everything, lets items flow and closes everything.
func (s *segment) attempt(ctx, flow context.Context) error {
	err := s.begin(flow)
	if err == nil {
		s.flow(flow)
		if err = s.cause; err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	err = s.finish(ctx, err)
	s.reportCounts(make([]action.Counts, len(s.graph.nodes)), true)
	if cerr := errors.Join(s.spool.close(), s.prints.close()); err == nil {
		err = cerr
	}
	return err
}

// begin opens the checkpoint and the components. A sink whose output is gone makes it begin anew, once.
func (s *segment) begin(ctx context.Context) error {
	p, err := s.openRun(ctx)
	if err != nil {
		return err
	}
	if err := s.enterSteps(ctx, p.done); err != nil {
		return err
	}
	if err := s.loadSought(ctx); err != nil {
		return fmt.Errorf("failures of before: %w", err)
	}
	n, err := s.open(ctx, p)
	if errors.Is(err, ErrStateGone) && p.begun {
		s.warn(n, "the output is not as the last run left it; the stream starts over", slog.String("step", n.step.ID))
		s.close(ctx, err, false)
		if err := errors.Join(s.dropPages(), s.forget()); err != nil {
			return err
		}
		n, err = s.open(ctx, &past{})
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.lose(n, err)
	}
	return s.cause
}

func (s *segment) warn(n *node, message string, attrs ...slog.Attr) {
	n.host.Log(slog.LevelWarn, message, attrs...)
}

// flow lets items flow until the last has arrived, or something failed.
func (s *segment) flow(ctx context.Context) {
	stages := s.build()
	watching, done := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(watching)
	}()
	for _, st := range stages {
		s.spawn(st.of, func() error { return st.run(st.of.ctx) })
	}
	s.work.Wait()
	done()
	<-watched
}

// finish ends all components: of the branches that have come to their end, with their outputs.
func (s *segment) finish(ctx context.Context, err error) error {
	if err == nil {
		if tooMany := s.limit.check(s.spool.failures(), max(s.read.Load(), s.spool.failures()), true); tooMany != nil {
			_ = s.fail(slices.MaxFunc(s.graph.nodes, func(a, b *node) int {
				return cmp.Compare(a.counts.failed.Load(), b.counts.failed.Load())
			}), tooMany)
			err = s.cause
		}
	}
	for _, n := range s.graph.nodes {
		if ferr := s.finishOne(n, s.ending(n, err)); ferr != nil && err == nil {
			s.stop(n, ferr)
			err = s.cause
		}
	}
	for _, n := range s.graph.nodes {
		if n.opened == nil || n.role() != spec.Sink || s.ending(n, err) != nil {
			continue
		}
		if cerr := s.finishSink(ctx, n); cerr != nil {
			if err = context.Cause(ctx); err == nil {
				s.stop(n, cerr)
				err = s.cause
			}
		}
	}
	if err == nil {
		err = s.recordMissing(ctx)
	}
	if err == nil && len(s.lost) > 0 {
		err = s.blame(true)
	}
	if err == nil {
		err = s.seal()
	}
	if err == nil {
		err = s.endSearch()
	} else if cerr := s.sought.close(); cerr != nil {
		s.warn(s.steps[0], "what was found again could not be noted: "+cerr.Error())
	}
	s.close(ctx, err, true)
	if err != nil && ctx.Err() == nil {
		if serr := s.stopped(err); serr != nil {
			s.warn(s.steps[0], "the checkpoint could not note the failure: "+serr.Error())
		}
	}
	for _, n := range s.graph.nodes {
		_ = os.Remove(filepath.Join(s.data, fileName(n.step.ID))) // if nothing was put there
	}
	_ = os.Remove(s.data)
	return err
}

// ending is why a step does not come to its proper end, nil when it does.
func (s *segment) ending(n *node, err error) error {
	if err == nil && n.because != nil {
		return n.because.err
	}
	return err
}

// seal records in the checkpoint that the stream has come to its end.
func (s *segment) seal() error {
	for _, n := range s.graph.ends {
		if n.role() != spec.Sink {
			if err := n.leaf.recordDurable(all, nil); err != nil {
				return err
			}
		}
	}
	if !s.keyed {
		return nil
	}
	size, err := s.spool.sync()
	if err != nil {
		return err
	}
	if err := s.writeDoneKeys(); err != nil {
		return err
	}
	if err := s.checkpoint.append(block{Spool: size, Complete: true}, nil, true); err != nil {
		return err
	}
	return s.dropPages()
}

// stopped records the failure in the checkpoint, after the last items that the sinks made durable.
func (s *segment) stopped(cause error) error {
	if s.checkpoint == nil || s.checkpoint.file == nil {
		return nil
	}
	by := s.call.Execution
	if action.IsFail(permanent(cause)) {
		by = anyone
	}
	size, err := s.spool.sync()
	if err != nil {
		return err
	}
	b := block{Spool: size, Stopped: by}
	if s.inParts() {
		if b.Done, err = s.completed(); err != nil {
			return err
		}
	}
	return s.checkpoint.append(b, nil, true)
}

// finishOne ends a source or a modifier.
func (s *segment) finishOne(n *node, failed error) (err error) {
	defer s.rescue(n, &err)
	f, ok := n.opened.(Finisher)
	if !ok || n.role() == spec.Sink {
		return nil
	}
	n.opened = nil
	outputs, err := f.Finish(failed)
	if err != nil || failed != nil {
		return err
	}
	return n.keepOutputs(outputs)
}

// close ends the open steps after a failure; with commit set, sinks first make durable what they can. Its own errors
// are only logged: the caller has one already.
func (s *segment) close(ctx context.Context, cause error, commit bool) {
	for _, n := range s.graph.nodes {
		var err error
		switch {
		case n.opened == nil:
		case n.role() == spec.Sink:
			err = s.abandonSink(ctx, n, commit)
		default:
			err = s.finishOne(n, cause)
		}
		if n.opened = nil; err != nil {
			s.warn(n, "closing after a failure: "+err.Error())
		}
	}
}

// stage is something that runs.
type stage struct {
	of  *node
	run func(context.Context) error
}

var _ action.Handler = (*catalog)(nil)
