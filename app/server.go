package app

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plugin"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/trigger/event/redisource"
)

// DefaultListen is the address of a server that nothing else is said of: this machine alone.
const DefaultListen = "127.0.0.1:8010"

// Beside is something that answers at a path of its own, made of the API and of the rules for browsers.
type Beside struct {
	Path string
	Make func(api http.Handler, site access.Site) http.Handler
}

// ServerOptions configure a Server.
type ServerOptions struct {
	Options
	// Listen is the TCP address. Defaults to DefaultListen.
	Listen string
	// BaseURL is the server's external address, for links. Defaults to the address of Listen.
	BaseURL string
	// BasePath is the path below which a proxy has the server, such as /stepwell. Defaults to none.
	BasePath string
	// Advertise is the URL at which other nodes of a database that several share reach this one. Defaults to the address of Listen, unless
	// that is a wildcard: then they leave requests in the database.
	Advertise string
	// TLS encrypts connections. Defaults to none.
	TLS *tls.Config
	// MaxConnections bounds the connections that are open at once; others wait. Defaults to 4,096.
	MaxConnections int
	// StopAfter is how long a drain waits for the steps that run; then they are stopped, and go on after the
	// next start. Defaults to 30 seconds.
	StopAfter time.Duration
	// MaxBody bounds the body of a request, in bytes. Defaults to 4 MiB.
	MaxBody int64
	// MaxFollowers is how many clients may follow executions. Defaults to 10,000.
	MaxFollowers int
	// Access authenticates callers. Defaults to admitting local callers, if Listen is loopback.
	Access Access
	// Defaults hold for pipelines that say nothing themselves. Defaults to Stepwell's own.
	Defaults pipeline.Defaults
	// Telemetry says where traces go. Defaults to nowhere.
	Telemetry Telemetry
	// Version is that of the program. Defaults to "dev".
	Version string
	// State is a server that has the progress of projects beside the database. Defaults to none.
	State State
	// WorkerLease is how long a worker in another process may say nothing of a step that it holds; then the step goes on
	// elsewhere. Defaults to 15 seconds.
	WorkerLease time.Duration
	// Lists are the Redis lists in which steps are offered to whoever takes them from there. Defaults to none (no URL).
	Lists redisq.Options
	// Sources are the Redis streams and channels that events are taken from, by name. Defaults to none.
	Sources map[string]redisource.Source
	// Plugins are programs beside the server that bring actions, by name. Defaults to none.
	Plugins map[string]plugin.Program
	// Dapr is what is done through the sidecar beside the server. Defaults to nothing.
	Dapr dapr.Settings
	// Reports are the services that are told what happens to executions. Defaults to none.
	Reports Reports
	// Templates are folders with pipelines to begin with, besides the built-in ones. Defaults to none.
	Templates []string
	// Beside is what answers at one path beside the API. Defaults to nothing.
	Beside *Beside
	// TemplateRepos are git repositories with such pipelines. Defaults to none.
	TemplateRepos []TemplateRepo
	// Retention says for how long things are kept. Defaults to for good.
	Retention Retention
	// Page is the user interface at "/" (web.Handler). Defaults to none: the API alone.
	Page func(api http.Handler) http.Handler
}

func (o *ServerOptions) validate() error {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = 4096
	}
	if o.StopAfter <= 0 {
		o.StopAfter = 30 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = math.MaxInt64
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the address " + o.Listen + " cannot be listened to", Hint: "write it like 127.0.0.1:8010", Err: err}
	}
	return nil
}

// States of a server.
const (
	starting int32 = iota // recovers unfinished executions
	ready
	draining
)

// Server is an App that others reach over HTTP, and that starts executions by itself when it is time.
type Server struct {
	*App
	parts
	confinement confinement
	workers     workers
	plugins     *plugin.Supervisor
	sources     *redisource.Reader // nil: none
	o           ServerOptions
	listener    net.Listener
	http        *http.Server
	state       atomic.Int32
	drain       chan struct{} // closed by Drain
	closing     chan struct{} // closed when clients are sent away
	once        sync.Once
	maxDocument int // bytes of a pipeline; 0: the library's default
}

// NewServer opens the database (see New) and the listener, and builds everything. CodeUnavailable when the
// address is taken.
func NewServer(ctx context.Context, o ServerOptions) (_ *Server, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{o: o, drain: make(chan struct{}), closing: make(chan struct{})}
	if err := s.buildMeter(ctx); err != nil {
		return nil, err
	}
	s.o.serves, s.o.sandbox, s.o.allow, s.o.touch = true, s.sandbox, s.allow, s.touch
	if err := s.o.fill(); err != nil { // with the paths to hide
		return nil, err
	}
	s.observed(&s.o.Options)
	s.o.advertise = s.advertised
	if err := s.buildDesk(ctx); err != nil {
		return nil, err
	}
	if s.App, err = New(ctx, s.o.Options); err != nil {
		return nil, errors.Join(err, s.closeListener(), s.closeLists())
	}
	if s.o.Now = s.now; s.listener == nil {
		s.listener, err = listen(ctx, &s.o)
	}
	if err == nil {
		err = errors.Join(s.attachDesk(ctx), s.buildPlugins(), s.build(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Ready says whether the server can take work: CodeUnavailable while it starts and while it stops, and while the
// database takes nothing.
func (s *Server) Ready() error {
	switch s.state.Load() {
	case ready:
		return s.Conductor.Stalled()
	case draining:
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server is stopping", Hint: "try again in a moment"}
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server is starting: it takes up what was left unfinished", Hint: "try again in a moment"}
}

// Close lets go of everything. Call it after Run has returned.
func (s *Server) Close() error {
	return errors.Join(s.closeListener(), s.plugins.Close(), s.closeProgress(), s.App.Close(), s.closeRedis())
}

func (s *Server) closeListener() error {
	if s.listener == nil {
		return nil
	}
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
