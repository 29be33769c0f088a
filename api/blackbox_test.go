package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
)

// The black-box test knows the description at /openapi.json and nothing else: it makes good and bad requests for every
// operation from its schemas, with ids that it has seen in answers. Whatever is asked: no 500, no hang, and every
// answer is one that the description promises.

// blackbox drives a server by its description.
type blackbox struct {
	t       *testing.T
	r       *rig
	doc     map[string]any
	ops     []*described
	schemas *jsonschema.Compiler
	checked map[string]*jsonschema.Schema
	rnd     *rand.Rand
	seen    map[string][]string // values of answers by the name of their field
	counts  map[string]map[int]int
	wrong   int
}

// errorf reports a fault; after twenty there is nothing new to see.
func (b *blackbox) errorf(format string, args ...any) {
	b.t.Helper()
	b.t.Errorf(format, args...)
	if b.wrong++; b.wrong == 20 {
		b.t.FailNow()
	}
}

func TestBlackBox(t *testing.T) {
	if testing.Short() {
		t.Skip("sends some thousand requests")
	}
	r := newRig(t, func(o *api.Options) {
		o.Templates = fixedTemplates{{Name: "hello", Summary: "Greets.", Origin: "built-in", Text: "name: hello\nsteps: [{id: a, action: util.noop}]\n"}}
	})
	r.run(greeting, map[string]any{"who": "Ann"})
	r.run(failing, nil)
	for range 5 {
		r.begin(waiting, nil)
	}
	b := &blackbox{t: t, r: r, rnd: rand.New(rand.NewPCG(1, 2)), checked: map[string]*jsonschema.Schema{}, seen: map[string][]string{}, counts: map[string]map[int]int{}}
	r.do("", "GET", "/openapi.json", nil).is(200).into(&b.doc)
	b.ops = b.operations()
	b.schemas = jsonschema.NewCompiler()
	b.schemas.DefaultDraft(jsonschema.Draft2020)
	b.schemas.AssertFormat()
	if err := b.schemas.AddResource("https://test/openapi.json", b.doc); err != nil {
		t.Fatal(err)
	}
	// What no answer tells: the token of a callback, which only the service knows that is to call back.
	b.seen["token"] = []string{callbacks{}.token("callback:x/y#1"), callbacks{}.token("callback:x/y#2")}
	for round := range 3 {
		for range 6 {
			r.begin(asking, nil)
		}
		for _, op := range b.ops {
			b.drive(op, round)
		}
	}
	for _, op := range b.ops {
		// Requests of these hang together in ways that a description cannot say; they have tests of their own.
		hard := op.id == "schedule.backfill" || op.id == "webhook.trigger" || op.id == "pipeline.version.archive" || strings.HasPrefix(op.id, "lesson.media") || strings.HasPrefix(op.id, "upload.") || strings.HasPrefix(op.id, "cluster.") || strings.HasPrefix(op.id, "auth.") || strings.HasPrefix(op.id, "pipeline_run.") || strings.HasPrefix(op.id, "pipeline.partitions")
		tries := 300
		if op.id == "execution.start" { // many of its fields exclude each other
			tries = 3000
		}
		for n := 0; n < tries && b.successes(op) == 0 && !op.stream() && !hard; n++ { // what depends on how things stand
			b.refresh(op)
			if n%10 == 0 { // something to retry, to pause and to resume
				paused := r.begin(waiting, nil)
				good(t, r.app.Conductor.Pause(t.Context(), paused))
				b.seen["execution_id"] = []string{r.run(failing, nil), r.begin(waiting, nil), paused}
				b.seen["other_id"] = b.seen["execution_id"]
				if op.id == "template.get" { // one that there is
					b.seen["name"] = []string{r.do("viewer", "GET", "/api/v1/templates", nil).is(200).object()["templates"].([]any)[0].(map[string]any)["name"].(string)}
				}
				if strings.HasPrefix(op.id, "lesson.") { // a lesson that nobody has removed
					r.do("editor", "POST", "/api/v1/projects", map[string]any{"id": fmt.Sprintf("project-of-%s-%d", op.id, n)}).is(201)
					stored := r.do("editor", "POST", "/api/v1/lessons", map[string]any{"project_id": fmt.Sprintf("project-of-%s-%d", op.id, n), "name": "one"}).is(201).object()
					b.seen["lesson_id"] = []string{stored["id"].(string)}
				}
				if op.id == "execution.start" { // a pipeline that there is
					document := fmt.Sprintf("name: started-%d\nsteps: [{id: a, action: util.noop}]\n", n)
					stored := r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": document}).is(201).object()
					b.seen["workflow_id"] = []string{stored["pipeline_id"].(string)}
				}
				if strings.HasPrefix(op.id, "pipeline.version.") { // a version that there is
					document := strings.Replace(greeting, "name: greeting", fmt.Sprintf("name: %s-%d", op.id, n), 1)
					stored := r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": document}).is(201).object()
					b.seen["pipeline_id"], b.seen["version"] = []string{stored["pipeline_id"].(string)}, []string{"1"}
				}
			}
			b.send(op, b.good(op, op.role))
		}
		if b.successes(op) == 0 && !op.stream() && !hard {
			t.Errorf("%s was never answered with a success: %v", op.id, b.counts[op.id])
		}
	}
}

// successes counts the answers of an operation that were no errors.
func (b *blackbox) successes(op *described) (n int) {
	for status, count := range b.counts[op.id] {
		if status < 400 {
			n += count
		}
	}
	return n
}

// described is an operation of the description.
type described struct {
	id, method, path, pointer, role string
	params                          []map[string]any
	body                            map[string]any // schema, nil: none
	needed                          bool           // the body is required
	responses                       map[string]any
}

func (d *described) stream() bool {
	_, ws := d.responses["101"]
	ok, _ := d.responses["200"].(map[string]any)
	content, _ := ok["content"].(map[string]any)
	_, sse := content["text/event-stream"]
	return ws || sse
}

func (b *blackbox) operations() []*described {
	var list []*described
	paths := b.doc["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range []string{"post", "get", "put", "delete", "patch"} {
			op, ok := item[method].(map[string]any)
			if !ok {
				continue
			}
			d := &described{id: op["operationId"].(string), method: strings.ToUpper(method), path: path, role: op["x-role"].(string),
				pointer: "#/paths/" + strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1") + "/" + method, responses: op["responses"].(map[string]any)}
			if ps, ok := op["parameters"].([]any); ok {
				for _, p := range ps {
					d.params = append(d.params, p.(map[string]any))
				}
			}
			if body, ok := op["requestBody"].(map[string]any); ok {
				media, ok := body["content"].(map[string]any)["application/json"].(map[string]any)
				if !ok { // the bytes of a file
					continue
				}
				d.body, _ = media["schema"].(map[string]any)
				d.needed, _ = body["required"].(bool)
			}
			if d.role != access.Worker.String() { // the calls of workers have their own suite: package desk
				list = append(list, d)
			}
		}
	}
	slices.SortStableFunc(list, func(x, y *described) int { // what ends things comes last
		ends := func(d *described) int {
			if d.method == "DELETE" || strings.HasSuffix(d.path, "/cancel") {
				return 1
			}
			return 0
		}
		return ends(x) - ends(y)
	})
	return list
}

// request is one that will be sent.
type request struct {
	what        string
	role        string
	query       url.Values
	headers     map[string]string
	path        string
	body        string
	contentType string
	want        int // 0: anything that the description promises
}

// drive sends good and bad requests of an operation.
func (b *blackbox) drive(op *described, round int) {
	role := op.role
	if role == "public" {
		role = ""
	}
	for range 10 {
		b.refresh(op)
		b.send(op, b.good(op, role))
	}
	for _, bad := range b.bad(op, role) {
		b.send(op, bad)
	}
	if role == "" || round > 0 {
		return
	}
	nobody := b.good(op, "")
	nobody.what, nobody.want = "nobody", http.StatusUnauthorized
	b.send(op, nobody)
	made := b.good(op, "sw_0123456789abcdef_AAAA")
	made.what, made.want = "a made-up key", http.StatusUnauthorized
	b.send(op, made)
	roles := []string{"viewer", "operator", "editor", "admin"}
	for _, lower := range roles[:slices.Index(roles, role)] {
		r := b.good(op, lower)
		r.what, r.want = lower, http.StatusForbidden
		b.send(op, r)
	}
}

// refresh lists what the path of an operation names one of, if there is such a list.
func (b *blackbox) refresh(op *described) {
	collection, _, ok := strings.Cut(op.path, "/{")
	if !ok || b.rnd.IntN(2) == 0 {
		return
	}
	for _, list := range b.ops {
		if list.path == collection && list.method == "GET" {
			b.send(list, b.good(list, list.role))
		}
	}
}

// good makes a request as the description wants it.
func (b *blackbox) good(op *described, role string) request {
	r := request{what: "good", role: role, query: url.Values{}, headers: map[string]string{}, path: op.path, contentType: "application/json"}
	for _, p := range op.params {
		name, schema := p["name"].(string), b.deref(p["schema"])
		required, _ := p["required"].(bool)
		if !required && b.rnd.IntN(3) > 0 {
			continue
		}
		b.put(&r, p, b.text(name, schema))
	}
	if op.body != nil && (op.needed || b.rnd.IntN(2) == 0) {
		r.body = encode(b.value("", op.body, 0))
	}
	return r
}

// put puts a parameter where it belongs.
func (b *blackbox) put(r *request, p map[string]any, text string) {
	switch name := p["name"].(string); p["in"] {
	case "path":
		r.path = strings.ReplaceAll(r.path, "{"+name+"}", url.PathEscape(text))
	case "query":
		r.query.Set(name, text)
	case "header":
		r.headers[name] = text
	}
}

// text is a parameter's value: one that was seen in an answer, if there is one.
func (b *blackbox) text(name string, schema map[string]any) string {
	if name == "wait_seconds" { // an answer takes as long when an execution does not end
		return strconv.Itoa(b.rnd.IntN(2))
	}
	if known := b.seen[name]; len(known) > 0 && b.rnd.IntN(4) > 0 {
		if b.rnd.IntN(2) == 0 {
			known = known[max(0, len(known)-20):] // of what came last, such as the list before
		}
		one := known[b.rnd.IntN(len(known))]
		if _, err := strconv.Atoi(one); err == nil || schema["type"] != "integer" { // the version of the program is none of a pipeline
			return one
		}
	}
	switch v := b.value(name, schema, 0).(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = fmt.Sprint(v[i])
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

func (b *blackbox) deref(schema any) map[string]any {
	s, _ := schema.(map[string]any)
	for s != nil {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		s = b.doc["components"].(map[string]any)["schemas"].(map[string]any)[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
	}
	return map[string]any{}
}

// value makes a value that fits a schema.
func (b *blackbox) value(name string, schema map[string]any, depth int) any {
	schema = b.deref(schema)
	if known := b.seen[name]; name != "" && len(known) > 0 && b.rnd.IntN(2) == 0 {
		return known[b.rnd.IntN(len(known))]
	}
	if list, ok := schema["examples"].([]any); ok && len(list) > 0 && b.rnd.IntN(4) > 0 {
		return list[b.rnd.IntN(len(list))]
	}
	if list, ok := schema["enum"].([]any); ok {
		return list[b.rnd.IntN(len(list))]
	}
	for _, either := range []string{"oneOf", "anyOf"} {
		if list, ok := schema[either].([]any); ok {
			return b.value(name, b.deref(list[b.rnd.IntN(len(list))]), depth+1)
		}
	}
	kind, _ := schema["type"].(string)
	if list, ok := schema["type"].([]any); ok {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "object":
		out := map[string]any{}
		required, _ := schema["required"].([]any)
		props, _ := schema["properties"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(props)) {
			if slices.Contains(required, any(key)) || depth < 4 && b.rnd.IntN(3) == 0 {
				out[key] = b.value(key, b.deref(props[key]), depth+1)
			}
		}
		return out
	case "array":
		out := []any{}
		for range b.rnd.IntN(3) {
			out = append(out, b.value("", b.deref(schema["items"]), depth+1))
		}
		return out
	case "integer", "number":
		least, most := 0.0, 100.0
		if v, ok := schema["minimum"].(float64); ok {
			least = v
		}
		if v, ok := schema["maximum"].(float64); ok {
			most = min(v, least+100)
		}
		if b.rnd.IntN(2) == 0 {
			return int(least)
		}
		return int(least) + b.rnd.IntN(int(most-least)+1)
	case "boolean":
		return b.rnd.IntN(2) == 0
	case "string":
		if schema["format"] == "date-time" {
			return time.Now().Add(time.Duration(b.rnd.IntN(100)-50) * time.Hour).UTC().Format(time.RFC3339)
		}
		return []string{"greeting", "hello", "x", "Ann Ünïcode", "00000000-0000-7000-8000-000000000000"}[b.rnd.IntN(5)]
	}
	return []any{"text", 7, true, nil, map[string]any{"a": 1}}[b.rnd.IntN(5)]
}

// odd are values that fit hardly anything.
func odd() []any {
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	return []any{nil, true, -1, 1e300, 0.5, json.Number("123456789012345678901234567890"), "", strings.Repeat("x", 70_000), "\u202e\x00\ufffd💥", `{{ secrets.x }}`, "'; DROP TABLE step; --",
		[]any{}, []any{[]any{nil}}, map[string]any{}, map[string]any{"$ref": "#"}, json.RawMessage(deep), "2026-13-45T99:99:99Z", "../../etc/passwd", "0001-01-01T00:00:00Z"}
}

// bad makes requests of which most are wrong.
func (b *blackbox) bad(op *described, role string) []request {
	var list []request
	add := func(what string, change func(*request)) {
		r := b.good(op, role)
		r.what = what
		change(&r)
		list = append(list, r)
	}
	for _, p := range op.params {
		name := p["name"].(string)
		for _, text := range []string{"", "-1", "99999999999999999999", "x", "\x00", "💥\u202e", strings.Repeat("9", 3000), "..", "%", "a/b", "true", "null", "1e9", `"`, "0001-01-01T00:00:00Z"} {
			if p["in"] == "header" && strings.ContainsAny(text, "\x00") || p["in"] == "path" && text == "" {
				continue
			}
			add("parameter "+name+"="+text, func(r *request) {
				r.path = op.path // without the value that good has put in
				for _, q := range op.params {
					if q["in"] == "path" && q["name"] != name {
						b.put(r, q, b.text(q["name"].(string), b.deref(q["schema"])))
					}
				}
				b.put(r, p, text)
				for _, q := range op.params { // a path has all its values
					b.put(r, map[string]any{"name": q["name"], "in": map[any]any{"path": "path"}[q["in"]]}, "x")
				}
			})
		}
	}
	add("unknown query", func(r *request) { r.query.Set("nosuch", "1") })
	if op.body == nil {
		return list
	}
	for _, raw := range []string{"{", "null", "[]", "7", `"x"`, "{}{}", "\x00", "\xff\xfe", `{"a":1,"a":2}`, strings.Repeat("[", 100_000), `{"x":` + strings.Repeat(`{"x":`, 5000) + "1" + strings.Repeat("}", 5001)} {
		add("body "+raw, func(r *request) { r.body = raw })
	}
	add("content type", func(r *request) { r.body, r.contentType = encode(b.value("", op.body, 0)), "text/plain" })
	add("content type", func(r *request) { r.body, r.contentType = encode(b.value("", op.body, 0)), ";;;" })
	props, _ := b.deref(op.body)["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(props)) {
		for _, v := range odd() {
			add(fmt.Sprintf("%s = %.40v", key, v), func(r *request) {
				m := b.object(op)
				m[key] = v
				r.body = encode(m)
			})
		}
		add("without "+key, func(r *request) {
			m := b.object(op)
			delete(m, key)
			r.body = encode(m)
		})
	}
	if b.rnd.IntN(3) == 0 {
		add("a huge body", func(r *request) { r.body = `{"x":"` + strings.Repeat("y", 17<<20) + `"}` })
	}
	add("an unknown field", func(r *request) {
		m := b.object(op)
		m["nosuch"] = 1
		r.body = encode(m)
	})
	return list
}

// object makes a body as an object.
func (b *blackbox) object(op *described) map[string]any {
	if m, ok := b.value("", op.body, 0).(map[string]any); ok && m != nil {
		return maps.Clone(m)
	}
	return map[string]any{}
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// send sends a request and holds the answer against the description.
func (b *blackbox) send(op *described, r request) {
	b.t.Helper()
	at := r.path
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}
	about := fmt.Sprintf("%s (%s) %s %.200s %.300q", op.id, cutText(r.what), op.method, at, r.body)
	req, err := http.NewRequestWithContext(b.t.Context(), op.method, b.r.server.URL+at, strings.NewReader(r.body))
	if err != nil {
		b.t.Fatalf("%s: %v", about, err)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.role != "" {
		req.Header.Set("Authorization", "Bearer "+r.role)
	}
	for name, value := range r.headers {
		if !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' }) {
			req.Header.Set(name, value)
		}
	}
	client := *b.r.server.Client()
	client.Timeout = 10 * time.Second
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	start := time.Now()
	res, err := client.Do(req)
	if err != nil {
		b.t.Fatalf("%s: no answer: %v", about, err)
	}
	defer res.Body.Close()
	if res.StatusCode == 200 && op.stream() {
		return
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatalf("%s: %v", about, err)
	}
	if took := time.Since(start); took > 30*time.Second {
		b.errorf("%s: took %s", about, took)
	}
	if b.counts[op.id] == nil {
		b.counts[op.id] = map[int]int{}
	}
	b.counts[op.id][res.StatusCode]++
	b.check(op, about, r.want, res, body)
}

func cutText(s string) string { return fmt.Sprintf("%.60q", s) }

func (b *blackbox) check(op *described, about string, want int, res *http.Response, body []byte) {
	b.t.Helper()
	status := res.StatusCode
	switch {
	case want != 0 && status != want:
		b.errorf("%s: status %d, want %d: %.500s", about, status, want, body)
	case status >= 500 && status != http.StatusServiceUnavailable:
		b.errorf("%s: status %d: %.500s\n%s", about, status, body, tail(b.r.log.String()))
	case status >= 300 && status < 400 && status != http.StatusNotModified:
		b.errorf("%s: status %d", about, status)
	}
	if len(body) == 0 && (status == http.StatusNoContent || status == http.StatusNotModified) {
		return
	}
	key := fmt.Sprint(status)
	if _, ok := op.responses[key]; !ok {
		key = "default"
		if status >= 400 && status < 500 {
			key = "4XX"
		}
		if status < 300 {
			b.errorf("%s: the description knows no answer %d", about, status)
		}
	}
	if plain := strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain"); plain && b.promises(op, key, "text/plain") {
		return
	}
	if res.Header.Get("Content-Type") == columns.MediaType && b.promises(op, key, columns.MediaType) {
		if _, err := columns.Decode(body); err != nil {
			b.errorf("%s: %v", about, err)
		}
		return
	}
	if kind := res.Header.Get("Content-Type"); kind == "application/schema+json" && b.promises(op, key, kind) {
		if !json.Valid(body) {
			b.errorf("%s: a schema that is no JSON: %.200q", about, body)
		}
		return
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		b.errorf("%s: status %d as %q: %.200q", about, status, res.Header.Get("Content-Type"), body)
		return
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		b.errorf("%s: %v: %.200q", about, err, body)
		return
	}
	if schema := b.schema(op, key); schema != nil {
		if err := schema.Validate(v); err != nil {
			b.errorf("%s: the answer %d is not as described: %v\n%.600s", about, status, err, body)
		}
	}
	if status < 300 {
		b.harvest(v)
	}
}

func tail(s string) string { return s[max(0, len(s)-1500):] }

// answer is the description of an answer, and where it is: its own or the one that it refers to.
func (b *blackbox) answer(op *described, key string) (place string, answer map[string]any) {
	answer, _ = op.responses[key].(map[string]any)
	if ref, ok := answer["$ref"].(string); ok {
		shared := b.doc["components"].(map[string]any)["responses"].(map[string]any)
		return ref, shared[strings.TrimPrefix(ref, "#/components/responses/")].(map[string]any)
	}
	return op.pointer + "/responses/" + key, answer
}

// promises says whether an answer may be of a type.
func (b *blackbox) promises(op *described, key, kind string) bool {
	_, answer := b.answer(op, key)
	content, _ := answer["content"].(map[string]any)
	return content[kind] != nil
}

// schema is that of an answer.
func (b *blackbox) schema(op *described, key string) *jsonschema.Schema {
	place, answer := b.answer(op, key)
	content, ok := answer["content"].(map[string]any)["application/json"]
	if !ok || content.(map[string]any)["schema"] == nil {
		return nil
	}
	at := "https://test/openapi.json" + place + "/content/application~1json/schema"
	at = strings.NewReplacer("{", "%7B", "}", "%7D").Replace(at)
	if b.checked[at] == nil {
		s, err := b.schemas.Compile(at)
		if err != nil {
			b.t.Fatalf("%s: %v", at, err)
		}
		b.checked[at] = s
	}
	return b.checked[at]
}

// harvest remembers what an answer calls things.
func (b *blackbox) harvest(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := v[name]
			if s, ok := inner.(string); ok && s != "" && len(s) < 200 {
				known := slices.DeleteFunc(b.seen[name], func(x string) bool { return x == s })
				b.seen[name] = append(known[max(0, len(known)-200):], s)
			}
			b.harvest(inner)
		}
	case []any:
		for _, inner := range v {
			b.harvest(inner)
		}
	}
}
