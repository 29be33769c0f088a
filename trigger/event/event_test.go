package event_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/event"
)

// ledger stands for what starts executions and holds the steps that wait.
type ledger struct {
	mu       sync.Mutex
	launches []pipeline.Launch
	keys     map[string]string
	signals  map[string]store.Signal
	names    map[string][2]string // what ids name, and the note
	refuse   func(pipeline.Launch) error
}

func (l *ledger) Launch(_ context.Context, in pipeline.Launch) (*pipeline.Launched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.keys[in.Key]; id != "" {
		return &pipeline.Launched{Execution: id}, nil
	}
	if l.refuse != nil {
		if err := l.refuse(in); err != nil {
			return nil, err
		}
	}
	l.launches = append(l.launches, in)
	l.keys[in.Key] = fmt.Sprint("x", len(l.launches)-1)
	return &pipeline.Launched{Execution: l.keys[in.Key], Fresh: true}, nil
}

func (l *ledger) Execution(_ context.Context, id string) (*store.Execution, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int
	if _, err := fmt.Sscanf(id, "x%d", &n); err != nil || n >= len(l.launches) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no execution " + id}
	}
	raw, err := expr.Marshal(map[string]any{"_trigger": l.launches[n].Outside.About})
	return &store.Execution{ID: id, Params: raw, Status: stepwell.ExecutionCompleted}, err
}

func (l *ledger) Cancel(context.Context, string, string) error { return nil }
func (l *ledger) StartKey(context.Context, string) (*store.StartKey, error) {
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no such key"}
}

func (l *ledger) Signal(_ context.Context, s store.Signal) (fresh, delivered bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.signals[s.Key+s.ID]; ok {
		return false, false, nil
	}
	l.signals[s.Key+s.ID] = s
	return true, strings.HasSuffix(s.Key, "waiting"), nil
}

func (l *ledger) Name(_ context.Context, _, id string, content []byte, note json.RawMessage) (json.RawMessage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, there := l.names[id]
	if !there {
		first = [2]string{string(content), string(note)}
		l.names[id] = first
	}
	if first[0] != string(content) {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the id names another event"}
	}
	return json.RawMessage(first[1]), nil
}

type rig struct {
	*event.Router
	t      *testing.T
	jobs   *trigger.Schedules
	ledger *ledger
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, ledger: &ledger{keys: map[string]string{}, signals: map[string]store.Signal{}, names: map[string][2]string{}}}
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "events.db"), Exclusive: true, Synchronous: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.jobs, err = trigger.New(t.Context(), trigger.Options{Objects: s, Launcher: r.ledger, Executions: r.ledger, Canceler: r.ledger, Keys: r.ledger}); err != nil {
		t.Fatal(err)
	}
	if r.Router, err = event.New(t.Context(), event.Options{Objects: s, Launcher: r.ledger, Executions: r.ledger, Jobs: r.jobs, Signals: r.ledger, MaxBody: 1000}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) trigger(id, pattern string, filters resource.Object) {
	r.t.Helper()
	_, err := r.Create(r.t.Context(), &event.Trigger{ID: id, EventType: pattern, Filters: filters, Head: trigger.Head{Target: &trigger.Target{Workflow: "p"}}}, "tester")
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) receive(e event.Event) (started []string) {
	r.t.Helper()
	got, err := r.Receive(r.t.Context(), e)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range got.Started {
		started = append(started, s.Trigger)
	}
	return started
}

func values(t *testing.T, text string) (v resource.Object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPatternsAndFilters(t *testing.T) {
	r := newRig(t)
	for id, pattern := range map[string]string{"exact": "model.onboarded", "star": "model.*", "all": "*", "end": "*.failed", "one": "model.?nboarded", "two": "m*l.*b*d", "own": "execution.*"} {
		r.trigger(id, pattern, nil)
	}
	for kind, want := range map[string][]string{
		"model.onboarded":     {"all", "exact", "one", "star", "two"},
		"model.version.added": {"all", "star"},
		"benchmark.failed":    {"all", "end"},
		"models":              {"all"},
	} {
		if got := r.receive(event.Event{Type: kind}); !slices.Equal(got, want) {
			t.Errorf("%s has started %v, want %v", kind, got, want)
		}
	}
	for name, c := range map[string]struct {
		filters, data string
		fits          bool
	}{
		"equal":          {`{"a":"x"}`, `{"a":"x","b":1}`, true},
		"other":          {`{"a":"x"}`, `{"a":"y"}`, false},
		"absent":         {`{"a":null}`, `{}`, false},
		"null":           {`{"a":null}`, `{"a":null}`, true},
		"all must match": {`{"a":1,"b":2}`, `{"a":1,"b":3}`, false},
		"path":           {`{"a.b.c":true}`, `{"a":{"b":{"c":true}}}`, true},
		"into a text":    {`{"a.b":"x"}`, `{"a":"b"}`, false},
		"index":          {`{"l.1.n":2}`, `{"l":[{"n":1},{"n":2}]}`, true},
		"beyond":         {`{"l.2":1}`, `{"l":[1,1]}`, false},
		"negative":       {`{"l.-1":1}`, `{"l":[1]}`, false},
		"dotted key":     {`{"app.kubernetes.io/name":"x"}`, `{"app.kubernetes.io/name":"x"}`, true},
		"dotted inside":  {`{"labels.app.io":"x"}`, `{"labels":{"app.io":"x"}}`, true},
		"numbers":        {`{"n":1}`, `{"n":1.0}`, true},
		"large numbers":  {`{"n":9007199254740993}`, `{"n":9007199254740992}`, false},
		"no text":        {`{"n":1}`, `{"n":"1"}`, false},
		"true is no one": {`{"n":1}`, `{"n":true}`, false},
		"any of":         {`{"s":["a","b"]}`, `{"s":"b"}`, true},
		"none of":        {`{"s":["a","b"]}`, `{"s":"c"}`, false},
		"the list":       {`{"s":["a","b"]}`, `{"s":["a","b"]}`, true},
		"object":         {`{"o":{"a":1}}`, `{"o":{"a":1}}`, true},
		"more in it":     {`{"o":{"a":1}}`, `{"o":{"a":1,"b":2}}`, false},
	} {
		r.trigger("f", "filtered", values(t, c.filters))
		if got := slices.Contains(r.receive(event.Event{Type: "filtered", Data: values(t, c.data)}), "f"); got != c.fits {
			t.Errorf("%s: fits %t, want %t", name, got, c.fits)
		}
		if err := r.Delete(t.Context(), "f", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
}

// A condition decides by the rules of conditions of steps. What it cannot decide starts nothing and is told.
func TestConditions(t *testing.T) {
	r := newRig(t)
	create := func(condition string) error {
		_, err := r.Create(t.Context(), &event.Trigger{ID: "c", EventType: "model.*", Condition: condition, Head: trigger.Head{Target: &trigger.Target{Workflow: "p"}}}, "tester")
		return err
	}
	for name, c := range map[string]struct {
		condition, data string
		started         bool
		wrong           string // in the answer and at the trigger
	}{
		"holds":        {"event.data.p99 > 200", `{"p99": 200.5}`, true, ""},
		"does not":     {"event.data.p99 > 200", `{"p99": 200}`, false, ""},
		"braces":       {"{{ event.data.p99 > 200 and event.data.model in ['a', 'b'] }}", `{"p99": 300, "model": "b"}`, true, ""},
		"the event":    {"event.type == 'model.slow' and event.source == 'probe' and event.id != ''", `{}`, true, ""},
		"tested":       {"event.data.p99 | default(0) > 200", `{}`, false, ""},
		"is defined":   {"event.data.p99 is defined and event.data.p99 > 200", `{}`, false, ""},
		"list":         {"event.data.models | selectattr('p99', 'gt', 200) | list | length > 0", `{"models": [{"p99": 1}, {"p99": 201}]}`, true, ""},
		"not there":    {"event.data.p99 > 200", `{"p95": 300}`, false, "p99"},
		"not a number": {"event.data.p99 > 200", `{"p99": "high"}`, false, "condition: 1:"},
		"too long":     {"range(100000) | map('string') | join(',') | length > event.data.n", `{"n": 1}`, false, "condition: "},
	} {
		if err := create(c.condition); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := len(r.ledger.launches)
		got, err := r.Receive(t.Context(), event.Event{Type: "model.slow", Source: "probe", Data: values(t, c.data)})
		if err != nil || len(r.ledger.launches) > before != c.started || len(got.Started) > 0 != (c.started || c.wrong != "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		shown, err := r.Get(t.Context(), "c")
		if err != nil || shown.Condition != c.condition || !strings.Contains(string(shown.LastError), c.wrong) || shown.LastError != "" && c.wrong == "" {
			t.Errorf("%s: the trigger is %+v, %v", name, shown, err)
		}
		if c.wrong != "" && len(got.Started) > 0 && (got.Started[0].Code != stepwell.CodeInvalid || !strings.Contains(got.Started[0].Message, c.wrong) || got.Started[0].Execution != "") {
			t.Errorf("%s: told %+v", name, got.Started)
		}
		if err := r.Delete(t.Context(), "c", store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	for condition, want := range map[string]string{
		"event.data.p99 >":                    "condition: 1:17: ",
		"data.p99 > 200":                      "condition: 1:1: there is no data (write event.data.p99)",
		"params.x":                            "condition: 1:1: there is no params (a condition knows the event only",
		"event.data.p99 > 200 and event.typ":  "condition: 1:26: an event has no typ (did you mean type?)",
		"event.p99 > 200":                     "condition: 1:1: an event has no p99 (the members of its data are event.data.p99)",
		"p99 {{ event.data.p99 }} > 200":      "text outside {{ }}",
		"event.data.p99 | larger(200)":        "larger",
		"secrets.TOKEN == event.data.token":   "there is no secrets",
		strings.Repeat("event.id and ", 1000): "condition",
	} {
		if err := create(condition); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error()+" ("+stepwell.HintOf(err)+")", want) {
			t.Errorf("%.40s: %v (%s), want %q", condition, err, stepwell.HintOf(err), want)
		}
	}
}

// Jobs of type event have conditions too, a change of which counts for the next event, and which nothing else may have.
func TestConditionsOfJobs(t *testing.T) {
	r := newRig(t)
	job := trigger.Job{ID: "j", Schedule: trigger.Timing{Type: trigger.TypeEvent, Expression: "model.*", Condition: "event.data.p99 > 200"}, Target: &trigger.Target{Workflow: "p"}}
	if _, err := r.jobs.Create(t.Context(), &job, "tester"); err != nil {
		t.Fatal(err)
	}
	slow := func(p99 int64) []string {
		return r.receive(event.Event{Type: "model.slow", Data: resource.Object{"p99": p99}})
	}
	if before, after := slow(200), slow(201); len(before) != 0 || !slices.Equal(after, []string{"j"}) {
		t.Errorf("started %v and %v", before, after)
	}
	_, err := r.jobs.Update(t.Context(), "j", store.AnyRevision, func(j *trigger.Job) error { j.Schedule.Condition = "event.data.p99 > 300"; return nil })
	if before, after := slow(300), slow(301); err != nil || len(before) != 0 || !slices.Equal(after, []string{"j"}) {
		t.Errorf("started %v and %v, %v", before, after, err)
	}
	job.ID, job.Schedule = "k", trigger.Timing{Type: trigger.TypeCron, Expression: "0 9 * * *", Condition: "true"}
	if _, err := r.jobs.Create(t.Context(), &job, "tester"); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("a condition of a cron job: %v", err)
	}
}

func TestReceivedOnce(t *testing.T) {
	r := newRig(t)
	r.trigger("a", "t", nil)
	r.trigger("b", "t", nil)
	r.ledger.refuse = func(in pipeline.Launch) error {
		if in.Job == "b" {
			return &stepwell.Error{Code: stepwell.CodeLimit, Message: "too much is waiting"}
		}
		return nil
	}
	e := event.Event{ID: "e1", Type: "t", Key: "waiting", Data: resource.Object{"n": int64(1)}}
	if _, err := r.Receive(t.Context(), e); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Fatalf("error %v, want one that will pass", err)
	}
	r.ledger.refuse = nil
	got, err := r.Receive(t.Context(), e) // sent again, as after any error
	if err != nil || len(r.ledger.launches) != 2 || !got.Started[0].Repeated || got.Started[1].Repeated || got.Signal != "repeated" {
		t.Fatalf("%+v, %v; %d started", got, err, len(r.ledger.launches))
	}
	in := r.ledger.launches[0]
	about := in.Outside.About
	if ev, _ := in.Outside.Added["event"].(map[string]any); ev["id"] != "e1" || ev["type"] != "t" || about["type"] != "event" || in.Trigger != "event" || in.Job != "a" {
		t.Errorf("started %+v", in)
	}
	r.ledger.refuse = func(pipeline.Launch) error {
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no pipeline p"}
	}
	got, err = r.Receive(t.Context(), event.Event{ID: "e2", Type: "t"})
	if err != nil || got.Started[0].Code != stepwell.CodeNotFound || got.Started[0].Execution != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if v, err := r.Get(t.Context(), "a"); err != nil || v.Count != 1 || v.LastError == "" {
		t.Errorf("the trigger says %+v, %v", v, err)
	}
}

func TestSignals(t *testing.T) {
	r := newRig(t)
	for key, want := range map[string]string{"waiting": "delivered", "nobody": "kept", "": ""} {
		got, err := r.Receive(t.Context(), event.Event{Type: "t", Key: key, Data: map[string]any{"ok": true}})
		if err != nil || got.Signal != want || got.ID == "" {
			t.Errorf("%q: %+v, %v", key, got, err)
		}
	}
	for _, s := range r.ledger.signals {
		var body struct {
			Status  string         `json:"status"`
			Outputs map[string]any `json:"outputs"`
		}
		if err := json.Unmarshal(s.Body, &body); err != nil || body.Status != "completed" || body.Outputs["ok"] != true || !strings.HasPrefix(s.Key, "event:") {
			t.Errorf("signal %s: %s, %v", s.Key, s.Body, err)
		}
	}
}

func TestBadEvents(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		e    event.Event
		code stepwell.Code
	}{
		"no type":  {event.Event{}, stepwell.CodeInvalid},
		"type":     {event.Event{Type: strings.Repeat("t", 256)}, stepwell.CodeInvalid},
		"control":  {event.Event{Type: "a\nb"}, stepwell.CodeInvalid},
		"internal": {event.Event{Type: "execution.ended"}, stepwell.CodeInvalid},
		"id":       {event.Event{Type: "t", ID: strings.Repeat("t", 201)}, stepwell.CodeInvalid},
		"large":    {event.Event{Type: "t", Data: map[string]any{"x": strings.Repeat("x", 1000)}}, stepwell.CodeLimit},
		"no JSON":  {event.Event{Type: "t", Data: map[string]any{"x": make(chan int)}}, stepwell.CodeInvalid},
	} {
		if _, err := r.Receive(t.Context(), c.e); stepwell.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	for name, tr := range map[string]event.Trigger{
		"pattern":  {ID: "a", Head: trigger.Head{Target: &trigger.Target{Action: "util.noop"}}},
		"path":     {ID: "a", EventType: "t", Filters: resource.Object{"a..b": 1}, Head: trigger.Head{Target: &trigger.Target{Action: "util.noop"}}},
		"nothing":  {ID: "a", EventType: "t"},
		"callback": {ID: "a", EventType: "t", Head: trigger.Head{Target: &trigger.Target{}}},
	} {
		if _, err := r.Create(t.Context(), &tr, ""); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJobsListen(t *testing.T) {
	r := newRig(t)
	j := trigger.Job{ID: "job", Schedule: trigger.Timing{Type: trigger.TypeEvent, Expression: "model.*", Filters: resource.Object{"size": int64(7)}}, Target: &trigger.Target{Workflow: "p"}}
	if _, err := r.jobs.Create(t.Context(), &j, ""); err != nil {
		t.Fatal(err)
	}
	fitting := event.Event{Type: "model.onboarded", Data: map[string]any{"size": 7.0}}
	if got := r.receive(fitting); !slices.Equal(got, []string{"job"}) {
		t.Errorf("started %v", got)
	}
	if got := r.receive(event.Event{Type: "model.onboarded"}); len(got) != 0 {
		t.Errorf("started %v", got)
	}
	if _, err := r.jobs.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if got := r.receive(fitting); len(got) != 0 {
		t.Errorf("a paused job was started")
	}
}

// The ends of executions are events; they never start what is behind them, and no chain goes on for ever.
func TestEndsOfExecutions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if r.Wants() {
			t.Error("nobody wants ends")
		}
		r.trigger("a", "execution.ended", values(t, `{"status":["failed","timed_out"]}`))
		r.trigger("b", "execution.*", nil)
		if !r.Wants() {
			t.Error("somebody wants ends")
		}
		happened := trigger.Happened{Kind: trigger.KindEnded, Execution: "x-first", At: time.Now(), Status: stepwell.ExecutionCompleted, Pipeline: "p"}
		for range 2 { // the outbox may give an entry twice
			if err := r.Take(t.Context(), []trigger.Happened{happened}); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.ledger.launches) != 1 || r.ledger.launches[0].Job != "b" {
			t.Fatalf("started %+v", r.ledger.launches)
		}
		for n := 0; n < len(r.ledger.launches); n++ { // everything that was started fails
			if n > 100 {
				t.Fatal("the chain continues for ever")
			}
			h := trigger.Happened{Kind: trigger.KindEnded, Execution: fmt.Sprint("x", n), At: time.Now(), Status: stepwell.ExecutionFailed, Job: r.ledger.launches[n].Job}
			if err := r.Take(t.Context(), []trigger.Happened{h}); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.ledger.launches) != 16 { // b, a, b, a …
			t.Errorf("the chain is %d long", len(r.ledger.launches))
		}
	})
}

// An event that starts nothing for a passing reason is put off alone.
func TestInternalEventsArePutOffAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.trigger("a", "execution.ended", nil)
		full := &stepwell.Error{Code: stepwell.CodeLimit, Message: "too many executions are held"}
		r.ledger.refuse = func(in pipeline.Launch) error {
			if strings.Contains(in.Key, "x1/") {
				return full
			}
			return nil
		}
		var list []trigger.Happened
		for n := range 3 {
			list = append(list, trigger.Happened{No: int64(n), Kind: trigger.KindEnded, Execution: fmt.Sprint("x", n), At: time.Now(), Status: stepwell.ExecutionCompleted})
		}
		later, ok := errors.AsType[*trigger.LaterError](r.Take(t.Context(), list))
		if !ok || len(later.Entries) != 1 || !errors.Is(later.Entries[1], full) || len(r.ledger.launches) != 2 {
			t.Errorf("put off are %+v, started %+v", later, r.ledger.launches)
		}
		r.ledger.refuse = func(pipeline.Launch) error {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the store is unavailable"}
		}
		if err := r.Take(t.Context(), []trigger.Happened{{No: 9, Kind: trigger.KindEnded, Execution: "x9", At: time.Now()}}); !store.IsAway(err) {
			t.Errorf("while the store is unavailable: %v", err)
		}
	})
}
