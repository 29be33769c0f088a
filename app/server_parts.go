package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/body"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/pipelinerun"
	"github.com/stepwell/stepwell/progress/redisstate"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/event"
	"github.com/stepwell/stepwell/trigger/webhook"
	"github.com/stepwell/stepwell/upload"
	"github.com/stepwell/stepwell/worker"
)

// Access authenticates callers and limits their rate.
type Access struct {
	// JWT says which tokens are believed. Defaults to none.
	JWT *access.JWTOptions
	// OIDC is where people sign in with a browser; its URL is the server's own, and ClientSecretRef names the secret of the vault that is
	// the client's. Defaults to nowhere.
	OIDC            *access.OIDCOptions
	ClientSecretRef string
	// Proxies are addresses and networks of proxies that are believed. Defaults to none.
	Proxies []string
	// Origins are web pages that may call. Defaults to none.
	Origins []string
	// Limit is how often one caller may ask. Defaults to those of access.LimitOptions.
	Limit access.LimitOptions
	// Policy limits the actions that steps may use, in addition to the stored policy. Defaults to allowing all.
	Policy access.Policy
}

// parts are a server's components besides its App.
type parts struct {
	keys      *access.Keys
	policies  *access.Policies
	auth      *access.Authenticator
	sessions  *access.Sessions
	limiter   *access.Limiter
	recorder  *access.Recorder
	proxies   *access.Proxies
	hub       *feed.Hub
	estimates *estimate.Book
	meter     *meter.Meter
	tracer    *meter.Tracer // nil: no traces
	sidecar   *sidecar      // nil: no Dapr
	platform  *dapr.Adapter

	runner     pipeline.Runner // nil: the conductor
	library    *pipeline.Library
	partitions *ledger.Ledger
	found      func(ctx context.Context, id string) error // what is done about an execution that a partition has already; nil: nothing
	schedules  *trigger.Schedules
	hooks      *webhook.Hooks
	router     *event.Router
	relay      *trigger.Relay
	callbacks  *callbacks
	projects   *project.Projects
	lessons    *project.Lessons
	uploads    *upload.Store
	runs       *pipelinerun.Runs
	mirror     *redisstate.State // nil: no state server
	reports    []*report.Reporter
	outgoing   atomic.Bool // the commit that is being made puts something into the outbox
}

// build creates the parts in the order of their dependencies, the API last.
func (s *Server) build(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.buildAccess, s.buildConfinement, s.buildSecrets, s.buildFeed, s.buildTriggers, s.buildSources, s.buildAPI} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) buildAccess(ctx context.Context) (err error) {
	a := &s.o.Access
	if s.policies, err = access.NewPolicies(ctx, s.Store, a.Policy); err != nil {
		return err
	}
	if s.proxies, err = access.NewProxies(a.Proxies...); err != nil {
		return err
	}
	o := access.Options{Keys: access.NewKeys(s.Store, s.log), Proxies: s.proxies, Loopback: loopback(s.listener.Addr()), Origins: a.Origins, Sidecar: s.callingApp}
	if a.JWT != nil {
		if a.JWT.Log == nil {
			a.JWT.Log = s.log
		}
		if o.JWT, err = access.NewJWT(*a.JWT); err != nil {
			return err
		}
		if err := o.JWT.Load(ctx); err != nil {
			s.log.Warn("the keys of the tokens' issuer cannot be read yet; tokens are rejected until they can", "error", err)
		}
	}
	if s.sessions, err = s.openSessions(ctx, o.Keys, o.JWT); err != nil {
		return err
	}
	o.Sessions = s.sessions
	s.keys, s.auth = o.Keys, access.New(o)
	s.limiter, s.recorder = access.NewLimiter(a.Limit), access.NewRecorder(s.Store, s.log)
	return nil
}

func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

func (s *Server) buildFeed(context.Context) (err error) {
	s.estimates = estimate.New(s.Store, s.o.Now)
	o := feed.Options{Store: s.Store, Show: func(raw json.RawMessage) json.RawMessage { return secret.Mask(raw) }, MaxSubscriptions: s.o.MaxFollowers, Estimates: s.estimates, Now: s.o.Now, Log: s.log}
	if s.node != nil {
		o.Peers = s.node.feeds
	}
	if s.hub, err = feed.New(o); err == nil && s.node != nil {
		s.node.feeds.Serve(s.hub)
	}
	return err
}

// buildSecrets reseals values of older master keys with the first one.
func (s *Server) buildSecrets(ctx context.Context) (err error) {
	n, err := s.Reseal(ctx)
	if err != nil { // the values that can be opened are used all the same
		s.log.Error("not all secrets could be sealed with the first master key", "error", err)
	}
	if n != (Resealed{}) {
		s.log.Info("secrets are sealed with the first master key now", "secrets", n.Secrets, "webhooks", n.Webhooks)
	}
	s.callbacks, err = openCallbacks(ctx, s.Store, s.Keyring)
	return err
}

func (s *Server) buildTriggers(ctx context.Context) (err error) {
	if err := s.openState(); err != nil {
		return err
	}
	s.library, err = pipeline.New(pipeline.Options{Objects: s.Store, Runner: cmp.Or[pipeline.Runner](s.runner, s.Conductor), Executions: s.Store, Catalog: s.Actions, Allow: s.allow, Triggered: s.triggered, Defaults: s.o.Defaults,
		MaxDocument: s.maxDocument, Log: s.log})
	if err != nil {
		return err
	}
	s.partitions = ledger.New(ledger.Options{Objects: s.Store, Executions: s.Store, Library: s.library, Catalog: s.Actions, Found: s.found, Now: s.now, Log: s.log})
	s.schedules, err = trigger.New(ctx, trigger.Options{Objects: s.Store, Launcher: s.library, Executions: s.Store, Canceler: s.control(), Keys: s.Conductor, Shared: s.node != nil, Observe: s.fired,
		Hide: s.hide, Now: s.o.Now, Log: s.log})
	if err != nil {
		return err
	}
	s.hooks, err = webhook.New(ctx, webhook.Options{Objects: s.Store, Launcher: s.library, Jobs: s.schedules, Sealer: s.Keyring, Hide: s.hide, Now: s.o.Now})
	if err != nil {
		return err
	}
	s.router, err = event.New(ctx, event.Options{Objects: s.Store, Launcher: s.library, Executions: s.Store, Jobs: s.schedules, Signals: s.Conductor, Hide: s.hide, Now: s.o.Now, Log: s.log})
	if err != nil {
		return err
	}
	s.kube.observer.Announce(s.jobEnded)
	if err := s.buildDapr(ctx); err != nil {
		return err
	}
	if err := s.buildReports(); err != nil {
		return err
	}
	s.relay = trigger.NewRelay(s.Store, s.log, s.sinks()...)
	if err := s.buildProgress(); err != nil {
		return err
	}
	return s.buildRuns()
}

// hide takes the secrets that everybody may come by out of a text.
func (s *Server) hide(text string) string { return s.Secrets.Text("", text) }

// wants says whether somebody waits for the end of an execution.
func (s *Server) wants(x *store.Execution) bool {
	if !s.schedules.Wants(x) && !s.router.Wants() {
		return false
	}
	s.outgoing.Store(true)
	return true
}

// made says whether the end of an execution that makes a partition goes into the outbox.
func (s *Server) made() bool {
	s.outgoing.Store(true)
	return true
}

// apiOptions are the options of the API, for all callers.
func (s *Server) apiOptions() api.Options {
	return api.Options{Store: s.Store, Blobs: s.Store.Blobs(), Control: s.control(), Forecast: s.forecast(), Signals: s.Conductor,
		Catalog: s.Actions, Pipelines: s.library, Partitions: s.partitions, Schedules: s.schedules, Kinds: s.kinds(), Clusters: &clusters{App: s.App}, Vault: s.Secrets.Vault,
		Keys: s.keys, Refused: s.refusedCommands, Policies: s.policies, Feed: s.hub, Estimates: s.estimates, Redact: s.Secrets, Audit: s.recorder, Version: s.o.Version, Retention: s.o.Retention.Executions, Log: s.log}
}

func (s *Server) buildAPI(context.Context) error {
	s.sidecar = newSidecar(s.o.Services.DaprPort)
	o := s.apiOptions()
	o.Sessions = s.sessions
	o.Auth, o.Callbacks, o.Meter, o.Origins, o.Hosts, o.ClientAddr, o.Limit = s.auth, s.callbacks, s.meter, s.o.Access.Origins, s.hosts(), s.proxies.ClientAddr, s.limiter
	o.Templates = &templates{s.o.Templates, s.templateRepos(), s.log.Warn}
	o.Queues = s.queue.Standings
	o.StreamFailures, o.Footprints, o.FindItem = s.StreamFailures, s.Footprints, s.FindItem
	o.Workers, o.Plugins, o.Page = s.workersAPI(), s.pluginsAPI, s.o.Page
	o.Vitals, o.Observe, o.Link, o.MaxBody, o.Stopping = s.vitals, s.requested, s.linked, s.o.MaxBody, s.closing
	h, err := api.New(o)
	if err != nil {
		return err
	}
	s.http = s.newHTTP(s.below(s.platform.Handler(s.peers(body.Serve(s.besides(s.gate(h)))))))
	return nil
}

// besides adds what answers beside the API.
func (s *Server) besides(h http.Handler) http.Handler {
	of := s.o.Beside
	if of == nil {
		return h
	}
	other := of.Make(h, access.Site{Hosts: s.hosts(), Origins: s.o.Access.Origins})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == of.Path {
			other.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// kinds are the kinds of objects that people manage. A new kind of trigger is a package and one line here.
func (s *Server) kinds() []api.Kind {
	return []api.Kind{
		api.Jobs(s.schedules),
		api.Webhooks(s.hooks),
		api.Events(s.router),
		api.Projects(s.projects),
		api.Lessons(s.lessons, s.uploads),
		api.PipelineRuns(s.runs),
	}
}

func (s *Server) vitals() api.Vitals {
	v := api.Vitals{Active: s.Conductor.Stats().Active, Scheduler: "running", Dapr: s.sidecar.connected()}
	if err := s.Ready(); err != nil {
		v.Unready = reason(err).Message
	}
	v.Degraded = s.listsAway() || s.plugins.Failing() != ""
	if s.state.Load() != ready {
		v.Scheduler, v.Draining = "stopped", true
	}
	return v
}

// gate refuses changes while the server cannot take work: callers retry.
func (s *Server) gate(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.Ready()
		if err == nil || isWorkers(r) || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
			h.ServeHTTP(w, r)
			return
		}
		body, err := json.Marshal(reason(err))
		if err != nil { // texts only
			body = []byte("{}")
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
		if _, err := w.Write(body); err != nil {
			s.log.Debug("a client has gone", "error", err)
		}
	})
}

// reason is the reason shown to clients for not taking work, without the store's own error.
func reason(err error) *api.Problem {
	p := &api.Problem{Code: stepwell.CodeUnavailable, Message: "the server takes no work now", Hint: stepwell.HintOf(err), Details: []api.Detail{}}
	if coded, ok := errors.AsType[*stepwell.Error](err); ok {
		p.Message = coded.Message
	}
	return p
}

// Open reports whether local callers are admitted without a credential.
func (s *Server) Open(ctx context.Context) (bool, error) { return s.auth.Open(ctx) }

// observed passes events of the conductor and the workers to the feed, to the triggers, then to others.
func (s *Server) observed(o *Options) {
	observe, progress, logged := o.Observe, o.Progress, o.Logged
	o.Observe = func(u *conductor.Update) {
		s.hub.Observe(u)
		if s.meter != nil {
			s.meter.Observe(u)
		}
		if u.Execution.Status.Terminal() {
			s.schedules.Ended(u.Execution.ID)
		}
		s.counted(u)
		s.reported(u)
		if s.runs != nil {
			s.runs.Observe(u.Execution)
		}
		if s.outgoing.Swap(false) {
			s.relay.Wake()
		}
		if observe != nil {
			observe(u)
		}
	}
	o.Progress = func(run int64, idx int32, p worker.Progress) {
		s.hub.Progress(run, idx, p.Fraction, p.Note, itemsOf(p.Counts))
		if progress != nil {
			progress(run, idx, p)
		}
	}
	o.Logged = func(executions []int64) {
		s.hub.Lines(executions)
		for _, r := range s.reports {
			r.Logged(executions)
		}
		if logged != nil {
			logged(executions)
		}
	}
	o.Outbox, o.CallbackURL = conductor.Outbox{Ended: s.wants, Made: s.made, Begun: s.begun}, s.callbackURL
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

func itemsOf(c *action.Counts) *feed.Items {
	if c == nil {
		return nil
	}
	items := feed.Items(*c)
	return &items
}

// callbackURL is where something outside ends the step that awaits the key.
func (s *Server) callbackURL(key string) string {
	return s.URL() + "/api/v1/callbacks/" + s.callbacks.Token(key)
}
