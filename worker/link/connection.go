package link

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/plan"
)

// connected returns the connection to a node, joining one if need be.
func (w *Worker) connected(ctx context.Context) (transport, error) {
	w.connecting.Lock()
	defer w.connecting.Unlock()
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	if time.Now().Before(w.retry) {
		return nil, errGone{errNotLinked}
	}
	base := w.nodes[w.at%len(w.nodes)]
	conn, nodes, err := w.joinFree(ctx, base)
	if err != nil {
		w.at++
		if w.ends() {
			w.drain()
		}
		return nil, err
	}
	w.mu.Lock()
	w.conn, w.base = conn, base
	w.mu.Unlock()
	w.o.Log.Info("joined", "node", base, "worker", w.name())
	w.members.follow(w, nodes)
	return conn, nil
}

// linked is the connection to the node; nil: there is none.
func (w *Worker) linked() transport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn
}

var (
	errNotLinked = errors.New("it did not answer a moment ago")
	errTaken     = errors.New("it is joined already")
)

// joinFree joins a node that no other member is joined to. While others are joined to theirs, it is tried now and then. The
// caller holds connecting.
func (w *Worker) joinFree(ctx context.Context, base string) (conn transport, nodes []string, err error) {
	if !w.members.several.Load() {
		return w.join(ctx, base)
	}
	w.retry = time.Now().Add(lastPause)
	if w.members.taken(w, base) {
		return nil, nil, errGone{errTaken}
	}
	if conn, nodes, err = w.join(ctx, base); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	address := w.address
	w.mu.Unlock()
	if w.members.taken(w, address) {
		conn.close()
		w.retry = time.Now().Add(retryTaken)
		return nil, nil, errGone{errTaken}
	}
	return conn, nodes, nil
}

// join connects to a node and joins it.
func (w *Worker) join(ctx context.Context, base string) (transport, []string, error) {
	var conn transport = &turns{base, w.o.Client, w.o.Header}
	if w.o.Stream {
		if s, err := dial(ctx, base, w.o.Client, w.o.Header); err == nil {
			conn = s
		} else {
			w.o.Log.Debug("no stream: HTTP turns instead", "node", base, "error", err)
		}
	}
	joining, end := context.WithTimeout(ctx, 10*time.Second)
	defer end()
	var out wire.Joined
	if err := conn.call(joining, "join", w.joining(), &out); err != nil {
		conn.close()
		return nil, nil, err
	}
	if out.Worker != "" && out.Worker != w.name() {
		w.o.Log.Info("the node calls this worker by another name", "node", base, "name", w.name(), "worker", out.Worker)
		w.as.Store(&out.Worker)
	}
	w.mu.Lock()
	w.address, w.place = strings.TrimRight(out.Address, "/"), out.Streams
	w.lease = max(time.Duration(out.LeaseSeconds*float64(time.Second)), 10*time.Millisecond)
	w.change()
	w.mu.Unlock()
	return conn, out.Nodes, nil
}

// joining is what the worker joins with.
func (w *Worker) joining() wire.Join {
	return wire.Join{Worker: w.name(), Instance: w.members.instance, Protocol: wire.Protocol, Version: w.o.Version, Queues: w.o.Queues, Concurrency: w.o.Concurrency,
		Actions: w.actions(), Holding: w.holding()}
}

// actions describes what this worker serves.
func (w *Worker) actions() (list []wire.Action) {
	w.mu.Lock()
	streams := w.streams
	w.mu.Unlock()
	for _, s := range w.o.Actions.Specs() {
		stays := s.Stream != nil || s.Internal || s.Stays // with its node
		if streams && s.Name == plan.SegmentAction {
			stays = false
		}
		if stays || w.o.Actions.Announced(s.Name) {
			continue
		}
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			list = append(list, wire.ActionOf(&s, name))
		}
	}
	return list
}

// disconnect lets go of a connection that has failed; moves says that its node does not answer.
func (w *Worker) disconnect(conn transport, moves bool) {
	w.mu.Lock()
	if w.conn != conn {
		w.mu.Unlock()
		return
	}
	w.conn = nil
	w.mu.Unlock()
	w.members.losses.Add(1)
	conn.close()
	if moves {
		w.connecting.Lock()
		w.at++
		w.connecting.Unlock()
	}
}

// route is the connection for a call: that of this member, or while its node does not answer that of another member, whose node
// may have taken over the executions of the former. A call that is for its node alone goes nowhere else.
func (w *Worker) route(ctx context.Context, alone bool) (transport, *Worker, error) {
	if w.members.several.Load() && !alone && w.linked() == nil {
		if x := w.members.linked(w); x != nil {
			if conn := x.linked(); conn != nil {
				return conn, x, nil
			}
		}
	}
	conn, err := w.connected(ctx)
	return conn, w, err
}

// try makes one call, whose answer is read into out unless that is nil. After an error of the connection the next call goes to
// another node.
func (w *Worker) try(ctx context.Context, name string, in, out any) error {
	turn, isTurn := in.(wire.Turn)
	conn, x, err := w.route(ctx, name == "join" || turn.Want > 0 && len(turn.Outcomes) == 0 || turn.Leaving)
	if err != nil {
		return err
	}
	if isTurn { // the node that has been joined just now may have given another name
		turn.Worker = w.name()
		if x != w { // another node's steps are its own member's
			turn.Want = 0
		}
		in = turn
	}
	err = conn.call(ctx, name, in, out)
	_, gone := errors.AsType[errGone](err)
	switch {
	case gone && ctx.Err() == nil:
		x.disconnect(conn, true)
	case stepwell.CodeOf(err) == stepwell.CodeNotFound && stepwell.HintOf(err) == wire.JoinFirst:
		x.disconnect(conn, false)
		err = errGone{err}
	}
	return err
}

// pauses between tries.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// passes reports whether another try may succeed.
func passes(err error) bool {
	_, gone := errors.AsType[errGone](err)
	return gone || stepwell.CodeOf(err) == stepwell.CodeUnavailable
}

// call makes a call until a node has answered it.
func (w *Worker) call(ctx context.Context, name string, in, out any) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.try(ctx, name, in, out)
		if err == nil || !passes(err) {
			return err
		}
		if err := action.Pause(ctx, pause); err != nil {
			return err
		}
	}
}
