package api_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/pipelinerun"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/event"
	"github.com/stepwell/stepwell/trigger/webhook"
	"github.com/stepwell/stepwell/upload"
	"github.com/stepwell/stepwell/worker"
)

// rig is a whole Stepwell with an API in front of it.
type rig struct {
	t      *testing.T
	app    *app.App
	server *httptest.Server
	log    *syncBuffer
	audit  *auditBook
	hub    atomic.Pointer[feed.Hub]
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// auditBook keeps entries in memory.
type auditBook struct {
	mu      sync.Mutex
	entries []store.AuditEntry
}

func (a *auditBook) Record(ctx context.Context, e store.AuditEntry) error {
	if _, bounded := ctx.Deadline(); !bounded { // the answer would wait for as long as there is no room
		return errors.New("the audit log has no deadline")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries = append(a.entries, e)
	return nil
}

func (a *auditBook) last() store.AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.entries) == 0 {
		return store.AuditEntry{}
	}
	return a.entries[len(a.entries)-1]
}

// names are tokens that say who sends them; nobody is unknown to a test.
type names struct{}

func (names) Authenticate(r *http.Request) (access.Principal, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for role := access.Viewer; role <= access.Worker; role++ {
		if token == role.String() {
			return access.Principal{Name: token, Role: role, Kind: access.KindKey, KeyID: token}, nil
		}
	}
	return access.Principal{}, &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "who are you?"}
}

func newRig(t *testing.T, change ...func(*api.Options)) *rig {
	t.Helper()
	r := &rig{t: t, log: &syncBuffer{}, audit: &auditBook{}}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	r.app, err = app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "api.db"), Synchronous: "normal", Log: log,
		HTTP: outbound.Options{AllowPrivate: true}, Progress: r.progress, CallbackURL: func(key string) string { return r.server.URL + "/api/v1/callbacks/" + callbacks{}.token(key) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.app.Run(ctx) }()
	o := r.options(log)
	for _, f := range change {
		f(&o)
	}
	r.hub.Store(o.Feed)
	h, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	feeding, stopFeed := context.WithCancel(context.Background())
	fed := make(chan error, 1)
	go func() { fed <- o.Feed.Run(feeding) }()
	r.server = httptest.NewServer(h)
	t.Cleanup(func() {
		stopFeed()
		<-fed
		r.server.Close()
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := r.app.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// progress tells the feed what running steps report, as a server does.
func (r *rig) progress(run int64, idx int32, p worker.Progress) {
	if hub := r.hub.Load(); hub != nil && p.Counts != nil {
		items := feed.Items(*p.Counts)
		hub.Progress(run, idx, p.Fraction, p.Note, &items)
	}
}

// options wires what a server has.
func (r *rig) options(log *slog.Logger) api.Options {
	r.t.Helper()
	a, ctx := r.app, r.t.Context()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	library, err := pipeline.New(pipeline.Options{Objects: a.Store, Runner: a.Conductor, Executions: a.Store, Catalog: a.Actions, Log: log})
	must(err)
	partitions := ledger.New(ledger.Options{Objects: a.Store, Executions: a.Store, Library: library, Catalog: a.Actions, Now: time.Now, Log: log})
	schedules, err := trigger.New(ctx, trigger.Options{Objects: a.Store, Launcher: library, Executions: a.Store, Canceler: a.Conductor, Keys: a.Store, Log: log})
	must(err)
	hooks, err := webhook.New(ctx, webhook.Options{Objects: a.Store, Launcher: library, Jobs: schedules, Sealer: a.Keyring})
	must(err)
	events, err := event.New(ctx, event.Options{Objects: a.Store, Launcher: library, Executions: a.Store, Jobs: schedules, Signals: a.Conductor, Log: log})
	must(err)
	tracker, err := progress.New(progress.Options{Store: a.Store})
	must(err)
	r.t.Cleanup(func() { must(tracker.Close()) })
	projects := project.New(a.Store, tracker)
	lessons := project.NewLessons(project.LessonOptions{Objects: a.Store, Projects: projects})
	uploads := upload.New(upload.Options{Objects: a.Store, Blobs: a.Store.Blobs(), Lessons: lessons})
	estimates := estimate.New(a.Store, nil)
	hub, err := feed.New(feed.Options{Store: a.Store, Estimates: estimates, Log: log, Show: func(raw json.RawMessage) json.RawMessage { return secret.Mask(raw) }})
	must(err)
	policies, err := access.NewPolicies(ctx, a.Store, access.Policy{})
	must(err)
	runs, err := pipelinerun.New(pipelinerun.Options{Store: a.Store, Blobs: a.Store.Blobs(), Library: library, Reuser: a.Conductor, Lessons: lessons,
		Projects: projects, Control: a.Conductor, Redact: a.Secrets, Log: log})
	must(err)
	ended, end := context.WithCancel(ctx)
	end()
	must(runs.Run(ended)) // streams of the queue end at once
	keys := access.NewKeys(a.Store, log)
	sessions, err := access.NewSessions(access.SessionOptions{Key: make([]byte, 32), Keys: keys})
	must(err)
	return api.Options{Store: a.Store, Sessions: sessions, Policies: policies, Blobs: a.Store.Blobs(), Control: a.Conductor, Forecast: a.Conductor, Signals: a.Conductor, Catalog: a.Actions, Auth: names{},
		Pipelines: library, Partitions: partitions, Schedules: schedules, Kinds: []api.Kind{api.Jobs(schedules), api.Webhooks(hooks), api.Events(events), api.Projects(projects), api.Lessons(lessons, uploads), api.PipelineRuns(runs)}, Vault: a.Secrets.Vault, Keys: keys, Callbacks: callbacks{},
		Meter: meter.New(meter.Options{Totals: a.Store, Upcoming: func() (int, time.Time) { st := schedules.Stats(); return st.Active, st.Next }}),
		Feed:  hub, Estimates: estimates, Redact: a.Secrets, Audit: r.audit, Workers: crew{}, Log: log, StreamFailures: a.StreamFailures, Footprints: a.Footprints, FindItem: a.FindItem}
}

// crew has one worker, and serves no calls.
type crew struct{}

func (crew) ServeHTTP(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func (crew) List() []api.Worker {
	return []api.Worker{{Name: "w1", Actions: []string{"x.y"}, Queues: []string{}, Seen: resource.At(time.Now())}}
}

func (crew) Drain(string) error { return nil }

// callbacks are tokens that anybody could make.
type callbacks struct{}

func (callbacks) token(key string) string { return hex.EncodeToString([]byte(key)) }

func (callbacks) Key(token string) (string, error) {
	key, err := hex.DecodeString(token)
	if err != nil || !strings.HasPrefix(string(key), "callback:") {
		return "", &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no such callback"}
	}
	return string(key), nil
}

// got is an answer.
type got struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// ofStream is the beginning of the stream of lists, which does not end, and the body of any other answer.
func ofStream(path string, res *http.Response) io.Reader {
	if strings.HasPrefix(path, "/api/v1/stream") && res.StatusCode == http.StatusOK {
		return io.LimitReader(res.Body, 16)
	}
	return res.Body
}

// do sends a request as somebody with the role; body is sent as JSON unless it is a string or nil.
func (r *rig) do(role, method, path string, body any, headers ...string) *got {
	r.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if role != "" {
		req.Header.Set("Authorization", "Bearer "+role)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := r.server.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(ofStream(path, res))
	if err != nil {
		r.t.Fatal(err)
	}
	return &got{r.t, res.StatusCode, res.Header, raw}
}

// is fails the test unless the status is as wanted.
func (g *got) is(status int) *got {
	g.t.Helper()
	if g.status != status {
		g.t.Fatalf("status %d, want %d: %s", g.status, status, g.body)
	}
	return g
}

// into decodes the body.
func (g *got) into(v any) *got {
	g.t.Helper()
	if err := json.Unmarshal(g.body, v); err != nil {
		g.t.Fatalf("%v: %s", err, g.body)
	}
	return g
}

// object is the body as an object.
func (g *got) object() map[string]any {
	g.t.Helper()
	var m map[string]any
	g.into(&m)
	return m
}

// problem fails the test unless the answer is a Problem with the status and code, and gives it.
func (g *got) problem(status int, code stepwell.Code) *api.Problem {
	g.t.Helper()
	g.is(status)
	p := &api.Problem{}
	dec := json.NewDecoder(bytes.NewReader(g.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil || p.Code != code || p.Message == "" || p.Details == nil {
		g.t.Fatalf("no problem with code %s: %s (%v)", code, g.body, err)
	}
	return p
}

// run runs a pipeline to its end and gives the id.
func (r *rig) run(document string, params map[string]any) string {
	r.t.Helper()
	id := r.begin(document, params)
	if _, err := r.app.Conductor.Wait(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// begin starts a pipeline.
func (r *rig) begin(document string, params map[string]any) string {
	r.t.Helper()
	d, problems := definition.Parse([]byte(document), definition.ParseOptions{})
	if err := append(problems, definition.Check(d, r.app.Actions, "")...).Err(); err != nil {
		r.t.Fatal(err)
	}
	p, err := r.app.Conductor.Register(r.t.Context(), definition.Expand(d, r.app.Actions))
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := r.app.Conductor.Start(r.t.Context(), conductor.Request{Pipeline: p, Params: params})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// until asks until the answer is as wanted.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			r.t.Fatalf("after a minute still not: %s", what)
		}
		r.do("viewer", "GET", "/api/v1/health", nil) // gives way
	}
}
