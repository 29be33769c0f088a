package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Store is the part of the store that the API reads.
type Store interface {
	store.Reader
	// Definition is a snapshot by its hash.
	Definition(ctx context.Context, hash []byte) ([]byte, error)
	AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error)
	// UsageOf is a sum of usage (store.UsageOfLesson …).
	UsageOf(ctx context.Context, kind, id string) (stepwell.Spending, error)
	OutsideWork(ctx context.Context, execution int64, after store.OutsideWork, limit int) ([]store.OutsideWork, error)
}

// Control changes executions; a conductor.Conductor does.
type Control interface {
	Cancel(ctx context.Context, id, reason string) error
	Pause(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
	Restart(ctx context.Context, id, step string, failedOnly bool) error
	RetryOnce(ctx context.Context, id, from string, by store.Origin) (retried string, fresh bool, err error)
}

// Forecast previews changes, explains waiting and waits for completion; implemented by conductor.Conductor.
type Forecast interface {
	PreviewRestart(ctx context.Context, id, step string, failedOnly bool) (*engine.Forecast, error)
	PreviewRetry(ctx context.Context, id, from string) (*engine.Forecast, error)
	Why(ctx context.Context, id, step string) ([]engine.Reason, error)
	WhyAt(ctx context.Context, id, step string, version int64, at time.Time) ([]engine.Reason, int64, error)
	WhatIf(ctx context.Context, id string, a *engine.Assumption, version int64, at time.Time) (*engine.Consequence, int64, error)
	StepsAt(ctx context.Context, id string, version int64, at time.Time) (*store.Past, error)
	Changes(ctx context.Context, id string, each func(s store.StepState, at int64)) (version int64, err error)
	Wait(ctx context.Context, id string) (*store.Execution, error)
	// Plan is the compiled definition with a hash, if it is in memory; else nil.
	Plan(hash [sha256.Size]byte) *plan.Plan
}

// Signals ends steps that wait for something outside; a conductor.Conductor does.
type Signals interface {
	Signal(ctx context.Context, s store.Signal) (fresh, delivered bool, err error)
	Awaiting(ctx context.Context, id string) ([]engine.Await, error)
}

// Callbacks reads the tokens in the addresses of callbacks: CodeNotFound unless it is one of this server.
type Callbacks interface {
	Key(token string) (key string, err error)
}

// Redactor hides secrets in shown executions; implemented by secret.Guard.
type Redactor interface {
	Text(execution, text string) string
	JSON(execution string, raw []byte) []byte
}

// Catalog describes actions and stream modules.
type Catalog interface {
	Spec(name string) (*spec.Spec, bool)
	Specs() []spec.Spec
	Names() []string
	Schema(name string) (map[string]any, bool)
}

// Authenticator authenticates a request, or fails with CodeUnauthenticated.
type Authenticator interface {
	Authenticate(r *http.Request) (access.Principal, error)
}

// Recorder records changes and their authors; implemented by access.Recorder.
type Recorder interface {
	Record(ctx context.Context, e store.AuditEntry) error
}

// Limiter says whether a caller may ask now, and if not, after how long; access.Limiter does.
type Limiter interface {
	Allow(caller string) (ok bool, after time.Duration)
}

// Options configure a server. All without a default are required.
type Options struct {
	Store      Store
	Blobs      store.Blobs // where large outputs are
	Control    Control
	Forecast   Forecast
	Signals    Signals
	Catalog    Catalog
	Auth       Authenticator
	Pipelines  *pipeline.Library
	Partitions *ledger.Ledger
	Schedules  *trigger.Schedules
	// Kinds are further kinds of objects, without a field of their own.
	Kinds []Kind
	Vault *secret.Vault
	Keys  *access.Keys
	// Sessions let browsers sign in with a cookie. Defaults to none.
	Sessions *access.Sessions
	Policies *access.Policies
	// Refused are the stored steps that are refused once there are API keys. Defaults to none.
	Refused   func(ctx context.Context) ([]pipeline.Refused, error)
	Callbacks Callbacks
	Feed      *feed.Hub
	// Estimates say how long executions still take. Defaults to nothing being known.
	Estimates *estimate.Book
	Meter     *meter.Meter
	// Retention is for how long executions that have ended are kept. Defaults to for good.
	Retention time.Duration
	// Workers serves workers in other processes. Defaults to none.
	Workers Workers
	// StreamFailures gives the failure records of the streams of an execution, as JSON (stream.Failures). Defaults to none.
	StreamFailures func(ctx context.Context, pipeline, execution string) iter.Seq2[json.RawMessage, error]
	// Footprints gives where the items of the streams of an execution are (stream.Footprints). Defaults to none.
	Footprints func(ctx context.Context, pipeline, execution string, q FootprintQuery) (*FootprintPage, error)
	// FindItem reads a local file, or an object in S3, for an item of 1 MiB at most and says in which line it begins (files.Places.Find); line 0: it may be in
	// any. Defaults to none.
	FindItem func(ctx context.Context, path, id, collection string, line int64) (json.RawMessage, int64, error)
	// Queues say how the queues of steps are; the bodies of their messages are engine.Task. Defaults to none.
	Queues func(queue.Look) []queue.Standing
	// Plugins lists the programs beside the server that bring actions. Defaults to none.
	Plugins func() []Plugin
	// Clusters are the Kubernetes clusters that steps work on. Defaults to none.
	Clusters Clusters
	// Templates are pipelines to begin with. Defaults to none.
	Templates Templates
	// Redact hides secrets. Defaults to sealed values only.
	Redact Redactor
	// Origins are those (such as https://ui.example.org) whose pages browsers let use the API, streams included.
	// Defaults to the server's own.
	Origins []string
	// Hosts are further names of the server, besides localhost and all addresses: unauthenticated requests under other
	// names are refused. Defaults to none.
	Hosts []string
	// Audit records changes and their authors. Optional.
	Audit Recorder
	// ClientAddr is where a request comes from. Defaults to the connection's other end.
	ClientAddr func(r *http.Request) netip.Addr
	// Limit limits how often each caller may ask. Defaults to no limit.
	Limit Limiter
	// Page makes the user interface: it gets the requests of browsers that no operation takes, and may ask the API in the name of who
	// has sent one. Defaults to none.
	Page func(api http.Handler) http.Handler
	// Vitals say how the process is. Defaults to nothing running, and no scheduler.
	Vitals func() Vitals
	// Observe is told of every request that was served. Defaults to nothing.
	Observe func(operation, method string, status int, took time.Duration)
	// Link is told of the traceparent (W3C) of a request that has started an execution. Defaults to nothing.
	Link func(execution, traceparent string)
	// Version is that of the program. Defaults to "dev".
	Version string
	// MaxBody bounds a body, in bytes. Where a pipeline, an event or a delivery is in it, the limit of those counts.
	// Defaults to 4 MiB.
	MaxBody int64
	// MaxBodies limits the memory of all request bodies together, in bytes. Defaults to 256 MiB, at least four times
	// the largest body.
	MaxBodies int64
	// MaxRequests limits concurrent requests, except streams and waiting requests; further requests are answered 503 at
	// once. One caller gets half of them at most. Operators, editors and admins have as many of their own; health and
	// readiness need none. Defaults to 512.
	MaxRequests int
	// MaxWaiting bounds the requests that wait for the end of an execution, in the same way. Defaults to 2,048.
	MaxWaiting int
	// Stopping is closed when the server is about to stop: requests that wait are answered at once. Defaults to never.
	Stopping <-chan struct{}
	// Timeout limits a request that is not a stream, without time it waits on purpose. Defaults to 30 seconds.
	Timeout time.Duration
	// Log takes the server's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Store == nil || o.Blobs == nil || o.Control == nil || o.Forecast == nil || o.Signals == nil || o.Catalog == nil || o.Auth == nil || o.Callbacks == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "api: Store, Blobs, Control, Forecast, Signals, Catalog, Auth and Callbacks are required"}
	}
	if o.Pipelines == nil || o.Partitions == nil || o.Schedules == nil || o.Vault == nil || o.Keys == nil || o.Policies == nil || o.Feed == nil || o.Meter == nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "api: Pipelines, Partitions, Schedules, Vault, Keys, Policies, Feed and Meter are required"}
	}
	o.complete()
	o.MaxBodies = max(o.MaxBodies, 4*max(o.MaxBody, escaped*int64(o.Pipelines.MaxDocument())))
	return nil
}

// complete fills in the defaults.
func (o *Options) complete() {
	if o.Queues == nil {
		o.Queues = func(queue.Look) []queue.Standing { return nil }
	}
	if o.Plugins == nil {
		o.Plugins = func() []Plugin { return nil }
	}
	if o.Clusters == nil {
		o.Clusters = noClusters{}
	}
	if o.Workers == nil {
		o.Workers = noWorkers{}
	}
	if o.ClientAddr == nil {
		o.ClientAddr = (*access.Proxies)(nil).ClientAddr
	}
	if o.Vitals == nil {
		o.Vitals = func() Vitals { return Vitals{Scheduler: "disabled"} }
	}
	if o.Observe == nil {
		o.Observe = func(string, string, int, time.Duration) {}
	}
	if o.Link == nil {
		o.Link = func(string, string) {}
	}
	o.Version = cmp.Or(o.Version, "dev")
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), 4<<20)
	o.MaxBodies = cmp.Or(max(o.MaxBodies, 0), 256<<20)
	o.MaxRequests = cmp.Or(max(o.MaxRequests, 0), 512)
	o.MaxWaiting = cmp.Or(max(o.MaxWaiting, 0), 2048)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.Default())
}
