package app

import (
	"context"
	"fmt"
	"time"
)

// Run recovers unfinished executions and serves until ctx ends (at once: running handlers are stopped, and their steps
// resume after the next start) or a drain is complete. An error is a permanent failure; nothing reported as done is
// lost. Call it once.
func (s *Server) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var failed firstError
	broken := func(err error) { failed.set(err); fail(err) }
	base := context.WithoutCancel(ctx)

	noding := s.node.start(newLoopGroup(base, broken)) // ends last: others take over then
	conducting := newLoopGroup(base, broken)           // ends behind everything else, which reports to it
	conducting.start("conductor", s.Conductor.Run)
	serving := newLoopGroup(base, broken) // serves clients: ends after the work
	s.attend(serving)
	following := newLoopGroup(base, broken)
	following.start("feed", s.hub.Run)
	if s.node != nil {
		following.start("feeds of other nodes", s.node.feeds.Run)
	}
	acting := newLoopGroup(ctx, broken) // starts work: ends before it
	acting.start("drain", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-s.drain:
			s.state.Store(draining)
			acting.cancel()
		}
		return nil
	})
	working, halt := context.WithCancel(ctx)
	defer halt()
	worked := make(chan error, 1)
	go func() { worked <- s.runPools(working) }()

	if err := s.begin(acting); err != nil {
		broken(err)
	}
	err := s.work(acting, halt, worked)
	s.state.Store(draining)
	acting.end()
	following.end() // followers get the position to resume at; first, as they keep connections open
	close(s.closing)
	s.shutHTTP()
	serving.end()
	conducting.end()
	noding.end()
	return failed.or(err)
}

// attend starts the loops that serve clients, and their metrics.
func (s *Server) attend(serving *loopGroup) {
	serving.start("audit log", s.recorder.Run)
	serving.start("API keys", s.keys.Run)
	serving.start("workers", s.workers.desk.Run)
	if s.tracer != nil {
		serving.start("traces", s.sendTraces)
	}
	if s.sidecar != nil {
		serving.start("Dapr sidecar", s.sidecar.Run)
	}
	for _, kind := range s.kinds() {
		if name, run := kind.Work(); run != nil {
			serving.start(name, run)
		}
	}
	serving.start("http", func(context.Context) error { return s.serveHTTP() })
}

// begin recovers unfinished executions, and then starts the loops that start work.
func (s *Server) begin(acting *loopGroup) error {
	begun := time.Now()
	if s.node != nil {
		s.log.Info("a node of the database", "node", s.node.No())
	} else if err := s.Conductor.RecoverAll(acting.ctx); err != nil {
		if acting.ctx.Err() != nil {
			return nil // stopped meanwhile
		}
		return fmt.Errorf("recovery: %w", err)
	}
	s.awaitPlugins(acting.ctx)
	acting.start("requests", s.watch)
	s.watchJobs(acting)
	s.startRoles(acting)
	s.state.CompareAndSwap(starting, ready)
	s.log.Info("ready", "address", s.Addr().String(), "recovery", time.Since(begun))
	return nil
}

// work waits for the end of the workers: by a drain, in which running steps may finish for a while, or by the end of
// their context.
func (s *Server) work(acting *loopGroup, halt func(), worked <-chan error) error {
	select {
	case err := <-worked:
		return err
	case <-s.drain:
	}
	acting.end()
	s.drainPools()
	limit := time.NewTimer(s.o.StopAfter)
	defer limit.Stop()
	select {
	case err := <-worked:
		return err
	case <-limit.C:
		s.log.Warn("steps that still run are stopped; they continue after the next start", "after", s.o.StopAfter)
	}
	halt()
	return <-worked
}

// Drain begins no more work and lets the running steps finish, for as long as StopAfter says; then clients are sent
// away and Run returns. It returns at once.
func (s *Server) Drain() { s.once.Do(func() { close(s.drain) }) }
