package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/trigger/event/redisource"
	"github.com/stepwell/stepwell/worker/link"
)

const (
	ownLists    = "-lists"        // ends the name of the server's worker that takes from lists
	listsAwayIn = 5 * time.Second // then the server is degraded
)

// openLists connects to the Redis server whose lists have steps. One that is away is waited for; CodeInvalid: one that cannot
// serve lists.
func (s *Server) openLists(ctx context.Context, o *desk.Options) (err error) {
	if s.o.Lists.URL == "" {
		return nil
	}
	w := &s.workers
	if w.lists, err = redisq.Open(s.o.Lists); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if err := w.lists.Ping(ctx); stepwell.CodeOf(err) == stepwell.CodeInvalid {
		return errors.Join(err, s.closeLists())
	}
	w.joined.Store(true) // whoever takes from a list need not join
	o.Lists = w.lists
	return nil
}

// address is where workers reach this server: other servers on the same database are elsewhere.
func (s *Server) address() string { return cmp.Or(s.o.Advertise, s.URL()) }

func (s *Server) closeLists() error {
	if s.workers.lists != nil {
		s.workers.lists.Close()
	}
	return nil
}

// listsAway reports whether the lists have been away for so long that it should be known.
func (s *Server) listsAway() bool { return s.workers.desk.ListsAway() > listsAwayIn }

// buildListsWorker makes the worker of this process that takes from the lists what the local pool leaves to them.
func (s *Server) buildListsWorker() (err error) {
	w := &s.workers
	if w.lists == nil || s.o.Workers < 0 {
		return nil
	}
	calls := w.desk.Handler(func(*http.Request) desk.Caller { return desk.Caller{ID: "server", Secure: true, Listed: true} })
	w.own, err = link.New(link.Options{Nodes: []string{"http://here"}, Alone: true, Name: workerName() + ownLists, Client: &http.Client{Transport: client.InProcess(calls)}, Version: s.o.Version,
		Actions: s.Actions, Lists: &ownMessages{s: s}, Queues: s.o.Lists.Names(), Concurrency: s.pool.Concurrency(), Log: s.log})
	return err
}

// ownMessages are those of the lists that are for this server. Those for others are put back, and those for servers that are gone
// are dropped: whoever has taken over offers their steps again. Others may leave theirs for long, so what is behind them is
// looked for too: deeper in the list, and in the lists of each queue in turn.
type ownMessages struct {
	s     *Server
	depth int // messages for others that may be before those for this server
	first int // the queue whose lists are looked at first
	seen  []string
}

const (
	othersPause = 20 * time.Millisecond // after messages for others, for every othersPart of them
	othersPart  = 16
	maxSeen     = 100         // queues that the settings do not name, and that have no steps now
	ownWait     = time.Second // then queues may have come that the settings do not name
	maxDepth    = 256         // messages of one call; where all of them are for others, they go behind all that is in the list
)

// Pop implements link.Lists. Only one call may be under way.
func (o *ownMessages) Pop(ctx context.Context, queues []string, count int, wait time.Duration) ([]string, error) {
	queues = o.queues(queues)
	first := o.first % len(queues)
	most := max(count, min(count+o.depth, maxDepth))
	name, list, err := o.s.workers.lists.Take(ctx, slices.Concat(queues[first:], queues[:first]), most, min(wait, ownWait))
	if err != nil || o.s.node == nil {
		return list, err
	}
	own, back, others := o.parted(list, count)
	if len(back) > 0 {
		if err := o.s.workers.lists.Return(context.WithoutCancel(ctx), name, back, others >= maxDepth && others == len(list)); err != nil {
			o.s.log.Warn("messages for other servers are lost, and offered again", "messages", len(back), "error", err)
		}
	}
	if o.depth = others; len(own) > 0 || others == 0 {
		return own, nil
	}
	o.depth *= 2
	o.first++
	return nil, action.Pause(ctx, othersPause*time.Duration(1+others/othersPart))
}

// queues adds those of which this server has or had steps in the lists, though the settings do not name them.
func (o *ownMessages) queues(named []string) []string {
	for _, name := range o.s.workers.desk.OfferedQueues() {
		if name != "" && !slices.Contains(named, name) && !slices.Contains(o.seen, name) {
			o.seen = append(o.seen, name)
		}
	}
	list := slices.Concat(named, o.seen)
	o.seen = o.seen[max(0, len(o.seen)-maxSeen):]
	return list
}

// parted takes the first messages for this server out of those of a list, and counts those for others.
func (o *ownMessages) parted(list []string, count int) (own, back []string, others int) {
	address, nodes := o.s.address(), o.s.node.Addresses()
	for _, raw := range list {
		var m wire.Message
		err := json.Unmarshal([]byte(raw), &m)
		switch here := err != nil || m.Node == address; {
		case here && len(own) < count:
			own = append(own, raw)
		case here:
			back = append(back, raw)
		case slices.Contains(nodes, m.Node):
			back = append(back, raw)
			others++
		}
	}
	return own, back, others
}

// buildSources makes the reader of events from Redis.
func (s *Server) buildSources(context.Context) (err error) {
	if len(s.o.Sources) > 0 {
		s.sources, err = redisource.New(redisource.Options{Sources: s.o.Sources, Receive: s.router.Receive, MaxBody: s.router.MaxBody(), Log: s.log})
	}
	return err
}

// startSources starts to read events from Redis: here, or on the node that has the role.
func (s *Server) startSources(acting *loopGroup) {
	switch {
	case s.sources == nil:
	case s.node == nil:
		acting.start("event sources", s.sources.Run)
	default:
		acting.start("event sources", s.lead(roleSources, s.sources.Run))
	}
}

const roleSources = "sources"

// closeRedis ends the connections to the lists and to the sources of events.
func (s *Server) closeRedis() error {
	if s.sources != nil {
		s.sources.Close()
	}
	return s.closeLists()
}

// runPools runs the local pool, the plugins and the worker of the lists until all have ended.
func (s *Server) runPools(ctx context.Context) error {
	plugged := make(chan struct{})
	go func() { s.plugins.Run(ctx); close(plugged) }()
	err := s.runOwn(ctx)
	s.plugins.Drain()
	<-plugged
	return err
}

// runOwn runs the local pool and the worker of the lists until both have ended.
func (s *Server) runOwn(ctx context.Context) error {
	own := s.workers.own
	if own == nil {
		return s.pool.Run(ctx)
	}
	ran := make(chan error, 1)
	go func() { ran <- own.Run(ctx) }()
	err := s.pool.Run(ctx)
	if err != nil && ctx.Err() == nil {
		own.Drain()
	}
	if other := <-ran; err == nil {
		err = other
	}
	return err
}

// drainPools lets running steps finish.
func (s *Server) drainPools() {
	s.workers.desk.Stop()
	s.plugins.Drain()
	if s.workers.own != nil {
		s.workers.own.Drain()
	}
	s.pool.Drain()
}

// OpenLists connects to the Redis server whose lists a worker takes steps from. While it is away, this waits; CodeInvalid: a
// malformed address, or a server that cannot serve lists. Close the lists behind their worker.
func OpenLists(ctx context.Context, url string, log *slog.Logger) (*redisq.Lists, error) {
	l, err := redisq.Open(redisq.Options{URL: url})
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	for away := false; ; away = true {
		err := l.Ping(ctx)
		if err == nil {
			if away {
				log.Info("the Redis lists of steps are available")
			}
			return l, nil
		}
		if !away && stepwell.CodeOf(err) != stepwell.CodeInvalid {
			log.Warn("the Redis lists of steps are unavailable: this worker waits for them", "error", err)
		}
		if stepwell.CodeOf(err) == stepwell.CodeInvalid || action.Pause(ctx, time.Second) != nil {
			l.Close()
			return nil, err
		}
	}
}
