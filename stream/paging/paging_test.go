package paging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// api serves 25 items in pages of 10, in every way of paging, and does what faults say before.
type api struct {
	*httptest.Server
	mu        sync.Mutex
	requests  []string
	headers   []http.Header
	faults    map[int]string // by number of the request, from 1
	elsewhere string
}

const total = 25

func serve(t testing.TB, faults map[int]string) *api {
	t.Helper()
	a := &api{faults: faults}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *api) note(r *http.Request, body []byte) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
	a.headers = append(a.headers, r.Header)
	return a.faults[len(a.requests)]
}

// ServeHTTP is a list of ways, one per path.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	fault := a.note(r, body)
	if a.fail(w, fault) {
		return
	}
	q := r.URL.Query()
	from, size := 0, 10
	if n, err := strconv.Atoi(q.Get("from")); err == nil {
		from = n
	}
	if n, err := strconv.Atoi(q.Get("n")); err == nil {
		size = n
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		from = (n - 1) * size
	}
	if len(body) > 0 {
		var b struct{ Opts struct{ After *int } }
		if err := json.Unmarshal(body, &b); err != nil {
			panic(err)
		}
		if b.Opts.After != nil {
			from = *b.Opts.After
		}
	}
	rows := []string{}
	for i := from; i < min(from+size, total); i++ {
		rows = append(rows, fmt.Sprintf(`{"no":%d}`, i))
	}
	list := "[" + strings.Join(rows, ",") + "]"
	next, end := fmt.Sprintf("%s?from=%d", r.URL.Path, from+size), from+size >= total
	if key := q.Get("api_key"); key != "" {
		next += "&api_key=" + key
	}
	text := list
	switch r.URL.Path {
	case "/header":
		if !end {
			w.Header().Add("Link", `<https://example.org/a,b>; rel="last"; title="a, <b>"`)
			w.Header().Add("Link", `</first>; rel=first, <`+next+`>; title="x"; rel="foo next"`)
		}
	case "/text", "/links", "/object", "/cursor", "/post":
		link := map[string]string{"/text": `"` + a.URL + next + `"`, "/object": `{"href":"` + next + `"}`, "/cursor": fmt.Sprint(from + size), "/post": fmt.Sprint(from + size),
			"/links": `[{"rel":"self","href":"x"},{"rel":"next","href":"` + next + `"}]`}[r.URL.Path]
		if end {
			link = map[string]string{"/text": `""`, "/links": `[{"rel":"self","href":"x"}]`}[r.URL.Path]
			if link == "" {
				link = "null"
			}
		}
		text = `{"features":` + list + `,"more":{"next":` + link + `}}`
	}
	if fault == "torn" {
		text = text[:len(text)/2]
	}
	if fault == "cut" {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		text = text[:len(text)/2]
	}
	fmt.Fprint(w, text) //nolint:errcheck // to a client that may be gone
	if fault == "cut" {
		w.(http.Flusher).Flush() //nolint:forcetypeassert // test
		panic(http.ErrAbortHandler)
	}
}

// fail answers a fault that needs no page.
func (a *api) fail(w http.ResponseWriter, fault string) bool {
	switch fault {
	case "wait":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case "500", "503", "504", "404", "403":
		status, _ := strconv.Atoi(fault)
		http.Error(w, "so it is", status)
	case "html":
		fmt.Fprint(w, "<html>come back later</html>") //nolint:errcheck // test
	case "empty":
		fmt.Fprint(w, `{"features":[],"more":{"next":"/text?from=10"}}`) //nolint:errcheck // test
	case "emptier":
		a.mu.Lock()
		defer a.mu.Unlock()
		fmt.Fprintf(w, `{"features":[],"more":{"next":"/text?from=10&i=%d"}}`, len(a.requests)) //nolint:errcheck // test
	case "circle":
		fmt.Fprint(w, `{"features":[{"no":0}],"more":{"next":"/text?x=1"}}`) //nolint:errcheck // test
	case "elsewhere":
		fmt.Fprintf(w, `{"features":[],"more":{"next":"%s/text?from=10"}}`, a.elsewhere) //nolint:errcheck // test
	case "long":
		fmt.Fprintf(w, `{"features":[],"more":{"next":"/text?from=10&x=%s"}}`, strings.Repeat("x", 20_000)) //nolint:errcheck // test
	case "reset":
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

func module(t testing.TB) stream.Module {
	t.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return Modules(Options{HTTP: client})[0]
}

func wanted(from, to int) []string {
	out := []string{}
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf(`{"no":%d}`, i))
	}
	return out
}

var ways = map[string]struct {
	config   map[string]any
	requests string
}{
	"/header?a=1": {nil, "GET /header?a=1|GET /header?from=10|GET /header?from=20"},
	"/text":       {map[string]any{"next": map[string]any{"link": "more.next"}}, "GET /text|GET /text?from=10|GET /text?from=20"},
	"/links":      {map[string]any{"next": map[string]any{"link": "more.next"}}, "GET /links|GET /links?from=10|GET /links?from=20"},
	"/object":     {map[string]any{"next": map[string]any{"link": "more.next"}, "items": "features"}, "GET /object|GET /object?from=10|GET /object?from=20"},
	"/cursor?b=%20c": {map[string]any{"next": map[string]any{"cursor": map[string]any{"path": "more.next", "param": "from"}}},
		"GET /cursor?b=%20c|GET /cursor?b=%20c&from=10|GET /cursor?b=%20c&from=20"},
	"/post": {map[string]any{"method": "POST", "body": map[string]any{"q": "x"}, "next": map[string]any{"cursor": map[string]any{"path": "more.next", "param": "opts.after"}}},
		`POST /post {"q":"x"}|POST /post {"q":"x","opts":{"after":10}}|POST /post {"q":"x","opts":{"after":20}}`},
	"/page?page=7": {map[string]any{"next": map[string]any{"page": map[string]any{"param": "page", "size_param": "n", "size": 10}}},
		"GET /page?page=1&n=10|GET /page?page=2&n=10|GET /page?page=3&n=10|GET /page?page=4&n=10"},
	"/offset": {map[string]any{"next": map[string]any{"offset": map[string]any{"param": "from"}}},
		"GET /offset?from=0|GET /offset?from=10|GET /offset?from=20|GET /offset?from=25"},
}

func TestWays(t *testing.T) {
	for path, way := range ways {
		t.Run(path, func(t *testing.T) {
			a := serve(t, nil)
			r := streamtest.New(t)
			m := module(t)
			config := map[string]any{"url": a.URL + path}
			for k, v := range way.config {
				config[k] = v
			}
			if got := m.Check(config); got != nil {
				t.Fatal(got)
			}
			items, cursors, err := r.Read(m, config)
			if diff := cmp.Diff(wanted(0, total), items); diff != "" || err != nil {
				t.Fatal(diff, err)
			}
			if diff := cmp.Diff(way.requests, strings.Join(a.requests, "|")); diff != "" {
				t.Error(diff)
			}
			for i, c := range cursors { // no page is fetched twice
				a.requests = nil
				r.Env.Cursor = c
				items, _, err := r.Read(m, config)
				if diff := cmp.Diff(wanted(min(10*(i+1), total), total), append([]string{}, items...)); diff != "" || err != nil {
					t.Errorf("%s: %v %s", c, err, diff)
				}
				if want := strings.Split(way.requests, "|")[i+1:]; strings.Join(want, "|") != strings.Join(a.requests, "|") {
					t.Errorf("%s: %q", c, a.requests)
				}
			}
		})
	}
}

func linkConfig(a *api) map[string]any {
	return map[string]any{"url": a.URL + "/text", "next": map[string]any{"link": "more.next"}, "backoff": 0.001}
}

func TestFaults(t *testing.T) {
	a := serve(t, map[int]string{1: "wait", 2: "reset", 4: "503", 5: "cut", 6: "torn", 7: "html", 9: "500"})
	r := streamtest.New(t)
	items, _, err := r.Read(module(t), linkConfig(a))
	if diff := cmp.Diff(wanted(0, total), items); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	if n := len(r.Lines()); len(a.requests) != 10 || n < 6 || n > 7 || // the transport itself repeats a GET on a connection that was lost
		len(r.Failures()) != 0 {
		t.Errorf("%q\n%q", a.requests, r.Lines())
	}
}

func TestPageThatCannotBeHad(t *testing.T) {
	for name, tt := range map[string]struct {
		faults  map[int]string
		status  int
		attempt int
	}{
		"not found": {map[int]string{2: "404"}, 404, 1},
		"forbidden": {map[int]string{2: "403"}, 403, 1},
		"500":       {map[int]string{2: "500", 3: "500", 4: "500"}, 500, 3},
		"504":       {map[int]string{2: "504", 3: "504", 4: "504"}, 504, 3},
		"503":       {map[int]string{2: "503", 3: "503", 4: "503"}, 503, 3},
		"html":      {map[int]string{2: "html", 3: "html", 4: "html"}, 0, 3},
	} {
		a := serve(t, tt.faults)
		r := streamtest.New(t)
		config := linkConfig(a)
		config["attempts"] = 3
		items, cursors, err := r.Read(module(t), config)
		e, ok := errors.AsType[*stream.Error](err)
		if !ok || e.Type != stream.NetworkError || e.Context != (stream.Context{URL: a.URL + "/text?from=10", Status: tt.status, Attempt: tt.attempt}) {
			t.Errorf("%s: %+v", name, err)
		}
		if tried := strings.HasSuffix(err.Error(), fmt.Sprintf(", tried %d times", tt.attempt)); tried != (tt.attempt > 1) {
			t.Errorf("%s: %v", name, err)
		}
		if len(items) != 10 || len(cursors) != 1 || len(a.requests) != tt.attempt+1 {
			t.Errorf("%s: %q %s", name, items, cursors)
		}
		r.Env.Cursor = cursors[0]
		if items, _, err := r.Read(module(t), config); len(items) != 15 || err != nil {
			t.Errorf("%s: continues with %d items, %v", name, len(items), err)
		}
	}
}

func TestServerInCircles(t *testing.T) {
	a := serve(t, map[int]string{1: "circle", 2: "circle"})
	r := streamtest.New(t)
	items, _, err := r.Read(module(t), linkConfig(a))
	if f := r.Failures(); err != nil || len(items) != 2 || len(f) != 1 || f[0].Type != stream.PaginationLoop || f[0].Context.URL != a.URL+"/text?x=1" || len(a.requests) != 2 {
		t.Errorf("%v %q %+v", err, items, f)
	}
	a = serve(t, nil)
	config := linkConfig(a)
	config["max_pages"] = 2
	r = streamtest.New(t)
	items, _, err = r.Read(module(t), config)
	if f := r.Failures(); err != nil || len(items) != 20 || len(f) != 1 || stepwell.CodeOf(f[0].Err) != stepwell.CodeLimit {
		t.Errorf("%v %q %+v", err, items, f)
	}
}

func TestEmptyPages(t *testing.T) {
	a := serve(t, map[int]string{1: "empty"})
	r := streamtest.New(t)
	if items, _, err := r.Read(module(t), linkConfig(a)); len(items) != 15 || err != nil {
		t.Error(items, err)
	}
	a = serve(t, map[int]string{2: "emptier", 3: "emptier", 4: "emptier", 5: "emptier"})
	r = streamtest.New(t)
	if items, _, err := r.Read(module(t), linkConfig(a)); len(items) != 10 || err != nil || len(a.requests) != 4 || len(r.Lines()) != 1 {
		t.Error(items, err, a.requests, r.Lines())
	}
}

func TestElsewhere(t *testing.T) {
	other := serve(t, nil)
	a := serve(t, map[int]string{1: "elsewhere", 2: "elsewhere"})
	a.elsewhere = other.URL
	r := streamtest.New(t)
	config := linkConfig(a)
	config["headers"] = map[string]any{"Authorization": "Bearer hidden", "X-Team": "hidden", "Accept": "application/geo+json"}
	items, cursors, err := r.Read(module(t), config)
	if err != nil || len(items) != 15 || a.headers[0].Get("Authorization") != "Bearer hidden" {
		t.Fatal(items, err)
	}
	for _, h := range other.headers {
		if h.Get("Authorization") != "" || h.Get("X-Team") != "" || h.Get("Accept") != "application/geo+json" {
			t.Error(h)
		}
	}
	r.Env.Cursor = cursors[0]
	if items, _, err := r.Read(module(t), config); err != nil || len(items) != 15 {
		t.Error(items, err)
	}
	for _, h := range other.headers {
		if h.Get("Authorization") != "" {
			t.Error("sent when going on:", h)
		}
	}
	r.Env.Cursor = nil
	config["method"], config["body"] = "POST", map[string]any{"key": "hidden"}
	if _, _, err := r.Read(module(t), config); stepwell.CodeOf(err) != stepwell.CodeInvalid || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
	a = serve(t, map[int]string{1: "long"})
	if _, _, err := r.Read(module(t), linkConfig(a)); stepwell.CodeOf(err) != stepwell.CodeLimit || stepwell.HintOf(err) == "" {
		t.Error(err)
	}
}

// TestSecrets has a key in the URL, which the server repeats in its links.
func TestSecrets(t *testing.T) {
	a := serve(t, map[int]string{3: "404"})
	r := streamtest.New(t)
	config := linkConfig(a)
	config["url"] = a.URL + "/text?api_key=hid%2Fden"
	_, cursors, err := r.Read(module(t), config)
	if err == nil || strings.Contains(err.Error(), "hid") || len(cursors) != 2 {
		t.Fatal(err, cursors)
	}
	for _, c := range cursors {
		if strings.Contains(string(c), "hid") {
			t.Errorf("%s", c)
		}
	}
	e, _ := errors.AsType[*stream.Error](err)
	if strings.Contains(e.Context.URL, "hid") {
		t.Error(e.Context.URL)
	}
	r.Env.Cursor = cursors[1]
	items, _, err := r.Read(module(t), config)
	if len(items) != 5 || err != nil || !strings.Contains(a.requests[len(a.requests)-1], "api_key=hid%2Fden") {
		t.Error(items, err, a.requests)
	}
}

func TestItems(t *testing.T) {
	text := `{"data":[{"a":{"k":7}},3,{"a":{"k":"x"}},{"b":1}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })) //nolint:errcheck // test
	t.Cleanup(server.Close)
	r := streamtest.New(t)
	m := module(t)
	config := map[string]any{"url": server.URL, "items": "data", "id": "a.k"}
	items, _, err := r.Read(m, config)
	if diff := cmp.Diff([]string{`{"a":{"k":7},"id":"7"}`, `{"a":{"k":"x"},"id":"x"}`}, items); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if f := r.Failures(); len(f) != 2 || !strings.Contains(f[0].Err.Error(), "item 2 of the page: it is a number") || f[0].Context.URL != server.URL {
		t.Errorf("%+v", f)
	}
	config["max_items"] = 1
	if items, _, err := r.Read(m, config); len(items) != 1 || err != nil {
		t.Error(items, err)
	}
	config["items"] = "rows"
	if _, _, err := r.Read(m, config); stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
		t.Error(err)
	}
	config["items"], config["max_page_bytes"] = "data", 20
	if _, _, err := r.Read(m, config); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	m := module(t)
	for want, config := range map[string]map[string]any{
		"not an http":     {"url": "ftp://x"},
		"more than one":   {"url": "https://x", "next": map[string]any{"link": "a", "page": map[string]any{"param": "p"}}},
		"belong together": {"url": "https://x", "next": map[string]any{"page": map[string]any{"param": "p", "size": 3}}},
		"method: POST":    {"url": "https://x", "body": map[string]any{}},
		"has no place":    {"url": "https://x", "method": "POST", "body": []any{}, "next": map[string]any{"page": map[string]any{"param": "p"}}},
		"path \"a[\"":     {"url": "https://x", "items": "a["},
		"path \"b[\"":     {"url": "https://x", "next": map[string]any{"link": "b["}},
	} {
		got := m.Check(config)
		if len(got) != 1 || !strings.Contains(got[0].Error()+stepwell.HintOf(got[0]), want) && !strings.Contains(got[0].Error(), "needs `"+want) {
			t.Errorf("%s: %v", want, got)
		}
	}
	if got := m.Check(map[string]any{"url": "{{ params.url }}/x", "body": "{{ params.body }}", "method": "POST", "next": "{{ params.next }}"}); got != nil {
		t.Error(got)
	}
	if _, err := spec.Compile(m.Spec.Params, false); err != nil {
		t.Error(err)
	}
}
