package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/plugin"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker/link"
)

// The kinds of objects of workers in other processes: the actions that they serve, and the local pools of servers.
const (
	kindAction = "action"
	kindPool   = "worker_pool"
)

const (
	maxAnnounced = 10_000              // actions of workers that a store keeps
	poolsFor     = time.Second         // pools are believed to be as they were read
	poolKept     = 30 * 24 * time.Hour // the object of a pool that is gone
)

// workers is a server's side of workers in other processes.
type workers struct {
	desk   *desk.Desk
	joined atomic.Bool   // a worker has joined this server
	lists  *redisq.Lists // nil: none
	own    *link.Worker  // takes from lists in this process; nil: nobody does

	mu    sync.Mutex
	pools pools
}

// pools are the local pools of this server and of others on the same store, with those that are gone.
type pools struct {
	read   time.Time
	names  map[string]bool
	joined bool // workers elsewhere have joined one of their servers
}

// poolBody says to the next process on the same store who ran steps. Its id is the name of the local pool.
type poolBody struct {
	Joined bool `json:"joined,omitempty"` // workers elsewhere too
}

// stepQueue is the queue of steps.
type stepQueue interface {
	queue.Queue
	fleet.Limited
	Len() int
	Standings(queue.Look) []queue.Standing
	Close()
}

// buildDesk makes the desk, which is the conductor's queue.
func (s *Server) buildDesk(ctx context.Context) error {
	now := func() time.Time {
		if s.App == nil {
			return s.o.Now()
		}
		return s.now() // which may be a database's
	}
	o := desk.Options{Node: workerName(), Nodes: s.nodeAddresses, Address: s.address, Lease: s.o.WorkerLease, Conducts: s.o.Workers < 0, Gone: s.gone, Announce: s.announce, Now: now, Log: s.o.Log}
	if err := s.openLists(ctx, &o); err != nil {
		return err
	}
	s.o.desk = desk.New(o)
	s.workers.desk = s.o.desk
	return nil
}

// nodeAddresses is desk.Options.Nodes.
func (s *Server) nodeAddresses() []string {
	if s.node == nil {
		return nil
	}
	return s.node.Addresses()
}

// outlived gives what stops attempts wherever they are, and what takes those in flight when an execution is taken up: nil where
// no worker elsewhere can have outlived the process before.
func (a *App) outlived(ctx context.Context, d *desk.Desk) (revoke func(int64, int32, uint32), expect func(int64, []engine.Flight), err error) {
	revoke = func(run int64, idx int32, epoch uint32) { a.pool.Revoke(run, idx, epoch) }
	if d == nil {
		return revoke, nil, nil
	}
	p, err := a.readPools(ctx)
	if p.joined || a.node != nil {
		expect = d.Expect
	}
	return func(run int64, idx int32, epoch uint32) {
		d.Revoke(run, idx, epoch)
		a.pool.Revoke(run, idx, epoch)
	}, expect, err
}

func (a *App) readPools(ctx context.Context) (p pools, err error) {
	p = pools{read: a.now(), names: map[string]bool{}}
	return p, resource.Each(ctx, a.Store, kindPool, func(o *store.Object) error {
		var body poolBody
		if err := json.Unmarshal(o.Body, &body); err != nil {
			return fmt.Errorf("the pool %s: %w", o.ID, err)
		}
		p.names[o.ID], p.joined = true, p.joined || body.Joined
		return nil
	})
}

// attachDesk gives the desk what it works with, learns which actions workers have served, and says to the next process what
// this one is.
func (s *Server) attachDesk(ctx context.Context) (err error) {
	w := &s.workers
	parts := desk.Parts{Conductor: s.Conductor, Runner: s.pool.Runner, Actions: s.Actions, Secrets: s.Secrets, Streams: s.shares, RetryCancels: s.pool.RetryCancels, Locate: s.locate}
	if s.node != nil {
		parts.Forward = s.node.router.Call
	}
	if err := w.desk.Attach(parts); err != nil {
		return err
	}
	if err := s.loadAnnounced(ctx); err != nil {
		return err
	}
	if w.pools, err = s.readPools(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.forgetPools(ctx), s.buildListsWorker()); err != nil {
		return err
	}
	return s.putPool(ctx)
}

// forgetPools removes the pools of the processes before: all, or those that are long gone where servers share the store.
func (s *Server) forgetPools(ctx context.Context) error {
	var old []string
	err := resource.Each(ctx, s.Store, kindPool, func(o *store.Object) error {
		if s.node == nil || s.now().Sub(o.Updated) > poolKept {
			old = append(old, o.ID)
		}
		return nil
	})
	for _, id := range old {
		if err := s.Store.DeleteObject(ctx, kindPool, id, store.AnyRevision); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return err
		}
	}
	return err
}

// gone is desk.Options.Gone: the local pool of an execution's former process has ended with it. Without any worker elsewhere
// it had all.
func (s *Server) gone(worker string) bool {
	w := &s.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.node != nil && s.now().Sub(w.pools.read) > poolsFor {
		p, err := s.readPools(context.Background())
		if err != nil {
			s.log.Warn("which servers there were is not known", "error", err)
			return false
		}
		w.pools = p
	}
	if s.node == nil {
		worker = strings.TrimSuffix(worker[strings.LastIndexByte(worker, '@')+1:], ownLists) // plugins end with their server
	}
	return w.pools.names[worker] || worker == "" && !w.pools.joined
}

func (s *Server) putPool(ctx context.Context) error {
	body, err := json.Marshal(poolBody{s.workers.joined.Load()})
	if err == nil {
		_, err = s.Store.PutObjects(ctx, store.Object{Kind: kindPool, ID: workerName(), Revision: store.AnyRevision, Body: body})
	}
	return err
}

// locate is desk.Parts.Locate.
func (s *Server) locate(ctx context.Context, id string) (int64, bool, error) {
	x, err := s.Store.Execution(ctx, id)
	if err != nil {
		return 0, false, err
	}
	return x.No, x.Status.Terminal(), nil
}

// loadAnnounced makes the actions known that workers have served.
func (a *App) loadAnnounced(ctx context.Context) error {
	return announceStored(ctx, a.Store, a.Actions, a.log)
}

// announceStored makes the actions known that workers have served.
func announceStored(ctx context.Context, s store.Objects, actions *action.Registry, log *slog.Logger) error {
	return resource.Each(ctx, s, kindAction, func(o *store.Object) error {
		var in wire.Action
		err := json.Unmarshal(o.Body, &in)
		if err == nil {
			err = actions.Announce(in.Spec())
		}
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict { // else it has become one of ours
			log.Warn("an action of workers is not known any more", "action", o.ID, "error", err)
		}
		return nil
	})
}

// announced makes the actions known that workers of other servers serve.
type announced struct{ s *Server }

func (n announced) Refresh(ctx context.Context, changed []store.Object) error {
	if slices.ContainsFunc(changed, func(o store.Object) bool { return o.Kind == kindAction }) {
		return n.s.loadAnnounced(ctx)
	}
	return nil
}

// announce is desk.Options.Announce: actions that this program has not are stored, so that pipelines may name them when no
// such worker is up.
func (s *Server) announce(ctx context.Context, name string, actions []wire.Action) error {
	if name == workerName() {
		return stepwell.Errorf(stepwell.CodeConflict, "choose another name", "%s is the server's own worker", name)
	}
	var fresh []spec.Spec
	var objects []store.Object
	for i := range actions {
		in := actions[i]
		if _, known := s.Actions.Spec(in.Name); known && !s.Actions.Announced(in.Name) {
			continue // ours, whatever the worker says of it
		}
		old, err := s.Store.Object(ctx, kindAction, in.Name)
		if was := (wire.Action{}); err == nil && json.Unmarshal(old.Body, &was) == nil {
			in.Cancels = in.Cancels || was.Cancels // workers of before may be there too: what is to be stopped waits for the others
		}
		about := in.Spec()
		if err := desk.Portable(&about); err != nil {
			return err
		}
		body, failed := json.Marshal(in)
		if failed != nil {
			return failed
		}
		if err == nil && sameJSON(old.Body, body) && s.Actions.Announced(in.Name) {
			continue
		}
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return err
		}
		fresh = append(fresh, about)
		objects = append(objects, store.Object{Kind: kindAction, ID: in.Name, Revision: store.AnyRevision, Body: body})
	}
	if len(fresh) > 0 {
		if err := s.keepAnnounced(ctx, fresh, objects); err != nil {
			return err
		}
		s.log.Info("a worker serves actions that are not this program's", "worker", name, "actions", len(fresh))
	}
	if s.workers.joined.CompareAndSwap(false, true) {
		return s.putPool(ctx)
	}
	return nil
}

func (s *Server) keepAnnounced(ctx context.Context, fresh []spec.Spec, objects []store.Object) error {
	if n := len(s.Actions.Specs()); n+len(fresh) > maxAnnounced {
		return stepwell.Errorf(stepwell.CodeLimit, "", "%d actions are known already", n)
	}
	if err := s.Actions.Announce(fresh...); err != nil {
		return err
	}
	_, err := s.Store.PutObjects(ctx, objects...)
	return err
}

// sameJSON compares texts that a store may have written anew.
func sameJSON(a, b []byte) bool {
	var x, y wire.Action
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	first, err := json.Marshal(x)
	second, err2 := json.Marshal(y)
	return err == nil && err2 == nil && string(first) == string(second)
}

// forecast explains steps that wait for a worker which serves their action.
type forecast struct {
	api.Forecast
	desk    *desk.Desk
	node    *node // nil: none
	plugins *plugin.Supervisor
}

func (s *Server) forecast() api.Forecast {
	if s.workers.desk == nil {
		return s.control()
	}
	return forecast{s.control(), s.workers.desk, s.node, s.plugins}
}

// Why implements api.Forecast.
func (f forecast) Why(ctx context.Context, id, step string) ([]engine.Reason, error) {
	reasons, err := f.Forecast.Why(ctx, id, step)
	if err != nil {
		return nil, err
	}
	unserved := f.desk.Unserved(id)
	if name, ok := unserved[step]; ok && len(reasons) > 0 && reasons[0].Code == engine.WhyQueued {
		reasons[0].Message = f.waitsFor(name) + strings.TrimPrefix(reasons[0].Message, "waits for a worker")
	}
	if name := f.desk.ListOf(id, step); name != "" && len(reasons) > 0 && reasons[0].Code == engine.WhyQueued {
		reasons[0].Message = "waits in the Redis list " + name + ": no worker has taken it from there"
	}
	if name, waits := f.desk.WaitsIn(id, step); waits && f.node != nil && len(reasons) > 0 {
		if text := f.node.permits.Explain(name); text != "" {
			reasons[0].Message = text
		}
	}
	if step == "" {
		for key, name := range unserved {
			if len(reasons) > 20 {
				break
			}
			reasons = append(reasons, engine.Reason{Code: engine.WhyQueued, Message: key + " " + f.waitsFor(name), Steps: []string{key}})
		}
	}
	return reasons, nil
}

// waitsFor says which worker or plugin is missing for an action.
func (f forecast) waitsFor(action string) string {
	if text := f.plugins.Explain(action); text != "" {
		return text
	}
	if action == plan.SegmentAction {
		return "waits for a worker that runs streams: one of its queue whose streams.shared is the server's"
	}
	return "waits for a worker that serves the action " + action
}

// workersAPI is the desk as the API has it.
type workersAPI struct {
	*Server
	calls http.Handler
}

func (s *Server) workersAPI() api.Workers {
	return &workersAPI{s, s.workers.desk.Handler(s.caller)}
}

// caller says who is behind a worker's request. Secrets go over TLS and within this machine alone.
func (s *Server) caller(r *http.Request) desk.Caller {
	p := access.Of(r.Context())
	c := desk.Caller{Secure: r.TLS != nil}
	if p.Kind != access.KindAnonymous {
		c.ID = p.Kind + ":" + p.Name
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		proxied := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-Ip") != ""
		c.Secure = c.Secure || !proxied
	}
	return c
}

// isWorkers reports whether a request is a worker's call, which are served as long as there is a server: outcomes of workers
// are taken while it starts and while it stops.
func isWorkers(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, wire.Path) }

// ServeHTTP implements api.Workers.
func (w *workersAPI) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.calls.ServeHTTP(rw, r) }

// List implements api.Workers.
func (w *workersAPI) List() []api.Worker {
	own := api.Worker{Name: workerName(), Version: w.o.Version, Local: true, Actions: []string{}, Queues: []string{}, Concurrency: w.pool.Concurrency(), Held: w.pool.Running(),
		Seen: resource.At(w.now()), Secrets: true, Draining: w.state.Load() == draining}
	for _, name := range w.Actions.Names() {
		if !w.Actions.Announced(name) {
			own.Actions = append(own.Actions, name)
		}
	}
	list := []api.Worker{own}
	for _, x := range w.workers.desk.Workers() {
		list = append(list, api.Worker{Name: x.Name, Version: x.Version, Actions: append([]string{}, x.Actions...), Queues: append([]string{}, x.Queues...), Concurrency: x.Concurrency, Held: x.Held,
			Seen: resource.At(x.Seen), Secrets: x.Secure, Draining: x.Draining})
	}
	return list
}

// Drain implements api.Workers.
func (w *workersAPI) Drain(name string) error {
	if name == workerName() {
		return stepwell.Errorf(stepwell.CodeConflict, "stop the server instead", "%s is the server's own worker", name)
	}
	return w.workers.desk.Drain(name)
}
