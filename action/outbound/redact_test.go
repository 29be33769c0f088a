package outbound

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound/outboundtest"
)

func TestSecretName(t *testing.T) {
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "api_key", "apikey", "key", "accessToken", "access_token",
		"X-Auth-Token", "client_secret", "clientSecret", "password", "X-Goog-Signature", "sig", "X-Amz-Security-Token", "X-Vendor-Password", "sessionid", "X-Amz-Credential"} {
		if !SecretName(name) {
			t.Errorf("%s is not secret", name)
		}
	}
	for _, name := range []string{"Idempotency-Key", "Content-Type", "monkey", "max_tokens", "next_token", "nextPageToken", "page_token", "keyboard", "Accept", "author", "design", ""} {
		if SecretName(name) {
			t.Errorf("%s is secret", name)
		}
	}
}

// secrets are all over a request; none may surface.
var secrets = []string{"hunter2-password", "bearer-abcdef", "key-in-query+/=", "cookie-value-1", "vendor secret \"quoted\""}

func secretRequest(base, path string) *Request {
	u := strings.Replace(base, "http://", "http://user:hunter2-password@", 1) + path + "?api_key=" + url.QueryEscape(secrets[2]) + "&plain=yes"
	return &Request{URL: u, Header: http.Header{"Authorization": {"Bearer bearer-abcdef"}, "Cookie": {"sid=cookie-value-1; theme=dark"}, "X-Vendor-Secret": {secrets[4]}}}
}

// hidden fails when one of the secrets, or a usual form of it, is in the text.
func hidden(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range secrets {
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte("user:" + s))} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows %q: %s", what, form, text)
			}
		}
	}
}

func TestRedaction(t *testing.T) {
	s := outboundtest.New(t)
	c := local(t, Options{Breaker: Breaker{Failures: -1}})
	for _, path := range []string{"/reset", "/half", "/inside", "/circle", "/headers", "/%zz", "/status/500", "/echo", "/wrong"} {
		req := secretRequest(s.URL, path)
		req.Redirects = 2
		resp, err := c.Do(t.Context(), req)
		if err != nil {
			hidden(t, path, err.Error()+stepwell.HintOf(err))
			continue
		}
		raw := make([]byte, 64<<10)
		n, _ := resp.Body.Read(raw) //nolint:errcheck // the excerpt is what counts
		hidden(t, path, resp.StatusFailure(raw[:n]).Error())
		for name, value := range resp.Redactor.Header(resp.Header) {
			hidden(t, name, value)
		}
		if shown := resp.Redactor.URL(resp.URL); !strings.Contains(shown, "plain=yes") || !strings.Contains(shown, "api_key="+Hidden) || !strings.Contains(shown, "//"+Hidden+"@") {
			t.Errorf("the URL is shown as %s", shown)
		}
		var body any
		if json.Unmarshal(raw[:n], &body) == nil {
			out, err := json.Marshal(resp.Redactor.Value(body))
			if err != nil {
				t.Fatal(err)
			}
			hidden(t, path+" body", string(out))
			if path == "/echo" && !strings.Contains(string(out), `"plain":["yes"]`) {
				t.Errorf("too much is hidden: %s", out)
			}
		}
		resp.Close()
	}
	r := NewRedactor(&url.URL{}, http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+secrets[0]))}})
	hidden(t, "basic", r.Text("x hunter2-password y"))
	r.Add("added-later")
	if got := r.Text("<added-later>"); got != "<***>" {
		t.Error(got)
	}
}

// TestExcerptCut makes sure that no half of a secret survives where a text is cut.
func TestExcerptCut(t *testing.T) {
	r := &Response{Redactor: NewRedactor(&url.URL{}, http.Header{"X-Api-Key": {"0123456789abcdef"}})}
	for pad := 480; pad < 505; pad++ {
		if got := r.Excerpt([]byte(strings.Repeat("x", pad) + "0123456789abcdef")); strings.Contains(got, "0123") || len(got) > 510 {
			t.Errorf("%d: %s", pad, got)
		}
	}
}

func TestRecordReplay(t *testing.T) {
	s := outboundtest.New(t)
	dir := filepath.Join(t.TempDir(), "tape")
	recorder := local(t, Options{Record: dir})
	form, err := Multipart([]Part{{Name: "f", File: write(t, "a.txt", "content")}}, "one run")
	if err != nil {
		t.Fatal(err)
	}
	post := func(body Body) *Request {
		req := secretRequest(s.URL, "/echo")
		req.Method, req.Body = "POST", body
		return req
	}
	binary := &Request{URL: s.URL + "/binary"}
	want := map[string]string{}
	for name, req := range map[string]*Request{"json": post(Text(`{"a":"hunter2-password"}`, "application/json")), "form": post(form), "binary": binary} {
		_, want[name], err = fetch(t, recorder, req)
		if err != nil {
			t.Fatal(err)
		}
	}
	before := s.Count("/echo") + s.Count("/binary")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		hidden(t, f, string(raw))
	}

	again, err := Multipart([]Part{{Name: "f", File: write(t, "a.txt", "content")}}, "another run")
	if err != nil {
		t.Fatal(err)
	}
	replayer := local(t, Options{Replay: dir})
	other := post(Text(`{"a":"other-password"}`, "application/json"))
	other.URL = strings.Replace(other.URL, "hunter2-password", "other-password", 1) // other secrets find it too
	for name, req := range map[string]*Request{"json": other, "form": post(again), "binary": binary} {
		status, got, err := fetch(t, replayer, req)
		if err != nil || status != 200 || name == "binary" && got != want[name] || name != "binary" && !strings.Contains(got, `"method":"POST"`) {
			t.Errorf("%s: %d %q, %v", name, status, got, err)
		}
	}
	if n := s.Count("/echo") + s.Count("/binary"); n != before {
		t.Errorf("%d requests went out in a replay", n-before)
	}
	_, _, err = fetch(t, replayer, binary)
	if stepwell.CodeOf(err) != stepwell.CodeNotFound || !strings.Contains(err.Error(), "/binary") {
		t.Errorf("a second time: %v", err)
	}
}
