package dapr_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/trigger/event"
)

const token = "the-token"

// rig is an adapter whose events end in a list.
type rig struct {
	t       *testing.T
	adapter *dapr.Adapter
	taken   []event.Event
	refuse  error
	counted map[string]int
	log     bytes.Buffer
	fired   map[string]time.Time
	now     time.Time
}

func newRig(t *testing.T, s dapr.Settings) *rig {
	t.Helper()
	r := &rig{t: t, counted: map[string]int{}, fired: map[string]time.Time{}, now: time.Unix(1_800_000_000, 0)}
	s.AppToken = token
	var err error
	r.adapter, err = dapr.New(dapr.Options{Settings: s, MaxEvent: 1 << 20, Count: func(o string) { r.counted[o]++ }, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Receive: func(_ context.Context, e event.Event) (*event.Received, error) {
			if r.refuse != nil {
				return nil, r.refuse
			}
			r.taken = append(r.taken, e)
			return &event.Received{ID: e.ID}, nil
		},
		Fire: func(_ context.Context, name, key string, data []byte) (string, bool, error) {
			if name != "nightly" {
				return "", false, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no job " + name}
			}
			_, there := r.fired[key]
			if !there {
				r.fired[key] = r.now
			}
			return "x", !there, r.refuse
		},
		Fired: func(_ context.Context, key string) (time.Time, error) { return r.fired[key], nil },
		Now:   func() time.Time { return r.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// post sends what the sidecar would send; edit changes it.
func (r *rig) post(path, contentType, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:4711"
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Dapr-Api-Token", token)
	for _, e := range edit {
		e(req)
	}
	w := httptest.NewRecorder()
	r.adapter.Handler(http.NotFoundHandler()).ServeHTTP(w, req)
	return w
}

func (r *rig) status(w *httptest.ResponseRecorder) string {
	r.t.Helper()
	var said struct{ Status string }
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != http.StatusOK {
		r.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return said.Status
}

const structured = "application/cloudevents+json; charset=utf-8"

func TestCloudEvents(t *testing.T) {
	at := time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		body   string
		status string
		want   event.Event
	}{
		"of another program": {`{"specversion":"1.0","id":"7","source":"/models","type":"model.onboarded","time":"2026-05-01T09:00:00Z","data":{"model":{"id":"m-1"},"n":9007199254740993}}`, "SUCCESS",
			event.Event{ID: "7@8452a47cea3c4076", Type: "model.onboarded", Source: "/models", Key: "m-1", Time: at, Data: map[string]any{"model": map[string]any{"id": "m-1"}, "n": int64(9007199254740993)}}},
		"wrapped by Dapr":   {`{"specversion":"1.0","id":"8","source":"budmodel","type":"com.dapr.event.sent","data":{"model":{"id":42}}}`, "SUCCESS", event.Event{Type: "fallback", Source: "budmodel", Key: "42", Data: map[string]any{"model": map[string]any{"id": int64(42)}}}},
		"a text":            {`{"specversion":"1.0","id":"8","source":"s","datacontenttype":"text/plain","data":"hello"}`, "SUCCESS", event.Event{Type: "fallback", Source: "s", Data: map[string]any{"value": "hello"}}},
		"a list":            {`{"specversion":"1.0","id":"8","source":"s","data":[1]}`, "SUCCESS", event.Event{Type: "fallback", Source: "s", Data: map[string]any{"value": []any{int64(1)}}}},
		"JSON as base64":    {`{"specversion":"1.0","id":"8","source":"s","datacontenttype":"application/json","data_base64":"eyJhIjoxfQ=="}`, "SUCCESS", event.Event{Type: "fallback", Source: "s", Data: map[string]any{"a": int64(1)}}},
		"bytes":             {`{"specversion":"1.0","id":"8","source":"s","datacontenttype":"application/pdf","data_base64":"/w=="}`, "SUCCESS", event.Event{Type: "fallback", Source: "s", Data: map[string]any{"base64": "/w==", "content_type": "application/pdf"}}},
		"no data":           {`{"specversion":"1.0","id":"8","source":"s"}`, "SUCCESS", event.Event{Type: "fallback", Source: "s"}},
		"no JSON":           {`{"specversion":`, "DROP", event.Event{}},
		"no id":             {`{"specversion":"1.0","source":"s"}`, "DROP", event.Event{}},
		"no source":         {`{"specversion":"1.0","id":"8"}`, "DROP", event.Event{}},
		"an id as a number": {`{"specversion":"1.0","id":8,"source":"s"}`, "DROP", event.Event{}},
		"another version":   {`{"specversion":"0.3","id":"8","source":"s"}`, "DROP", event.Event{}},
		"bad base64":        {`{"specversion":"1.0","id":"8","source":"s","data_base64":"%"}`, "DROP", event.Event{}},
		"too large":         {`{"specversion":"1.0","id":"8","source":"s","data":"` + strings.Repeat("x", 1<<20) + `"}`, "DROP", event.Event{}},
		"far too large":     {`{"specversion":"1.0","id":"8","source":"s","data":"` + strings.Repeat("x", 5<<20) + `"}`, "DROP", event.Event{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "models/all", Type: "fallback", Key: "model.id"}}})
			if got := r.status(r.post("/dapr/events/pubsub/models/all", structured, c.body)); got != c.status {
				t.Fatalf("answered %s, want %s: %s", got, c.status, r.log.String())
			}
			if c.status == "DROP" {
				if len(r.taken) != 0 || !strings.Contains(r.log.String(), "level=ERROR") {
					t.Errorf("taken %+v; the log says %q", r.taken, r.log.String())
				}
				return
			}
			got := r.taken[0]
			if c.want.ID == "" {
				got.ID = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" || r.counted["SUCCESS"] != 1 {
				t.Errorf("-want +got:\n%s%v", diff, r.counted)
			}
		})
	}
}

func TestBinaryCloudEvent(t *testing.T) {
	r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "models"}}})
	w := r.post("/dapr/events/pubsub/models", "application/json", `{"a":1}`, func(req *http.Request) {
		for name, v := range map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "/caf%C3%A9", "Ce-Type": "t"} {
			req.Header.Set(name, v)
		}
	})
	if r.status(w) != "SUCCESS" || len(r.taken) != 1 || r.taken[0].Source != "/café" || r.taken[0].Type != "t" || r.taken[0].Data["a"] != int64(1) {
		t.Errorf("taken %+v", r.taken)
	}
}

func TestBulk(t *testing.T) {
	r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "models", Bulk: true}}})
	w := r.post("/dapr/events/pubsub/models", "application/json", `{"id":"b","entries":[
		{"entryId":"1","contentType":"application/cloudevents+json","event":{"specversion":"1.0","id":"1","source":"s","data":{"n":1}}},
		{"entryId":"2","event":{"specversion":"1.0"}},
		{"entryId":"3","event":{"specversion":"1.0","id":"3","source":"s","data":{"n":3}}}]}`)
	want := `{"statuses":[{"entryId":"1","status":"SUCCESS"},{"entryId":"2","status":"DROP"},{"entryId":"3","status":"SUCCESS"}]}`
	if w.Body.String() != want || len(r.taken) != 2 {
		t.Errorf("answered %s; taken %+v", w.Body, r.taken)
	}
}

// Two sources may use the same ids, and an id may be as long as it likes.
func TestEventIDs(t *testing.T) {
	r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "t"}}})
	seen := map[string]string{}
	for _, c := range [][2]string{{"1", "a"}, {"1", "b"}, {"1@a", ""}, {strings.Repeat("i", 1000), "a"}, {strings.Repeat("i", 1001), "a"}, {"a\nb", "a"}, {"a b", "a"}} {
		body, err := json.Marshal(map[string]string{"specversion": "1.0", "id": c[0], "source": c[1] + "/s"})
		if err != nil {
			t.Fatal(err)
		}
		before := len(r.taken)
		r.post("/dapr/events/pubsub/t", structured, string(body))
		r.post("/dapr/events/pubsub/t", structured, string(body))
		id := r.taken[before].ID
		if id != r.taken[before+1].ID || len(id) > 200 || seen[id] != "" {
			t.Errorf("%q of %q: %q, as %q", c[0], c[1], id, seen[id])
		}
		seen[id] = c[0]
	}
}

func TestPassingFailures(t *testing.T) {
	const body = `{"specversion":"1.0","id":"1","source":"s"}`
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"the store is unavailable": {&stepwell.Error{Code: stepwell.CodeUnavailable}, "RETRY"},
		"too much waits":           {&stepwell.Error{Code: stepwell.CodeLimit}, "RETRY"},
		"unknown":                  {errors.New("broken pipe"), "RETRY"},
		"other content":            {&stepwell.Error{Code: stepwell.CodeConflict}, "DROP"},
		"a type of Stepwell":       {&stepwell.Error{Code: stepwell.CodeInvalid}, "DROP"},
		"nothing is wrong here":    {nil, "SUCCESS"},
	} {
		r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "t"}}})
		r.refuse = c.err
		if got := r.status(r.post("/dapr/events/pubsub/t", structured, body)); got != c.want || r.counted[c.want] != 1 {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "t"}}})
	if got := r.status(r.post("/dapr/events/pubsub/other", structured, body)); got != "DROP" {
		t.Errorf("a topic that nobody asked for: %s", got)
	}
}

// Only the sidecar is believed.
func TestBelieved(t *testing.T) {
	r := newRig(t, dapr.Settings{Subscribe: []dapr.Subscription{{Topic: "t"}}, Jobs: true, Callers: map[string]access.Role{"budapp": access.Editor, "other.elsewhere": access.Viewer}})
	strangers := map[string]func(*http.Request){
		"no token":     func(q *http.Request) { q.Header.Del("Dapr-Api-Token") },
		"wrong token":  func(q *http.Request) { q.Header.Set("Dapr-Api-Token", "the-toke") },
		"two tokens":   func(q *http.Request) { q.Header.Add("Dapr-Api-Token", token) },
		"elsewhere":    func(q *http.Request) { q.RemoteAddr = "10.0.0.1:1" },
		"no address":   func(q *http.Request) { q.RemoteAddr = "@" },
		"an app":       nil, // by its header
		"v6 elsewhere": func(q *http.Request) { q.RemoteAddr = "[2001:db8::1]:1" },
	}
	byApp := func(q *http.Request) { q.Header.Set("Dapr-Caller-App-Id", "budapp") }
	for name, edit := range strangers {
		if edit == nil {
			edit = byApp
		}
		for _, path := range []string{"/dapr/events/pubsub/t", "/job/nightly"} {
			if w := r.post(path, structured, `{"specversion":"1.0","id":"1","source":"s"}`, edit); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String()+r.log.String(), token) {
				t.Errorf("%s, %s: %d %s", name, path, w.Code, w.Body)
			}
		}
	}
	if len(r.taken)+len(r.fired) != 0 || strings.Count(r.log.String(), "was refused") != 1 {
		t.Errorf("taken %v, fired %v, log %s", r.taken, r.fired, r.log.String())
	}
	call := func(edit func(*http.Request)) (access.Principal, bool, error) {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/executions", nil)
		q.RemoteAddr = "[::1]:1"
		q.Header.Set("Dapr-Api-Token", token)
		q.Header.Set("Dapr-Caller-App-Id", "budapp")
		edit(q)
		return r.adapter.Caller(q)
	}
	for name, edit := range strangers {
		if edit == nil {
			continue
		}
		if p, ok, err := call(edit); !ok || stepwell.CodeOf(err) != stepwell.CodeUnauthenticated || p.Role != 0 {
			t.Errorf("%s: %v %t %v", name, p, ok, err)
		}
		local := func(q *http.Request) { edit(q); q.Header.Del("Dapr-Caller-App-Id") }
		if p, ok, err := call(local); ok || err != nil {
			t.Errorf("%s, from no app: %v %t %v", name, p, ok, err)
		}
	}
	for name, c := range map[string]struct {
		edit func(*http.Request)
		want string
	}{
		"known":             {func(*http.Request) {}, "dapr:budapp editor"},
		"own namespace":     {func(q *http.Request) { q.Header.Set("Dapr-Caller-Namespace", "default") }, "dapr:budapp editor"},
		"another namespace": {func(q *http.Request) { q.Header.Set("Dapr-Caller-Namespace", "evil") }, ""},
		"named by namespace": {func(q *http.Request) {
			q.Header.Set("Dapr-Caller-App-Id", "other")
			q.Header.Set("Dapr-Caller-Namespace", "elsewhere")
		}, "dapr:other.elsewhere viewer"},
		"unknown":             {func(q *http.Request) { q.Header.Set("Dapr-Caller-App-Id", "evil") }, ""},
		"written by the app":  {func(q *http.Request) { q.Header.Add("Dapr-Caller-App-Id", "evil") }, ""},
		"nobody":              {func(q *http.Request) { q.Header.Del("Dapr-Caller-App-Id") }, ""},
		"a dot in its own id": {func(q *http.Request) { q.Header.Set("Dapr-Caller-App-Id", "other.elsewhere") }, ""},
	} {
		p, ok, err := call(c.edit)
		got := ""
		if err == nil {
			got = p.Name + " " + p.Role.String()
		} else if stepwell.CodeOf(err) != stepwell.CodeForbidden {
			t.Error(err)
		}
		if !ok || got != c.want {
			t.Errorf("%s: %q %t, want %q", name, got, ok, c.want)
		}
	}
}

// A Dapr job that comes again within seconds is the same firing; later ones are others.
func TestJobFirings(t *testing.T) {
	r := newRig(t, dapr.Settings{Jobs: true})
	fire := func(after time.Duration, body string) string {
		r.now = r.now.Add(after)
		w := r.post("/job/nightly", "application/json", body)
		return strings.TrimSpace(w.Body.String())
	}
	const fresh, again = `{"execution_id":"x","repeated":false}`, `{"execution_id":"x","repeated":true}`
	for i, c := range []struct {
		after time.Duration
		body  string
		want  string
	}{{0, "", fresh}, {time.Second, "", again}, {3 * time.Second, "", again}, {2 * time.Second, "", fresh}, {4900 * time.Millisecond, "", again}, {time.Minute, "{}", fresh},
		{0, `{"idempotency_key":"a"}`, fresh}, {time.Hour, `{"idempotency_key":"a"}`, again}, {0, `{"idempotency_key":"b"}`, fresh}} {
		if got := fire(c.after, c.body); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	if w := r.post("/job/unknown", "application/json", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r.refuse = &stepwell.Error{Code: stepwell.CodeUnavailable}
	if w := r.post("/job/nightly", "application/json", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBadSettings(t *testing.T) {
	for name, s := range map[string]dapr.Settings{
		"no token":       {Jobs: true},
		"a bad topic":    {AppToken: "t", Subscribe: []dapr.Subscription{{Topic: "a b"}}},
		"climbing":       {AppToken: "t", Subscribe: []dapr.Subscription{{Topic: "a/../b"}}},
		"a bad pub/sub":  {AppToken: "t", Subscribe: []dapr.Subscription{{PubSub: "a/b", Topic: "t"}}},
		"twice":          {AppToken: "t", Subscribe: []dapr.Subscription{{Topic: "t"}, {PubSub: "pubsub", Topic: "t"}}},
		"too high":       {AppToken: "t", Callers: map[string]access.Role{"a": access.Admin}},
		"for workers":    {AppToken: "t", Callers: map[string]access.Role{"a": access.Worker}},
		"without a role": {AppToken: "t", Callers: map[string]access.Role{"a": 0}},
	} {
		if err := s.Validate(); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
