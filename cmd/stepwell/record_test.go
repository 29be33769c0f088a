package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recorder runs the program in a folder of its own.
type recorderRig struct {
	t   *testing.T
	dir string
	env []string
}

func newRecorderRig(t *testing.T) *recorderRig {
	return &recorderRig{t: t, dir: t.TempDir()}
}

func (r *recorderRig) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run gives the exit code and all output.
func (r *recorderRig) run(stdin string, args ...string) (int, string) {
	r.t.Helper()
	c := exec.Command("stepwell", args...)
	c.Dir, c.Stdin, c.Env = r.dir, strings.NewReader(stdin), append(os.Environ(), r.env...)
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		r.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func (r *recorderRig) must(code int, args ...string) string {
	r.t.Helper()
	got, out := r.run("", args...)
	if got != code {
		r.t.Fatalf("stepwell %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return out
}

// paths are the files in and below a folder of the rig's, relative to its own.
func (r *recorderRig) paths(dir string) (list []string) {
	r.t.Helper()
	err := filepath.WalkDir(filepath.Join(r.dir, dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		path, err = filepath.Rel(r.dir, path)
		list = append(list, filepath.ToSlash(path))
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// texts are all files in and below a folder of the rig's, by name.
func (r *recorderRig) texts(dir string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, path := range r.paths(dir) {
		raw, err := os.ReadFile(filepath.Join(r.dir, path))
		if err != nil {
			r.t.Fatal(err)
		}
		out[filepath.Base(path)] = string(raw)
	}
	return out
}

// TestRecordedNumbers: a secret that is a number is hidden, in what a command is given and in what it gives, and the step ends as it did.
func TestRecordedNumbers(t *testing.T) {
	t.Parallel()
	r := newRecorderRig(t)
	r.write("n.yaml", `name: n
parameters: [{name: pin, type: integer, secret: true}]
steps: [{id: c, action: util.exec, params: {command: 'echo "{\"pin\": $PIN}" > "$STEPWELL_OUTPUT"', env: {PIN: "{{ params.pin }}"}}}]
`)
	for _, flag := range []string{"--record-http", "--replay-http"} {
		r.must(0, "run", "n.yaml", "-p", "pin=84736251", flag, "rec")
		for name, text := range r.texts("rec") {
			if strings.Contains(text, "84736251") {
				t.Errorf("%s holds the number:\n%s", name, text)
			}
		}
	}
	if len(r.texts("rec")) != 1 {
		t.Errorf("%d recordings", len(r.texts("rec")))
	}
	r.write("file", "")
	r.must(2, "run", "n.yaml", "-p", "pin=84736251", "--record-http", "file")
}

// TestRecordingsHaveNoSecrets plants ten secrets, each where it could get into a recording in another form, and finds none of them in any
// file; with the server gone, what was recorded plays again.
func TestRecordingsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	planted := make([]string, 11)
	for i := range planted {
		planted[i] = fmt.Sprintf("sEcret/%d+päss&word=%d", i, i*7919)
	}
	cookie := "c00kie-vAlue-0815-x"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/echo": // what comes back in forms of all kinds
			w.Header().Set("X-Echo", req.Header.Get("X-Note"))
			fmt.Fprintf(w, `{"plain": %q, "base64": %q, "percent": %q, "body": %q}`, planted[0], base64.StdEncoding.EncodeToString([]byte("user:"+planted[1])),
				url.QueryEscape(planted[2]), body)
		case "/redirect":
			http.Redirect(w, req, "/there?access_token="+url.QueryEscape(planted[3])+"&n=1", http.StatusFound)
		case "/there":
			fmt.Fprintf(w, `{"came": %q}`, req.URL.Query().Get("access_token"))
		case "/login":
			http.SetCookie(w, &http.Cookie{Name: "session", Value: cookie})
			fmt.Fprintf(w, `{"token": %q, "deep": [{"refresh_token": "never-used-later-0816"}], "next_token": "page-2"}`, planted[8])
		case "/fails":
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, "no: %s is wrong", planted[6])
		default:
			fmt.Fprintf(w, `{"cookie": %q, "sent": %q}`, cookie, req.Header.Get("Authorization"))
		}
	}))
	defer server.Close()
	r := newRecorderRig(t)
	names := strings.Split("plain base64 percent redirect query body error stdout unused header", " ")
	for i, name := range names {
		if code, out := r.run(planted[i], "secrets", "set", name); code != 0 {
			t.Fatal(out)
		}
	}
	r.write("stepwell.yaml", "http: {allow_private: true}\n")
	r.write("flow.yaml", fmt.Sprintf(`name: flow
parameters: [{name: pin, type: string, secret: true}]
steps:
  - {id: echo, action: util.http, params: {url: "%[1]s/echo?note={{ secrets.query | urlencode }}", method: POST, headers: {X-Note: "{{ secrets.header }}"}, json: {pin: "{{ params.pin }}", text: "{{ secrets.body }}", password: literal-password}}}
  - {id: moved, action: util.http, depends_on: [echo], params: {url: "%[1]s/redirect", redirects: 3}}
  - {id: login, action: util.http, depends_on: [moved], params: {url: "%[1]s/login"}}
  - {id: uses, action: util.http, depends_on: [login], params: {url: "%[1]s/uses", headers: {Authorization: "Bearer {{ steps.login.outputs.body.token }}"}}}
  - {id: fails, action: util.http, depends_on: [login], on_failure: continue, retry: {max_attempts: 1}, params: {url: "%[1]s/fails"}}
  - {id: list, action: util.http, depends_on: [login], params: {url: "%[1]s/list", method: POST, json: [{password: in-a-list-0817}]}}
  - {id: says, action: util.exec, depends_on: [login], params: {command: 'echo "$V" && echo "$OTHER"', env: {V: "{{ secrets.stdout }}", OTHER: fine}}}
  - {id: breaks, action: util.exec, depends_on: [login], on_failure: continue, retry: {max_attempts: 1}, params: {command: 'echo "$API_TOKEN is wrong" >&2; exit 4', env: {API_TOKEN: "literal-token-4711"}}}
`, server.URL))
	out := r.must(3, "run", "flow.yaml", "-p", "pin="+planted[10], "--record-http", "rec", "--record", "tests")
	if !strings.Contains(out, "recorded 10 requests and commands in rec") && !strings.Contains(out, "recorded 9 requests and commands in rec") {
		t.Errorf("it says %s", out)
	}
	for _, text := range r.texts("rec") {
		if strings.Contains(text, "next_token") && !strings.Contains(text, "page-2") {
			t.Errorf("where the next page is, is no secret:\n%s", text)
		}
	}
	looked := append([]string{cookie, "never-used-later-0816", "in-a-list-0817", "literal-password", "literal-token-4711"}, planted...)
	for _, dir := range []string{"rec", "tests"} {
		for name, text := range r.texts(dir) {
			for i, secret := range looked {
				for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("user:" + secret)),
					strings.Trim(fmt.Sprintf("%q", secret), `"`)} {
					if strings.Contains(text, form) {
						t.Errorf("%s holds secret %d as %s:\n%s", name, i, form, text)
					}
				}
			}
		}
	}
	server.Close()
	r.must(3, "run", "flow.yaml", "-p", "pin="+planted[10], "--replay-http", "rec")
	r.write("flow.test.yaml", `params: {pin: "another pin"}
secrets: {plain: another-1, base64: another-2, percent: another-3, redirect: another-4, query: "another&5", body: another-6, error: another-7, stdout: another-8, unused: another-9, header: another-10}
real: [echo, moved, login, uses, fails, list, says, breaks]
tests:
  - name: as recorded
    expect: {status: completed_with_failures, steps: {echo: completed, moved: completed, uses: completed, fails: failed, says: completed, breaks: failed}}
  - name: once more, from the beginning
    expect: {status: completed_with_failures}
`)
	out = r.must(0, "test", "flow.test.yaml", "--replay-http", "rec", "--check", "1d")
	if strings.Contains(out, "older") {
		t.Errorf("new recordings are old: %s", out)
	}
	// A request that was never recorded names the nearest one.
	flow, err := os.ReadFile(filepath.Join(r.dir, "flow.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write("flow.yaml", strings.Replace(strings.Replace(string(flow), "/uses\"", "/usez\"", 1), "echo \"$V\"", "echo again \"$V\"", 1))
	out = r.must(1, "test", "flow.test.yaml", "--replay-http", "rec")
	for _, want := range []string{"no recording of GET " + server.URL + "/usez", "the nearest one recorded is GET " + server.URL + "/uses"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	// Old recordings are told of.
	for name, text := range r.texts("rec/flow") {
		at := strings.Index(text, `"recorded_at": "`) + len(`"recorded_at": "`)
		r.write("rec/flow/"+name, text[:at]+"2020-01-02"+text[at+len("2020-01-02"):])
	}
	out = r.must(1, "test", "flow.test.yaml", "--replay-http", "rec", "--check", "2w")
	if !strings.Contains(out, "are older than 2w, the oldest is of 2020-01-02") {
		t.Errorf("it says %s", out)
	}
}

// TestRecordingIsRefused: what stays secret in a call itself, although it is only found out later, is not recorded at all.
func TestRecordingIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }))
	defer server.Close()
	r := newRecorderRig(t)
	r.write("stepwell.yaml", "http: {allow_private: true}\n")
	r.write("flow.yaml", fmt.Sprintf("name: flow\nsteps:\n  - {id: a, action: util.http, params: {url: '%[1]s/x/later-known-1'}}\n  - {id: b, action: util.http, depends_on: [a], params: {url: '%[1]s/y', headers: {Authorization: later-known-1}}}\n", server.URL))
	code, out := r.run("", "run", "flow.yaml", "--record-http", "rec")
	if code == 0 || !strings.Contains(out, "nothing was recorded") || !strings.Contains(out, "request.url") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "rec")); err == nil {
		t.Error("something was recorded")
	}
	if out := r.must(2, "run", "flow.yaml", "--replay-http", "nowhere"); !strings.Contains(out, "no recordings") {
		t.Error(out)
	}
}
