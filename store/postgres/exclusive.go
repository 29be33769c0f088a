package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Lease is for how long a process that has died without closing the store still holds it (Options.Exclusive).
const Lease = 5 * time.Second

// alone is the address of a node that keeps others out. No other node has it.
const alone = "alone"

var errAlone error = &stepwell.Error{Code: stepwell.CodeConflict, Message: "a process has the database to itself, such as one that takes another database over",
	Hint: "wait for its end; one that was killed is forgotten after " + Lease.String()}

// holder renews the lease by which this process has the database to itself.
type holder struct {
	no   int64
	stop context.CancelFunc
	done chan struct{}
}

// hold gives this process the database to itself, or fails with CodeConflict while there are nodes. Of two that ask at the
// same moment one may get it, or none.
func (s *Store) hold(ctx context.Context) error {
	no, _, err := s.Join(ctx, alone, Lease)
	if err != nil {
		return err
	}
	b, err := s.Beat(ctx, no, nil, Lease)
	if err == nil && anyAlive(b.Others) {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "processes run the executions of this database",
			Hint: "stop them; one that was killed is forgotten after " + Lease.String()}
	}
	if err != nil {
		return errors.Join(err, s.Leave(ctx, no))
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.held = &holder{no: no, stop: stop, done: make(chan struct{})}
	go s.renew(ctx, s.held)
	return nil
}

func anyAlive(nodes []store.NodeRow) bool {
	for _, n := range nodes {
		if n.Alive {
			return true
		}
	}
	return false
}

// renew holds the lease until ctx ends.
func (s *Store) renew(ctx context.Context, h *holder) {
	defer close(h.done)
	tick := time.NewTicker(Lease / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat, cancel := context.WithTimeout(ctx, Lease)
		if _, err := s.Beat(beat, h.no, nil, Lease); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("the lease on the database could not be renewed", "error", err)
		}
		cancel()
	}
}

// release gives the lease up, so that another process may follow at once.
func (s *Store) release() {
	if s.held == nil {
		return
	}
	s.held.stop()
	<-s.held.done
	ctx, cancel := context.WithTimeout(context.Background(), Lease)
	defer cancel()
	if err := s.Leave(ctx, s.held.no); err != nil {
		s.o.Log.Warn("the lease on the database could not be given up: it ends by itself", "error", err)
	}
}
