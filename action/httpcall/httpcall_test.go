package httpcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/outbound/outboundtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type values = map[string]any

// registry has the actions with a client that may reach loopback addresses.
func registry(t testing.TB, o outbound.Options) *action.Registry {
	t.Helper()
	o.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if o.Breaker.Failures == 0 {
		o.Breaker.Failures = -1
	}
	c, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &action.Registry{}
	if err := Register(r, c); err != nil {
		t.Fatal(err)
	}
	return r
}

func named(t testing.TB, r *action.Registry, name string) action.Action {
	t.Helper()
	a, ok := r.Lookup(name)
	if !ok {
		t.Fatalf("no action %s", name)
	}
	return *a
}

// run runs one attempt of util.http.
func run(t testing.TB, p values) actiontest.Result {
	t.Helper()
	return actiontest.Run(t.Context(), named(t, registry(t, outbound.Options{}), "util.http"), actiontest.Call{Params: p})
}

// good is the outputs of an attempt that must succeed.
func good(t testing.TB, r actiontest.Result) values {
	t.Helper()
	if r.Err != nil || r.Wait != nil {
		t.Fatalf("%v, %v (%s)", r.Wait, r.Err, stepwell.HintOf(r.Err))
	}
	return r.Outputs
}

// at is a member deep in a value.
func at(v any, path ...string) any {
	for _, name := range path {
		switch inner := v.(type) {
		case values:
			v = inner[name]
		case []any:
			if len(inner) == 0 {
				return nil
			}
			v = inner[0]
		default:
			return nil
		}
	}
	return v
}

func TestRequest(t *testing.T) {
	s := outboundtest.New(t)
	out := good(t, run(t, values{"url": s.URL + "/echo?a=1", "query": values{"b": []any{"x y", 2}, "c": nil, "d": true},
		"headers": values{"X-One": "1", "X-Two": []any{"a", 3}, "X-None": nil}}))
	body := out["body"]
	if diff := cmp.Diff(values{"a": []any{"1"}, "b": []any{"x y", "2"}, "d": []any{"true"}}, at(body, "query")); diff != "" || at(body, "method") != "GET" {
		t.Errorf("query (-want +got):\n%s%v", diff, body)
	}
	headers := at(body, "headers").(values)
	if at(headers, "X-One", "0") != "1" || len(headers["X-Two"].([]any)) != 2 || headers["X-None"] != nil || headers["Idempotency-Key"] != nil {
		t.Errorf("headers %v", headers)
	}
	if at(out, "headers", "x-request-id") != "request-1" || at(out, "metrics", "request_id") != "request-1" || out["status"] != int64(200) {
		t.Errorf("outputs %v", out)
	}
	for _, name := range []string{"attempt", "bytes_sent", "bytes_received", "first_byte_ms", "duration_ms"} {
		if at(out, "metrics", name) == nil {
			t.Errorf("no %s", name)
		}
	}
	for name, wish := range map[string]any{"execution/util.http": nil, "mine": "mine", "": false} {
		p := values{"url": s.URL + "/echo", "json": values{"n": json.Number("12345678901234567890")}}
		if wish != nil {
			p["idempotency_key"] = wish
		}
		out := good(t, run(t, p))
		got, _ := at(out, "body", "headers", "Idempotency-Key", "0").(string)
		if got != name || at(out, "body", "method") != "POST" || at(out, "body", "body") != `{"n":12345678901234567890}` {
			t.Errorf("key %v: %q, %v", wish, got, at(out, "body"))
		}
	}
}

func TestRequestBodies(t *testing.T) {
	s := outboundtest.New(t)
	path := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(path, []byte("from a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		params     values
		kind, body string
	}{
		"json":   {values{"json": []any{1, "<&>", nil}}, "application/json", `[1,"<&>",null]`},
		"null":   {values{"json": nil}, "application/json", "null"},
		"form":   {values{"form": values{"a": "x y", "b": []any{1, 2}}}, "application/x-www-form-urlencoded", "a=x+y&b=1&b=2"},
		"text":   {values{"text": "héllo"}, "text/plain; charset=utf-8", "héllo"},
		"typed":  {values{"text": "<a/>", "content_type": "application/xml"}, "application/xml", "<a/>"},
		"file":   {values{"file": path}, "application/octet-stream", "from a file"},
		"header": {values{"text": "x", "headers": values{"content-type": "a/b"}}, "a/b", "x"},
	} {
		test.params["url"] = s.URL + "/echo"
		body := good(t, run(t, test.params))["body"]
		if at(body, "body") != test.body || at(body, "headers", "Content-Type", "0") != test.kind || at(body, "length") != int64(len(test.body)) {
			t.Errorf("%s: %v", name, body)
		}
	}
	body := good(t, run(t, values{"url": s.URL + "/echo", "multipart": []any{values{"name": "model", "value": "large"}, values{"name": "options", "value": values{"n": 1}},
		values{"name": "file", "file": path, "content_type": "audio/mpeg"}}}))["body"]
	text, _ := at(body, "body").(string)
	for _, part := range []string{`name="model"` + "\r\n\r\nlarge\r\n", `name="options"` + "\r\n\r\n{\"n\":1}\r\n", `name="file"; filename="in.txt"` + "\r\nContent-Type: audio/mpeg\r\n\r\nfrom a file\r\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
	if at(body, "length") != int64(len(text)) {
		t.Errorf("length %v of %d", at(body, "length"), len(text))
	}
}

// TestOutcomes has every fault end as the action's documentation says.
func TestOutcomes(t *testing.T) {
	s := outboundtest.New(t)
	const fails, again, deferred = "fails", "again", "deferred"
	soon := values{"timeouts": values{"first_byte": 0.2, "idle": 0.2, "total": 1}}
	ample := values{"first_byte": 30, "idle": 30, "total": 60} // for rows that are not about time
	for _, test := range []struct {
		path   string
		params values
		ends   string
		text   string
	}{
		{"/reset", nil, again, "connection reset"},
		{"/close", nil, again, "EOF"},
		{"/half", nil, again, "unexpected EOF"},
		{"/cut", nil, again, "JSON that ends early"},
		{"/silent", soon, again, "no response within 200ms"},
		{"/stall", soon, again, "nothing moved for 200ms"},
		{"/drip", soon, again, "longer than 1s"},
		{"/busy?after=7", nil, deferred, "answered 429 Too Many Requests: {\"error\": \"slow down\"}"},
		{"/busy?after=" + strings.ReplaceAll(time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat), " ", "%20"), nil, deferred, "answered 429"},
		{"/busy", nil, again, "answered 429"},
		{"/endless", values{"max_bytes": 1 << 19}, fails, "larger than 524288 bytes"},
		{"/endless", values{"response": "lines", "max_bytes": 1 << 20}, fails, "larger than 1048576 bytes"},
		{"/inside", nil, fails, "leads to the private address"},
		{"/circle", nil, fails, "more than 5 redirects"},
		{"/circle", values{"redirects": 0}, fails, "answered 302"},
		{"/bomb", nil, fails, "unpacks to more than 200 times its size"},
		{"/bomb", values{"max_bytes": 1 << 20}, fails, "larger than 1048576 bytes"},
		{"/headers", nil, fails, "headers exceeded"},
		{"/html", values{"response": "json"}, fails, "not JSON"},
		{"/wrong", nil, fails, "not JSON"},
		{"/binary", nil, fails, "no text; write it to a file"},
		{"/error", values{"success_if": "body.error is not defined"}, again, `success_if is false: {"error": {"message": "overloaded"}}`},
		{"/error", values{"outputs": values{"text": values{"value": "body.text", "required": true}}}, again, "text is missing"},
		{"/error", values{"outputs": values{"n": values{"value": "body.error.message", "type": "integer"}}}, again, "must be a whole number"},
		{"/error", values{"outputs": values{"n": "body.error.message + 1"}}, fails, "outputs.n"},
		{"/status/400", nil, fails, "answered 400 Bad Request"},
		{"/status/404", nil, fails, "answered 404"},
		{"/status/404", values{"retry_on": []any{404}}, again, "answered 404"},
		{"/status/413", nil, fails, "answered 413"},
		{"/status/415", nil, fails, "answered 415"},
		{"/status/408", nil, again, "answered 408"},
		{"/status/425", nil, again, "answered 425"},
		{"/status/500", nil, again, "answered 500"},
		{"/status/502", nil, again, "answered 502"},
		{"/status/502", values{"fail_on": []any{"5xx"}}, fails, "answered 502"},
		{"/status/503", nil, again, "answered 503"},
		{"/status/504", nil, again, "answered 504"},
		{"/status/204", values{"response": "json"}, "", ""},
		{"/status/404", values{"success_if": "status == 404"}, "", ""},
		{"/ok", values{"success_if": "{{ body.ok }}"}, "", ""},
		{"/ok", values{"success_if": false}, again, "success_if is false"},
	} {
		t.Run(test.path+fmt.Sprint(test.params), func(t *testing.T) {
			p := values{"url": s.URL + test.path, "timeouts": ample}
			for name, v := range test.params {
				p[name] = v
			}
			began := time.Now()
			got := run(t, p)
			ends := ""
			retry, ok := errors.AsType[*action.RetryError](got.Err)
			switch {
			case action.IsFail(got.Err):
				ends = fails
			case ok && retry.Defer:
				ends = deferred
			case ok:
				ends = again
			}
			if ends != test.ends || got.Err != nil && !strings.Contains(got.Err.Error(), test.text) {
				t.Errorf("ended %q with %v, want %q with %q", ends, got.Err, test.ends, test.text)
			}
			if ends == deferred && (retry.After < 5*time.Second || retry.After > 21*time.Second) {
				t.Errorf("put back for %s", retry.After)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
			if len(got.Logs) == 0 {
				t.Error("no line in the log")
			}
		})
	}
}

// TestOnlyOnce has the second 500 of a step fail for good.
func TestOnlyOnce(t *testing.T) {
	s := outboundtest.New(t)
	a := named(t, registry(t, outbound.Options{}), "util.http")
	memory := map[string]json.RawMessage{}
	for attempt := 1; attempt <= 2; attempt++ {
		got := actiontest.Run(t.Context(), a, actiontest.Call{Params: values{"url": s.URL + "/status/500"}, Memory: memory, Attempt: attempt})
		if action.IsFail(got.Err) != (attempt == 2) {
			t.Errorf("attempt %d: %v", attempt, got.Err)
		}
	}
}

func TestTotalAndStepTimeout(t *testing.T) {
	s := outboundtest.New(t)
	a := named(t, registry(t, outbound.Options{}), "util.http")
	for total, text := range map[any]string{"10s": "not less than the step's timeout of about 10s", 11: "not less", 9: ""} {
		got := actiontest.Run(t.Context(), a, actiontest.Call{Params: values{"url": s.URL + "/ok", "timeouts": values{"total": total}}, Timeout: 10 * time.Second})
		if (got.Err == nil) != (text == "") || got.Err != nil && (!strings.Contains(got.Err.Error(), text) || !action.IsFail(got.Err)) {
			t.Errorf("%v: %v", total, got.Err)
		}
	}
	got := actiontest.Run(t.Context(), a, actiontest.Call{Params: values{"url": s.URL + "/silent"}, Timeout: 2 * time.Second})
	if f, ok := errors.AsType[*outbound.Failure](got.Err); !ok || f.Phase != "total" {
		t.Errorf("without timeouts the step's own ends it: %v", got.Err)
	}
}

// TestManyAtOnce sends 1,000 requests through one action; the server counts how many it has at a time.
func TestManyAtOnce(t *testing.T) {
	s := outboundtest.New(t)
	a := named(t, registry(t, outbound.Options{PerHost: outbound.Limit{Concurrent: 9}}), "util.http")
	var wg sync.WaitGroup
	errs := make(chan error, 1000)
	for range 1000 {
		wg.Go(func() {
			if r := actiontest.Run(t.Context(), a, actiontest.Call{Params: values{"url": s.URL + "/work"}}); r.Err != nil {
				errs <- r.Err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	if s.Count("/work") != 1000 || s.Most() > 9 || s.Most() < 2 {
		t.Errorf("%d requests, %d at once", s.Count("/work"), s.Most())
	}
}

func TestValidate(t *testing.T) {
	r := registry(t, outbound.Options{})
	for name, test := range map[string]struct {
		params values
		text   string
	}{
		"bodies":           {values{"json": 1, "text": "x"}, "json and text are bodies"},
		"get with body":    {values{"method": "get", "text": "x"}, "GET does not have"},
		"content type":     {values{"form": values{"a": 1}, "content_type": "x"}, "no meaning for form"},
		"part":             {values{"multipart": []any{values{"name": "a", "value": 1, "file": "b"}}}, "value stands beside file"},
		"path":             {values{"response": "json", "path": "x"}, "path has no meaning"},
		"spill":            {values{"response": "file", "spill": "x"}, "spill has no meaning"},
		"memory":           {values{"response": "json", "max_bytes": 1 << 30}, "more than 64 MiB"},
		"header":           {values{"headers": values{"a": values{}}}, "headers.a is an object"},
		"query":            {values{"query": values{"a": []any{[]any{}}}}, "query.a"},
		"output":           {values{"outputs": values{"a": "body."}}, "outputs.a"},
		"output name":      {values{"outputs": values{"status": "body.a"}}, "is an output already"},
		"output type":      {values{"outputs": values{"a": values{"value": "body", "type": "text"}}}, "outputs.a.type is not understood"},
		"output empty":     {values{"outputs": values{"a": 3}}, "has no expression"},
		"success":          {values{"success_if": "status =="}, "success_if"},
		"half braces":      {values{"success_if": "{{ status }} == 200"}, "outside {{ }}"},
		"timeouts":         {values{"timeouts": values{"first_byte": 3, "total": 2}}, "longer than timeouts.total"},
		"rule":             {values{"retry_on": []any{"often"}}, "neither a status nor a kind"},
		"poll and file":    {values{"response": "file", "poll": values{"until": "body.done"}}, "poll cannot read"},
		"poll and lines":   {values{"response": "lines", "poll": values{"until": "body.done"}}, "poll cannot read"},
		"poll.until":       {values{"poll": values{"until": "body. =="}}, "poll.until"},
		"poll.until twice": {values{"poll": values{}}, "poll.until is missing"},
		"poll.job":         {values{"poll": values{"until": true, "job": "body["}}, "poll.job"},
		"poll.interval":    {values{"poll": values{"until": true, "interval": "soon"}}, "poll.interval"},
	} {
		problems := errors.Join(r.Validate("util.http", test.params)...)
		if problems == nil || !strings.Contains(problems.Error(), test.text) {
			t.Errorf("%s: %v, want %q", name, problems, test.text)
		}
	}
	if problems := r.Validate("util.http", values{}); problems != nil {
		t.Errorf("nothing but templates: %v", problems)
	}
	if problems := r.Validate("http_request", values{"headers": values{"a": values{}}}); len(problems) != 1 {
		t.Errorf("http_request: %v", problems)
	}
}

// TestSpecs makes sure that the reference page has a sentence for every field and examples that hold.
func TestSpecs(t *testing.T) {
	r := registry(t, outbound.Options{})
	for _, s := range r.Specs() {
		for _, f := range slices.Concat(s.Params, s.Outputs) {
			if f.Doc == "" || s.Summary == "" || len(s.Examples) == 0 {
				t.Errorf("%s: field %s has no sentence, or the action no summary or example", s.Name, f.Name)
			}
			for _, inner := range f.Fields {
				if inner.Doc == "" {
					t.Errorf("%s: field %s.%s has no sentence", s.Name, f.Name, inner.Name)
				}
			}
		}
		for _, e := range s.Examples {
			var step struct {
				Action string `yaml:"action"`
				Params values `yaml:"params"`
			}
			if err := yaml.Unmarshal([]byte(e.YAML), &step); err != nil || step.Action != s.Name {
				t.Errorf("%s: %v", e.Title, err)
				continue
			}
			checker, _ := r.Params(s.Name)
			if wrong := checker.Check(step.Params); len(wrong) > 0 {
				t.Errorf("%s: %v", e.Title, wrong)
			}
			if problems := r.Validate(s.Name, step.Params); problems != nil {
				t.Errorf("%s: %v", e.Title, problems)
			}
		}
	}
	if err := Register(r, nil); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("registered twice: %v", err)
	}
}

func TestHTTPRequest(t *testing.T) {
	s := outboundtest.New(t)
	a := named(t, registry(t, outbound.Options{}), "http_request")
	call := func(p values) actiontest.Result {
		return actiontest.Run(t.Context(), a, actiontest.Call{Params: p})
	}
	out := good(t, call(values{"url": s.URL + "/echo", "method": "post", "headers": values{"X-One": "1"}, "body": values{"a": 1}}))
	if got := fmt.Sprintln(len(out), out["status_code"], at(out, "body", "body"), at(out, "body", "method"), at(out, "headers", "x-request-id")); got != "3 200 {\"a\":1} POST request-1\n" {
		t.Errorf("%s: %v", got, out)
	}
	for body, kind := range map[any]string{"hello": "text/plain; charset=utf-8", `{"a": 1}`: "application/json", "{no json": "text/plain; charset=utf-8"} {
		out := good(t, call(values{"url": s.URL + "/echo", "method": "PUT", "body": body, "include_metadata": true}))
		if at(out, "body", "body") != body || at(out, "body", "headers", "Content-Type", "0") != kind || at(out, "metadata", "url") != s.URL+"/echo" {
			t.Errorf("%v: %v", body, out)
		}
	}
	if got := call(values{"url": s.URL + "/status/404"}); !action.IsFail(got.Err) {
		t.Errorf("404: %v", got.Err)
	}
	for _, seconds := range []any{0, 301} {
		if got := call(values{"url": s.URL + "/ok", "timeout_seconds": seconds}); stepwell.CodeOf(got.Err) != stepwell.CodeInvalid {
			t.Errorf("timeout_seconds %v: %v", seconds, got.Err)
		}
	}
	if got := call(values{"url": "http://10.0.0.1/"}); !action.IsFail(got.Err) || !strings.Contains(stepwell.HintOf(got.Err), "allow_hosts") {
		t.Errorf("a private address: %v", got.Err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if out := good(t, call(values{"url": server.URL, "timeout_seconds": 300, "body": ""})); out["body"] != nil {
		t.Errorf("nothing: %v", out)
	}
}
