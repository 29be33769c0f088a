package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stac/schema"
)

const gauge = "https://example.com/gauge/v1.0.0/schema.json"

func decode(t testing.TB, text string) any {
	t.Helper()
	if !json.Valid([]byte(text)) {
		t.Fatal("not JSON: ", text)
	}
	v, err := schema.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// validate is what Check finds. Validate, which takes longer, must find the same.
func validate(t testing.TB, s *schema.Schema, doc any) []schema.Problem {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	laid, err := schema.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	defer laid.Release()
	got := s.Check(laid)
	if slow := s.Validate(doc); !slices.Equal(got, slow) {
		t.Errorf("Check finds %v, Validate %v", got, slow)
	}
	return got
}

func load(t testing.TB, s *schema.Store, uri string) *schema.Schema {
	t.Helper()
	compiled, err := s.Load(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// server serves texts by path and counts what it is asked for.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	texts map[string]string
	asked map[string]int
	fail  map[string]int // so many times 503 first
}

func serve(t testing.TB) (*server, *outbound.Client) {
	s := &server{texts: map[string]string{}, asked: map[string]int{}, fail: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[r.URL.Path]++
		text, ok := s.texts[r.URL.Path]
		switch {
		case s.fail[r.URL.Path] > 0:
			s.fail[r.URL.Path]--
			w.WriteHeader(http.StatusServiceUnavailable)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(s.Close)
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, client
}

func (s *server) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

func TestFolder(t *testing.T) {
	s := schema.New(schema.Options{Dir: "testdata/schemas", Mode: schema.Offline})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	number := load(t, s, "https://example.com/indexed/schema.json")
	if got := validate(t, number, decode(t, "10.5")); len(got) != 1 || got[0].Keyword != "exclusiveMaximum" {
		t.Error(got)
	}
	if load(t, s, gauge+"#") != load(t, s, gauge) {
		t.Error("a trailing # makes another schema")
	}
	for _, uri := range []string{"https://example.com/../../store.go", "https://example.com/none.json", "eo", "", "file:///etc/passwd", "/etc/passwd", "https:///x", "https://example.com/parts"} {
		_, err := s.Load(t.Context(), uri)
		if !errors.Is(err, schema.ErrUnavailable) || stepwell.CodeOf(err) != stepwell.CodeUnavailable {
			t.Errorf("%q: %v", uri, err)
		}
	}
	for _, dir := range []string{"testdata/none", "store_test.go"} {
		if err := schema.New(schema.Options{Dir: dir}).Check(); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Error(dir, err)
		}
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "index.json"), []byte(`{"https://x.y/z":"../secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := schema.New(schema.Options{Dir: outside}).Check(); err == nil {
		t.Error("an index may point outside")
	}
}

// TestMapToFolder: a pattern may be mapped to a folder with and without the star (B13); what is not there is said
// at once, as it would leave everything unchecked.
func TestMapToFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "v1", "schema.json"), []byte(`{"type":"object","required":["a"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{dir + "/", dir + "/*"} {
		s := schema.New(schema.Options{Mode: schema.Offline, Map: map[string]string{"https://example.org/*": to}})
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if got := validate(t, load(t, s, "https://example.org/v1/schema.json"), decode(t, "{}")); len(got) != 1 {
			t.Error(to, got)
		}
	}
	for from, to := range map[string]string{"https://example.org/*": dir + "/gone/", "https://example.org/a*": dir + "/gone/*", "https://example.org/b.json": dir + "/gone.json",
		"https://example.org/c*": dir, "https://example.org/d.json": dir + "/v1/"} {
		if err := schema.New(schema.Options{Map: map[string]string{from: to}}).Check(); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), from) {
			t.Errorf("%s to %s: %v", from, to, err)
		}
	}
}

func TestProblems(t *testing.T) {
	s := load(t, schema.New(schema.Options{Dir: "testdata/schemas"}), gauge)
	for _, c := range []struct{ name, text, want string }{
		{"valid", `{"type":"Feature","properties":{"gauge:level":0,"other":1},"assets":{}}`, ""},
		{"branch of the type", `{"type":"Feature","properties":{}}`, `/properties required: missing 'gauge:level'`},
		{"other branch", `{"type":"Collection","summaries":{}}`, `/summaries required: missing 'gauge:level'`},
		{"several, in order", `{"type":"Feature","properties":{"gauge:level":-1,"gauge:kind":"x"},"assets":{"a/b":{"gauge:z":1,"gauge:a":2}}}`,
			`/assets/a~1b additionalProperties: unknown properties 'gauge:a', 'gauge:z'|/properties/gauge:kind enum: value must be one of 'staff', 'float', 'radar'|/properties/gauge:level minimum: minimum: got -1, want 0`},
		{"format", `{"type":"Feature","properties":{"gauge:level":1,"gauge:read":"2020-01-01 00:00:00Z"}}`, `/properties/gauge:read format: '2020-01-01 00:00:00Z' is not valid date-time: 11th character must be t or T`},
		{"no object", `[]`, ` type: got array, want object`},
	} {
		var got []string
		for _, p := range validate(t, s, decode(t, c.text)) {
			if p.Schema != gauge {
				t.Error(p.Schema)
			}
			got = append(got, p.Pointer+" "+p.Keyword+": "+p.Message)
		}
		if line := strings.Join(got, "|"); line != c.want {
			t.Errorf("%s:\n got  %s\n want %s", c.name, line, c.want)
		}
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"a%03d":{"gauge:level":"%s"},`, i, strings.Repeat("ü", 300))
	}
	got := validate(t, s, decode(t, `{"type":"Feature","properties":{"gauge:level":1},"assets":{`+many.String()+`"z":{"gauge:read":"`+strings.Repeat("ü", 300)+`"}}}`))
	if len(got) != schema.MaxProblems || got[0].Pointer != "/assets/a000/gauge:level" {
		t.Error(len(got), got[0])
	}
	got = validate(t, s, decode(t, `{"type":"Feature","properties":{"gauge:level":1,"gauge:read":"`+strings.Repeat("ü", 300)+`"}}`))
	if len(got) != 1 || len(got[0].Message) > schema.MaxMessage || !strings.HasSuffix(got[0].Message, "…") {
		t.Error(got)
	}
}

func TestFormatsIgnored(t *testing.T) {
	s := schema.New(schema.Options{Dir: "testdata/schemas"})
	doc := decode(t, `{"type":"Feature","properties":{"gauge:level":1,"gauge:read":"yesterday"}}`)
	if len(validate(t, load(t, s, gauge), doc)) != 1 {
		t.Error("not asserted by default")
	}
	if got := validate(t, load(t, s.With(schema.Options{Formats: schema.Ignore}), gauge), doc); got != nil {
		t.Error(got)
	}
	first, again := s.With(schema.Options{Formats: schema.Ignore}), s.With(schema.Options{Formats: schema.Ignore})
	if first != again {
		t.Error("the same differences give two stores")
	}
}

func TestNetworkAndCache(t *testing.T) {
	srv, client := serve(t)
	srv.texts["/a/schema.json"] = `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"n":{"$ref":"part.json"}}}`
	srv.texts["/a/part.json"] = `{"type":"number"}`
	srv.fail["/a/schema.json"] = 1 // tried again
	cache := t.TempDir()
	uri := srv.URL + "/a/schema.json"
	s := schema.New(schema.Options{Cache: cache, HTTP: client})
	var wg sync.WaitGroup
	var wrong atomic.Int64
	for range 50 {
		wg.Go(func() {
			compiled, err := s.Load(t.Context(), uri)
			if err != nil || len(compiled.Validate(map[string]any{"n": "x"})) != 1 {
				wrong.Add(1)
			}
		})
	}
	wg.Wait()
	if wrong.Load() != 0 || srv.count("/a/schema.json") != 2 || srv.count("/a/part.json") != 1 {
		t.Errorf("%d wrong; asked %v", wrong.Load(), srv.asked)
	}
	broken := filepath.Join(cache, strings.ReplaceAll(strings.TrimPrefix(srv.URL, "http://"), ":", "_"), "a", "part.json")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := schema.New(schema.Options{Cache: cache, Mode: schema.Offline}).Load(t.Context(), uri); !errors.Is(err, schema.ErrUnavailable) {
		t.Error("a broken cache was used: ", err)
	}
	load(t, schema.New(schema.Options{Cache: cache, HTTP: client}), uri) // and repaired
	again := schema.New(schema.Options{Cache: cache, Mode: schema.Offline})
	load(t, again, uri)
	load(t, schema.New(schema.Options{Cache: cache, Mode: schema.Refresh, HTTP: client}), uri)
	if srv.count("/a/schema.json") != 3 {
		t.Error("refresh has not asked")
	}
	for range 3 {
		if _, err := s.Load(t.Context(), srv.URL+"/none"); !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), "404") {
			t.Error(err)
		}
	}
	if srv.count("/none") != 1 {
		t.Error("what is not there was asked for", srv.count("/none"), "times")
	}
	left, _ := filepath.Glob(filepath.Join(cache, "*", "a", ".schema-*"))
	if left != nil {
		t.Error("left behind: ", left)
	}
}

func TestUnusable(t *testing.T) {
	srv, client := serve(t)
	s := schema.New(schema.Options{HTTP: client})
	for path, text := range map[string]string{
		"/pattern":  `{"pattern":"("}`,
		"/keyword":  `{"$schema":"http://json-schema.org/draft-07/schema#","type":"nothing"}`,
		"/ref":      `{"$ref":"/gone"}`,
		"/fragment": `{"$ref":"#/definitions/gone"}`,
		"/json":     `{`,
		"/html":     `<html>429 Too Many Requests</html>`,
		"/large":    `"` + strings.Repeat("x", 5<<20) + `"`,
		"/draft":    `{"$schema":"https://example.com/own-dialect"}`,
	} {
		srv.texts[path] = text
		compiled, err := s.Load(t.Context(), srv.URL+path)
		if !errors.Is(err, schema.ErrUnavailable) || compiled != nil || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	srv.Close()
	if _, err := s.Load(t.Context(), srv.URL+"/away"); !errors.Is(err, schema.ErrUnavailable) {
		t.Error(err)
	}
}

func TestMap(t *testing.T) {
	dir, _ := filepath.Abs("testdata/schemas/example.com")
	s := schema.New(schema.Options{Map: map[string]string{"https://gone.org/*": dir + "/*", "https://gone.org/x.json": dir + "/parts/number.json"}})
	load(t, s, "https://gone.org/parts/number.json")
	if got := validate(t, load(t, s, "https://gone.org/x.json"), "x"); len(got) != 1 {
		t.Error(got)
	}
	for pattern, want := range map[string]bool{"*": true, "https://gone.org/*": true, "https://gone.org/x": true, "*org*x": true, "https://gone.org": false, "*y": false, "": false} {
		if schema.Match(pattern, "https://gone.org/x") != want {
			t.Error(pattern)
		}
	}
}

func TestBounds(t *testing.T) {
	s := schema.New(schema.Options{Mode: schema.Offline})
	for i := range 600 { // any number of URIs
		if _, err := s.Load(t.Context(), fmt.Sprintf("https://example.com/%d", i)); !errors.Is(err, schema.ErrUnavailable) {
			t.Fatal(i, err)
		}
	}
	for text, want := range map[string]string{"1e99999": "exponent", "[" + strings.Repeat("[", 600) + strings.Repeat("]", 601): "nested", strings.Repeat("1", 5000): "5000 characters"} {
		if _, err := schema.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(want, err)
		}
	}
}

// One that is cancelled gives way to the next.
func TestCancel(t *testing.T) {
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-answer
		fmt.Fprint(w, `{"type":"number"}`)
	}))
	defer srv.Close()
	_, client := serve(t)
	s := schema.New(schema.Options{HTTP: client})
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error), make(chan error)
	go func() { _, err := s.Load(ctx, srv.URL); first <- err }()
	<-arrived
	go func() { _, err := s.Load(t.Context(), srv.URL); second <- err }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(err, schema.ErrUnavailable) {
		t.Error(err)
	}
	close(answer)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// A pattern that would take years ends, and is no verdict.
func TestSlowPattern(t *testing.T) {
	srv, client := serve(t)
	srv.texts["/slow"] = `{"$schema":"http://json-schema.org/draft-07/schema#","not":{"pattern":"^(?=x)(x+x+)+y$"}}`
	got := validate(t, load(t, schema.New(schema.Options{HTTP: client}), srv.URL+"/slow"), strings.Repeat("x", 60))
	if len(got) != 1 || !strings.Contains(got[0].Message, "takes too long") {
		t.Error(got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"a":[1.5e3,"\u00e9\\",null,true,false,{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if !jsontext.Value(text).IsValid() || dec.Decode(&want) != nil {
			return
		}
		got, err := schema.Decode([]byte(text))
		if err != nil {
			return
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s: %s, want %s", text, a, b)
		}
	})
}
