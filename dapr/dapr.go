// Package dapr connects a server with the platform around a Dapr sidecar, over the sidecar's HTTP API alone: events come in from
// its pub/sub components, its Jobs start schedules, its callers have roles, and what happens to executions is published and
// mirrored (docs/dapr.md).
//
// Requests are believed to come from the sidecar only when they come from this machine and carry the token that the sidecar was
// given for its app (APP_API_TOKEN). Everything is off unless Settings say otherwise. How services are called through a sidecar
// is in package action/service.
// Stability: experimental until version 1.
package dapr

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger/event"
)

// Settings are what a user configures. The zero value is off.
type Settings struct {
	// Port is that of the sidecar's HTTP API on this machine; 0: there is no sidecar. Token is DAPR_API_TOKEN, which the sidecar
	// asks for; AppToken is APP_API_TOKEN, by which the sidecar is believed.
	Port            int
	Token, AppToken string
	// PubSub is the component of subscriptions and topics that name none. Defaults to "pubsub".
	PubSub    string
	Subscribe []Subscription
	// Callers are the roles of apps that call through the sidecar, by APP or APP.NAMESPACE.
	Callers map[string]access.Role
	// Namespace is where apps are that are named without one. Defaults to "default".
	Namespace string
	// Jobs lets Dapr jobs start the job or webhook of their name.
	Jobs bool
	// Wake keeps a Dapr job at the time of the next schedule; see KeepAwake.
	Wake bool
	// Publish are topics for what happens to executions: TopicExecutions, TopicSteps, TopicLogs.
	Publish []string
	// StateStore is the component that executions are mirrored in; "": none. StateTTL is how many seconds an execution stays there
	// after its last change; 0: for good.
	StateStore string
	StateTTL   int
}

// Subscription is a topic whose messages are events.
type Subscription struct {
	PubSub string `json:"pubsub"` // defaults to that of the settings
	Topic  string `json:"topic"`
	Type   string `json:"type"` // of events that have none of their own. Defaults to the topic
	Key    string `json:"key"`  // path in the event's data of the key that steps wait for, such as model.id
	Bulk   bool   `json:"bulk"` // messages come several at a time
}

// topicName is what stays itself in a URL's path, whoever decodes or cleans it.
var topicName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.~:-]*(/[A-Za-z0-9_][A-Za-z0-9_.~:-]*)*$`)

// Inbound reports whether the sidecar sends requests here.
func (s *Settings) Inbound() bool {
	return len(s.Subscribe) > 0 || len(s.Callers) > 0 || s.Jobs || s.Wake
}

// Validate fills in defaults. CodeInvalid with the key.
func (s *Settings) Validate() error {
	s.PubSub, s.Namespace = cmp.Or(s.PubSub, "pubsub"), cmp.Or(s.Namespace, "default")
	if s.Inbound() && s.AppToken == "" {
		return stepwell.Invalid("give the server and its sidecar the same APP_API_TOKEN; without it the sidecar cannot be told from another program of this machine",
			"dapr.subscribe, dapr.callers, dapr.jobs and dapr.wake need APP_API_TOKEN")
	}
	s.Subscribe = slices.Clone(s.Subscribe)
	seen := map[string]bool{}
	for i := range s.Subscribe {
		t := &s.Subscribe[i]
		t.PubSub, t.Type = cmp.Or(t.PubSub, s.PubSub), cmp.Or(t.Type, t.Topic)
		switch place := t.PubSub + "/" + t.Topic; {
		case !topicName.MatchString(t.Topic) || !topicName.MatchString(t.PubSub) || strings.Contains(t.PubSub, "/"):
			return stepwell.Invalid("letters, digits and - . _ ~ : with / between parts", "dapr.subscribe[%d]: %q of %q is not a topic of a component", i, t.Topic, t.PubSub)
		case seen[place]:
			return stepwell.Invalid("one entry for each topic", "dapr.subscribe[%d]: the topic %q of %q is there twice", i, t.Topic, t.PubSub)
		default:
			seen[place] = true
		}
	}
	if (len(s.Publish) > 0 || s.StateStore != "" || s.Wake) && s.Port == 0 {
		return stepwell.Invalid("set services.dapr_http_port or DAPR_HTTP_PORT", "dapr.publish, dapr.state_store and dapr.wake need a sidecar")
	}
	for name, role := range s.Callers {
		if role != access.Viewer && role != access.Operator && role != access.Editor {
			return stepwell.Invalid("viewer, operator or editor; for more than that an app needs an API key", "dapr.callers.%s: the role %s is not given by the name of an app", name, role)
		}
	}
	return nil
}

// Options configure an Adapter. Receive and Fire are needed for what Settings switch on.
type Options struct {
	Settings
	// Receive takes an event, whose data is at most MaxEvent bytes; see event.Router.
	Receive  func(ctx context.Context, e event.Event) (*event.Received, error)
	MaxEvent int
	// Fire starts the job or webhook of a name, once for each key. CodeNotFound: there is none.
	Fire func(ctx context.Context, name, key string, data []byte) (execution string, fresh bool, err error)
	// Fired says when the execution of a key was started; zero: there is none.
	Fired func(ctx context.Context, key string) (time.Time, error)
	// Document is an execution as the state store gets it, without secrets.
	Document func(ctx context.Context, x *store.Execution) (*Document, error)
	// Ready says why nothing can be taken now. Defaults to always being ready.
	Ready func() error
	// Count hears of every event: SUCCESS, RETRY or DROP. Defaults to nobody.
	Count func(outcome string)
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Adapter serves what the sidecar asks. Its methods may be called from many goroutines.
type Adapter struct {
	o       Options
	topics  map[string]*Subscription // by PUBSUB/TOPIC
	slots   chan struct{}
	sidecar *sidecar

	mu      sync.Mutex
	refused time.Time // when a request without the token was last logged
}

// maxRequests is how many requests of the sidecar are served at once, which bounds their memory too.
const maxRequests = 16

// New makes an adapter. CodeInvalid for bad settings.
func New(o Options) (*Adapter, error) {
	if err := o.Settings.Validate(); err != nil {
		return nil, err
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	a := &Adapter{o: o, topics: map[string]*Subscription{}, slots: make(chan struct{}, maxRequests), sidecar: newSidecar(o.Port, o.Token)}
	for i := range o.Subscribe {
		s := &o.Subscribe[i]
		a.topics[s.PubSub+"/"+s.Topic] = s
	}
	return a, nil
}

// The headers of a sidecar.
const (
	tokenHeader     = "Dapr-Api-Token"
	callerHeader    = "Dapr-Caller-App-Id"
	namespaceHeader = "Dapr-Caller-Namespace"
)

// believed reports whether a request comes from the sidecar: from this machine, with the token.
func (a *Adapter) believed(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	from, err := netip.ParseAddr(host)
	shown := r.Header.Values(tokenHeader)
	if err != nil || !from.Unmap().IsLoopback() || len(shown) != 1 || a.o.AppToken == "" {
		return false
	}
	got, want := sha256.Sum256([]byte(shown[0])), sha256.Sum256([]byte(a.o.AppToken))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// Caller is the app behind a request that comes through the sidecar; ok is false for all other requests. CodeForbidden when the app
// has no role. What an app writes into the header itself comes beside what its sidecar writes, and is refused. A call of an app that does not
// come through the server's own sidecar is CodeUnauthenticated: it is none of this machine, although a sidecar here forwards it.
func (a *Adapter) Caller(r *http.Request) (p access.Principal, ok bool, err error) {
	switch {
	case len(a.o.Callers) == 0:
		return p, false, nil
	case !a.believed(r) && len(r.Header.Values(callerHeader)) > 0:
		return p, true, &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "an app calls through a sidecar that has not the token of this server", Hint: "give both the same APP_API_TOKEN, or use an API key"}
	case !a.believed(r):
		return p, false, nil
	}
	apps, spaces := r.Header.Values(callerHeader), r.Header.Values(namespaceHeader)
	if len(apps) != 1 || len(spaces) > 1 || apps[0] == "" || strings.Contains(apps[0], ".") { // a dot begins a namespace
		return p, true, &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the sidecar does not say which app calls", Hint: "use an API key"}
	}
	app := stepwell.Clip(apps[0], 200)
	name := app
	if len(spaces) == 1 && spaces[0] != "" && spaces[0] != a.o.Namespace {
		name = app + "." + stepwell.Clip(spaces[0], 200)
	}
	role, known := a.o.Callers[name]
	if !known && name == app {
		role, known = a.o.Callers[app+"."+a.o.Namespace]
	}
	if !known {
		return p, true, &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the app " + name + " has no role here", Hint: "name it under dapr.callers, or use an API key"}
	}
	return access.Principal{Name: "dapr:" + name, Role: role, Kind: access.KindDapr}, true, nil
}

// Handler serves the paths of the sidecar that Settings switch on, and hands the other requests on.
func (a *Adapter) Handler(next http.Handler) http.Handler {
	if !a.o.Inbound() {
		return next
	}
	mux := http.NewServeMux()
	if len(a.topics) > 0 {
		mux.HandleFunc("GET /dapr/subscribe", a.own(a.serveSubscriptions))
		mux.HandleFunc("POST /dapr/events/{pubsub}/{topic...}", a.own(a.serveEvents))
	}
	if a.o.Jobs {
		mux.HandleFunc("POST /job/{name}", a.own(a.serveJob))
	}
	if a.o.Wake {
		mux.HandleFunc("POST /job/"+WakeJob, a.own(a.serveJob))
	}
	mux.Handle("/", next)
	return mux
}

// own serves requests of the sidecar alone, a few at a time.
func (a *Adapter) own(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !a.believed(r) || len(r.Header.Values(callerHeader)) > 0 { // an app that calls through the sidecar is no sidecar
			a.logRefused(r)
			answer(w, http.StatusUnauthorized, problem{Code: stepwell.CodeUnauthenticated, Message: "only the sidecar of this server may ask for this",
				Hint: "give the server and its sidecar the same APP_API_TOKEN"})
			return
		}
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-r.Context().Done():
			return
		}
		serve(w, r)
	}
}

// refusedEvery is how often refused requests are logged.
const refusedEvery = time.Minute

func (a *Adapter) logRefused(r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.refused) >= refusedEvery {
		a.refused = now
		a.o.Log.Warn("a request for the sidecar's paths was refused: it does not come from this machine, or without the token of APP_API_TOKEN", "path", stepwell.Clip(r.URL.Path, 200),
			"from", r.RemoteAddr)
	}
}
