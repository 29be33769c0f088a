package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// sharedStore is a Store whose executions several processes run together (storeKind.shared).
type sharedStore interface {
	Store
	store.Nodes
	store.Seats
	store.Permits
	store.Changes
	store.Notifier
}

// node is this process as one of those that run the executions of a database.
type node struct {
	*fleet.Node
	store   sharedStore
	router  *fleet.Router
	feeds   *fleet.Feeds
	slots   *fleet.Slots
	permits *fleet.Permits
	objects chan struct{}      // some may have changed
	end     context.CancelFunc // of the slots
	changed int64              // the last change of an object that is known here
	serves  bool
	app     *App
	desk    *desk.Desk // nil: this process serves no workers
}

// How often a node looks for what others have changed, and for signals of which nothing has told it, and how many at once.
const (
	changesInterval = time.Second
	unheardInterval = 5 * time.Second
	maxChanges      = 1000
)

// fleetKeyID names the key by which nodes sign what they say to each other. It is sealed with the master key, so that a node with
// another one does not start.
const fleetKeyID = "fleet-key"

// join makes this process a node of a database that several share; of another one it is the only process. A server takes over what
// dead nodes leave, others run what they are asked for. The clock is the database's from then on.
func (a *App) join(ctx context.Context, o *Options) error {
	shared, ok := a.Store.(sharedStore)
	if !ok || o.readOnly {
		return nil
	}
	if o.serves {
		KeepHeadroom()
	}
	address, err := "", error(nil)
	if o.advertise != nil {
		if address, err = o.advertise(ctx); err != nil {
			return err
		}
	}
	n := &node{store: shared, serves: o.serves, app: a, desk: o.desk, objects: make(chan struct{}, 1)}
	if _, n.changed, err = shared.ChangedObjects(ctx, -1, 0); err != nil {
		return err
	}
	if n.Node, err = fleet.Join(ctx, fleet.Options{Store: shared, Address: address, Single: !o.serves, Adopted: func() { a.kube.observer.Wake() }, Local: o.Now, Log: o.Log}); err != nil {
		return err
	}
	if o.alone {
		if err = n.refuseOthers(ctx); err != nil {
			return errors.Join(err, shared.Leave(ctx, n.No()))
		}
	}
	slots, end := context.WithCancel(context.WithoutCancel(ctx))
	n.slots, n.end = fleet.NewSlots(slots, n.Node, shared), end
	n.permits = fleet.NewPermits(n.Node, shared, a.queue, o.Queues)
	a.node, a.now, o.Now = n, n.Now, n.Now
	return nil
}

// refuseOthers is CodeConflict when other processes run the executions.
func (n *node) refuseOthers(ctx context.Context) error {
	b, err := n.store.Beat(ctx, n.No(), nil, time.Minute)
	if err != nil {
		return err
	}
	for _, other := range b.Others {
		if other.Alive {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "other processes run the executions of this database"}
		}
	}
	return nil
}

// conduct makes options those of a node's conductor.
func (n *node) conduct(o *conductor.Options) {
	if n == nil {
		return
	}
	o.Store, o.Owner, o.Owners, o.Slots, o.Signalled = n.Executions(o.Store), n.No(), n.Node, n.slots, n.tell
}

// route makes the way of requests to the nodes that run executions.
func (n *node) route(ctx context.Context) (err error) {
	if n == nil {
		return nil
	}
	var key []byte
	if n.serves {
		if key, err = secret.StoredKey(ctx, n.store, n.app.Keyring, objectServer, fleetKeyID); err != nil {
			return wrongKey(err)
		}
	}
	o := fleet.RouterOptions{Control: n.app.Conductor, Store: n.store, Key: key}
	if n.desk != nil {
		o.Serve = n.desk.Serve
	}
	if n.router, err = fleet.NewRouter(n.Node, o); err == nil {
		n.feeds = fleet.NewFeeds(n.router)
	}
	return err
}

// start starts the loops of the node. The conductor ends before them: then others take over at once.
func (n *node) start(g *loopGroup) *loopGroup {
	if n == nil {
		return g
	}
	g.start("node", func(ctx context.Context) error { return n.Run(ctx, n.app.Conductor) })
	g.start("concurrency keys", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, n.end)()
		n.slots.Run()
		return nil
	})
	g.start("limits of queues", func(ctx context.Context) error { n.permits.Run(ctx); return nil })
	g.start("signals of other nodes", n.hear)
	g.start("notifications", func(ctx context.Context) error { n.store.Listen(ctx, n.heard); return nil })
	return g
}

// heard has the loops look at once that would look in a moment.
func (n *node) heard(topic string) {
	if topic == store.TopicNodes || topic == "" {
		n.Wake()
	}
	if topic == store.TopicPermits || topic == "" {
		n.permits.Wake()
	}
	if topic == store.TopicObjects || topic == "" {
		select {
		case n.objects <- struct{}{}:
		default:
		}
	}
}

// close lets others take over at once, also where the node has never run.
func (n *node) close() {
	if n == nil {
		return
	}
	n.end()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.store.Leave(ctx, n.No()); err != nil {
		n.app.log.Warn("this node could not say that it leaves", "error", err)
	}
}

// orphansInterval is how often the node with the role looks for work outside that dead nodes have given up.
const orphansInterval = time.Minute

// orphans has the node with the role stop the work outside that dead nodes have given up; nil: this is the only process.
func (n *node) orphans() func(ctx context.Context, take func(ctx context.Context)) {
	if n == nil {
		return nil
	}
	return func(ctx context.Context, take func(ctx context.Context)) {
		if !n.serves {
			return
		}
		err := n.Lead(ctx, fleet.RoleCancels, func(term context.Context) {
			for take(term); action.Pause(term, orphansInterval) == nil; {
				take(term)
			}
		})
		if err != nil {
			n.app.log.Error("a role is without its work", "role", fleet.RoleCancels, "error", err)
		}
	}
}

// tell passes a new signal on to the other nodes whose steps await it.
func (n *node) tell(ctx context.Context, s store.Signal) {
	waiting, err := n.store.Awaiting(ctx, []string{s.Key})
	told := map[int64]bool{0: true, n.No(): true}
	for i := range waiting {
		owner := waiting[i].Owner
		if told[owner] {
			continue
		}
		told[owner] = true
		raw, failed := json.Marshal(conductor.RequestBody{Key: s.Key, ID: s.ID, Signal: s.Body, At: waiting[i].Seen.UnixMicro()}) // by no node's clock: they are behind the store's by as much as it takes to answer
		if failed == nil {
			failed = n.store.PutRequest(ctx, store.Request{Owner: owner, Kind: conductor.RequestDeliver, Body: raw})
		}
		err = errors.Join(err, failed)
	}
	if err != nil {
		n.app.log.Warn("other nodes are not told of a signal; the one that finds it passes it on", "key", s.Key, "error", err)
	}
}

// hear is the loop that looks for signals of which no other node has told this one.
func (n *node) hear(ctx context.Context) error {
	for action.Pause(ctx, unheardInterval) == nil {
		keys, err := n.store.Unheard(ctx, n.No(), maxChanges)
		if err == nil && len(keys) > 0 {
			err = n.app.Conductor.Deliver(ctx, keys)
		}
		if err != nil && ctx.Err() == nil {
			n.app.log.Warn("signals of other nodes are not seen for now", "error", err)
		}
	}
	return nil
}

// control changes and forecasts executions.
type control interface {
	api.Control
	api.Forecast
}

// control is the conductor, or the way to the nodes that run the executions.
func (a *App) control() control {
	if a.node == nil {
		return a.Conductor
	}
	return routed{a.Conductor, a.node.router, a.Store}
}

// routed changes executions wherever they run.
type routed struct {
	*conductor.Conductor
	router *fleet.Router
	store  store.Store
}

func (r routed) Cancel(ctx context.Context, id, reason string) error {
	return r.router.Cancel(ctx, id, reason)
}

func (r routed) Pause(ctx context.Context, id string) error { return r.router.Pause(ctx, id) }

func (r routed) Resume(ctx context.Context, id string) error { return r.router.Resume(ctx, id) }

func (r routed) Restart(ctx context.Context, id, step string, failedOnly bool) error {
	return r.router.Restart(ctx, id, step, failedOnly)
}

// Wait also waits for the end of an execution that runs elsewhere, by looking.
func (r routed) Wait(ctx context.Context, id string) (*store.Execution, error) {
	return (&requester{store: r.store}).Wait(ctx, id)
}

// advertised is where other nodes reach this one, "" when it cannot be told: then they leave requests in the database.
func (s *Server) advertised(ctx context.Context) (address string, err error) {
	if s.listener, err = listen(ctx, &s.o); err != nil || s.o.Advertise != "" {
		return s.o.Advertise, err
	}
	at, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || at.IP.IsUnspecified() {
		s.o.Log.Warn("other nodes reach this one through the database alone", "hint", "name its address with --advertise")
		return "", nil
	}
	scheme := "http://"
	if s.o.TLS != nil {
		scheme = "https://"
	}
	return scheme + at.String(), nil
}

// peers serves the requests of other nodes beside those of clients.
func (s *Server) peers(h http.Handler) http.Handler {
	if s.node == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case fleet.Path:
			s.node.router.ServeHTTP(w, r)
		case fleet.FeedPath:
			s.node.feeds.ServeHTTP(w, r)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// startRoles starts the loops that run once: in this process, or on the node that has the role.
func (s *Server) startRoles(acting *loopGroup) {
	s.startSources(acting)
	keep := &retention{store: s.Store, keep: s.o.Retention, uploads: s.uploads.Sweep, partitions: s.partitions.Sweep, now: s.o.Now, log: s.log}
	if s.node == nil {
		acting.start("schedules", s.schedules.Run)
		acting.start("relay", s.relay.Run)
		for _, r := range s.reports {
			acting.start("report", r.Run)
		}
		acting.start("retention", keep.Run)
		if s.o.Dapr.Wake {
			acting.start("wake-up job", s.keepAwake)
		}
		return
	}
	acting.start("changes of other nodes", s.followChanges)
	acting.start("schedules", s.lead(fleet.RoleScheduler, s.fire))
	acting.start("retention", s.lead(fleet.RoleRetention, keep.Run))
}

// lead is a loop that runs while this node has the role.
func (s *Server) lead(role string, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.node.Lead(ctx, role, func(term context.Context) {
			s.log.Info("this node has a role now", "role", role, "node", s.node.No())
			if err := run(term); err != nil && term.Err() == nil {
				s.log.Error("a role is without its work", "role", role, "error", err)
			}
			<-term.Done()
		})
	}
}

// fire fires schedules and passes on what has happened, until ctx ends. Both are one role: what has happened fires schedules too.
func (s *Server) fire(ctx context.Context) error {
	for {
		err := s.schedules.Reload(ctx)
		if err == nil {
			break
		}
		s.log.Warn("the schedules cannot be read; it will be retried", "error", err)
		if err := action.Pause(ctx, changesInterval); err != nil {
			return err
		}
	}
	var loops errgroup.Group
	loops.Go(func() error { return s.schedules.Run(ctx) })
	loops.Go(func() error { return s.relay.Run(ctx) })
	for _, r := range s.reports {
		loops.Go(func() error { return r.Run(ctx) })
	}
	if s.o.Dapr.Wake {
		loops.Go(func() error { return s.keepAwake(ctx) })
	}
	loops.Go(func() error { // nothing tells of the entries of other nodes
		for action.Pause(ctx, changesInterval) == nil {
			s.relay.Wake()
		}
		return nil
	})
	return loops.Wait()
}

// followChanges is the loop that reads again what other nodes have changed.
func (s *Server) followChanges(ctx context.Context) error {
	tick := time.NewTicker(changesInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.node.objects:
		case <-tick.C:
		}
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("changes of other nodes are not seen for now", "error", err)
		}
	}
}

// refresh reads again the objects that have changed since the last time.
func (s *Server) refresh(ctx context.Context) error {
	for {
		changed, last, err := s.node.store.ChangedObjects(ctx, s.node.changed, maxChanges)
		if err != nil || len(changed) == 0 {
			return err
		}
		for _, part := range []interface {
			Refresh(ctx context.Context, changed []store.Object) error
		}{announced{s}, s.stored, s.Secrets, s.keys, s.policies, s.schedules, s.hooks, s.router} {
			if err := part.Refresh(ctx, changed); err != nil {
				return fmt.Errorf("%T: %w", part, err)
			}
		}
		s.node.changed = last
	}
}

// takeUp takes an unfinished execution up for the one who asks for it. The process that ran it may have been killed a moment ago: then it
// takes a lease until this one may have it.
func (a *App) takeUp(ctx context.Context, id string) error {
	for tries := 0; ; tries++ {
		err := a.Conductor.Recover(ctx, id)
		if a.node == nil || stepwell.CodeOf(err) != stepwell.CodeUnavailable || tries == takeUpTries {
			return err
		}
		if paused := action.Pause(ctx, fleet.RetryAfter); paused != nil {
			return cmp.Or(err, paused)
		}
	}
}

// takeUpTries is more than two leases.
const takeUpTries = 12
