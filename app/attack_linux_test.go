package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/sandbox/sandboxtest"
)

// closedServer is a server in a working directory of its own, with a key for each role.
type closedServer struct {
	*serverRig
	dir  string
	keys map[string]string
}

func serveClosed(t *testing.T, change func(*app.ServerOptions)) *closedServer {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // other users come this far
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	s := &closedServer{dir: dir, keys: map[string]string{}}
	s.serverRig = serve(t, "", newGate(), func(o *app.ServerOptions) {
		o.Private = []string{"stepwell.yaml"}
		if change != nil {
			change(o)
		}
	})
	t.Cleanup(func() { s.Drain(); s.ended() })
	for _, role := range []string{"admin", "editor", "operator", "viewer"} {
		header := http.Header{}
		if key := s.keys["admin"]; key != "" { // the first one is made without one
			header.Set("Authorization", "Bearer "+key)
		}
		code, out := s.send("POST", "/api/v1/keys", fmt.Sprintf(`{"name": %q, "role": %[1]q}`, role), header)
		token, _ := out["token"].(string)
		if code > 299 || token == "" {
			t.Fatal(code, out)
		}
		s.keys[role] = token
	}
	return s
}

// as asks the API with the key of a role.
func (s *closedServer) as(role, method, path string, body any) (int, map[string]any) {
	s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(method, "/api/v1"+path, string(raw), http.Header{"Authorization": {"Bearer " + s.keys[role]}})
}

// exec runs a line for the shell as an editor, and gives everything that can be seen of it.
func (s *closedServer) exec(line string) (status, seen string) {
	s.t.Helper()
	return s.run("editor", map[string]any{"action_type": "util.exec", "params": map[string]any{"command": line}})
}

// run starts something and waits for its end.
func (s *closedServer) run(role string, request map[string]any) (status, seen string) {
	s.t.Helper()
	code, out := s.as(role, "POST", "/execute", request)
	if code > 299 {
		return fmt.Sprint(code), fmt.Sprint(out)
	}
	return s.result(fmt.Sprint(out["execution_id"]))
}

// result waits for the end of an execution.
func (s *closedServer) result(id string) (status, seen string) {
	s.t.Helper()
	var x map[string]any
	s.until("the end of "+id, func() bool {
		_, x = s.as("viewer", "GET", "/executions/"+id+"?wait_seconds=20", nil)
		return x["completed_at"] != nil
	})
	_, steps := s.as("viewer", "GET", "/executions/"+id+"/steps?outputs=true", nil)
	_, logs := s.as("viewer", "GET", "/executions/"+id+"/logs", nil)
	return fmt.Sprint(x["status"]), fmt.Sprint(x, steps, logs)
}

// readsMedia: a command of a lesson's run reads the lesson's file, wherever its params name it, and cannot change it.
func (s *closedServer) readsMedia() {
	s.t.Helper()
	if err := os.WriteFile("free/sound & vision.mp3", []byte("sound"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	document := `name: reads
settings: {sequential: true}
steps:
  - id: read
    action: util.exec
    source: media
    params:
      env: {FILE: "{{ source.path }}"}
      input: "{{ source.path }}"
      command: |
        cat '{{ source.path }}' "$FILE" "$(tr -d '"' | sed 's/.u0026/\&/')"
        chmod u+w "$FILE"; echo x >> "$FILE"; rm -f "$FILE"
        echo kept > "$TMPDIR/kept" && cp "$TMPDIR/kept" "$STEPWELL_OUTPUT.txt" && cat "$STEPWELL_OUTPUT.txt"
`
	version := ""
	for _, q := range []struct {
		path string
		body map[string]any
	}{
		{"/projects", map[string]any{"id": "course"}}, {"/lessons", map[string]any{"id": "one", "project_id": "course"}},
		{"/lessons/one/media", map[string]any{"path": filepath.Join(s.dir, "free/sound & vision.mp3")}}, {"/pipelines", map[string]any{"document": document}},
	} {
		code, out := s.as("admin", "POST", q.path, q.body)
		if code > 299 {
			s.t.Fatal(q.path, code, out)
		}
		version = fmt.Sprint(out["pipeline_id"], ":1")
	}
	for range 2 { // the second finds what the first has left of the file
		code, out := s.as("editor", "POST", "/pipeline-runs", map[string]any{"lesson_id": "one", "pipeline_version_id": version})
		if code > 299 {
			s.t.Fatal(code, out)
		}
		run, _ := out["data"].(map[string]any)
		if status, seen := s.result(fmt.Sprint(run["id"])); status != "completed" || !strings.Contains(seen, "soundsoundsoundkept") {
			s.t.Errorf("a command that reads the lesson's file: %s %s", status, seen)
		}
	}
}

// TestCommandsAreConfined: what an editor lets a command do reaches neither the key of secrets nor the database, in any
// way that there is here to confine it; each is named in the log.
func TestCommandsAreConfined(t *testing.T) {
	for _, way := range []string{"landlock", "user"} {
		t.Run(way, func(t *testing.T) {
			o := app.Options{Data: filepath.Join(t.TempDir(), "data")}
			if way == "user" {
				o.Exec.User = "nobody"
			}
			if _, err := o.Sandbox(); err != nil {
				t.Logf("%s: refused here: %v", way, err)
				return
			}
			s := serveClosed(t, func(so *app.ServerOptions) { so.Exec = o.Exec })
			if err := os.Mkdir("free", 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod("free", 0o777); err != nil {
				t.Fatal(err)
			}
			if code, out := s.as("admin", "PUT", "/secrets/token", map[string]any{"value": "correct-horse"}); code > 299 {
				t.Fatal(code, out)
			}
			raw, err := os.ReadFile(".stepwell/stepwell.db.key")
			if err != nil {
				t.Fatal(err)
			}
			key := strings.TrimSpace(string(raw))
			if status, seen := s.exec(`echo found > free/x; cat free/x; id -un; pwd`); status != "completed" || !strings.Contains(seen, "found") {
				t.Fatalf("a command does not work: %s %s", status, seen)
			}
			for name, line := range map[string]string{
				"the key":            `cat .stepwell/stepwell.db.key`,
				"the database":       `cat .stepwell/stepwell.db | head -c 16`,
				"a link":             `ln -s $PWD/.stepwell/stepwell.db.key free/l; cat free/l`,
				"a hard link":        `ln .stepwell/stepwell.db.key free/h; cat free/h`,
				"as its output":      `rm "$STEPWELL_OUTPUT"; ln -s $PWD/.stepwell/stepwell.db.key "$STEPWELL_OUTPUT"`,
				"as its output, too": `rm "$STEPWELL_OUTPUT"; ln .stepwell/stepwell.db.key "$STEPWELL_OUTPUT"`,
				"the environment":    fmt.Sprintf(`grep -q PATH= /proc/%d/environ && printf 'reac%%s' hed`, os.Getpid()),
				"the threads":        fmt.Sprintf(`for t in /proc/%d/task/*; do grep -q PATH= $t/environ && printf 'reac%%s' hed; done`, os.Getpid()),
				"the descriptors":    fmt.Sprintf(`ls /proc/%d/fd/3 && printf 'reac%%s' hed`, os.Getpid()),
			} {
				if _, seen := s.exec(line); strings.Contains(seen, key) || strings.Contains(seen, "SQLite format") || strings.Contains(seen, "reached") {
					t.Errorf("%s was read: %s", name, seen)
				}
			}
			s.readsMedia()
			t.Setenv("SERVER_PASSWORD", "battery-staple")
			request := map[string]any{"action_type": "util.exec", "params": map[string]any{"command": "env", "pass_env": []any{"SERVER_PASSWORD"}}}
			if status, seen := s.run("editor", request); status != "failed" || strings.Contains(seen, "battery-staple") || !strings.Contains(seen, "denied") || !strings.Contains(seen, "exec.pass_env") {
				t.Errorf("a variable of the server: %s %s", status, seen)
			}
		})
	}
}

// TestCommandsAreRefused: where commands cannot be confined and there are keys, they are refused with the reason and what
// to do. Without keys they run.
func TestCommandsAreRefused(t *testing.T) {
	if os.Getenv("STEPWELL_TEST_REFUSED") == "" {
		var out bytes.Buffer
		cmd := exec.Command(os.Args[0], "-test.run=^TestCommandsAreRefused$", "-test.v")
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "STEPWELL_TEST_REFUSED=1"), &out, &out
		if err := sandboxtest.Start(cmd); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		t.Logf("neither: %s", out.String())
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Chdir(t.TempDir())
	open := serve(t, "", newGate(), nil)
	out := open.post("/execute", `{"action_type": "util.exec", "params": {"command": "echo free > out"}}`)
	open.settled(fmt.Sprint(out["execution_id"]))
	if _, err := os.Stat("out"); err != nil {
		t.Errorf("without keys, a command may do what the server may: %v", err)
	}
	open.post("/pipelines", `{"document": {"name": "plain", "steps": [{"id": "a", "action": "util.noop"}]}}`)
	open.post("/pipelines", `{"document": {"name": "copies", "steps": [{"id": "a", "action": "util.exec", "params": {"command": "id"}}]}}`)
	made := open.post("/keys", `{"name": "chief", "role": "admin"}`)
	refused, _ := made["refused"].([]any)
	if text := fmt.Sprint(refused); len(refused) != 1 || !strings.Contains(text, "name:copies") || !strings.Contains(text, "step_id:a") || !strings.Contains(text, "this kernel has no Landlock") || !strings.Contains(text, "exec: {user: NAME}") {
		t.Errorf("with the first key: %v", made)
	}
	open.Drain()
	open.ended()

	s := serveClosed(t, nil)
	status, seen := s.exec("echo ran > out")
	if status != "failed" || !strings.Contains(seen, "denied") || !strings.Contains(seen, "this kernel has no Landlock") || !strings.Contains(seen, "exec.user") {
		t.Errorf("%s %s", status, seen)
	}
	if _, err := os.Stat("out"); err == nil {
		t.Error("the command has run")
	}
}

// TestFilesAreFenced: on a server with keys, no action reads or writes a file of the server, or outside of the folders
// that it may touch; what is in them works.
func TestFilesAreFenced(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.csv")
	if err := os.WriteFile(outside, []byte("a\nsesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveClosed(t, nil)
	if code, out := s.as("admin", "PUT", "/secrets/token", map[string]any{"value": "correct-horse"}); code > 299 {
		t.Fatal(code, out)
	}
	raw, err := os.ReadFile(".stepwell/stepwell.db.key")
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(raw))
	for name, target := range map[string]string{"link": ".stepwell", "link.csv": outside} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("in.csv", []byte("a\n1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flow := func(from, to, format string) map[string]any {
		return map[string]any{"workflow_definition": map[string]any{"name": "flow", "steps": []any{
			map[string]any{"id": "r", "module": "stream.read", "config": map[string]any{"path": from, "format": "csv"}},
			map[string]any{"id": "w", "module": "stream.write", "depends_on": []any{"r"}, "config": map[string]any{"path": to, "format": format}}}}}
	}
	for _, format := range []string{"ndjson", "csv", "json", "parquet"} {
		if status, seen := s.run("editor", flow("in.csv", "out."+format, format)); status != "completed" {
			t.Errorf("%s: %s %s", format, status, seen)
		}
	}
	for name, request := range map[string]map[string]any{
		"the key":             flow(".stepwell/stepwell.db.key", "x.ndjson", "ndjson"),
		"the key by a link":   flow("link/stepwell.db.key", "x.ndjson", "ndjson"),
		"the key by a glob":   flow("[.]stepwell/*.key", "x.ndjson", "ndjson"),
		"a file outside":      flow(outside, "x.ndjson", "ndjson"),
		"a link outside":      flow("link.csv", "x.ndjson", "ndjson"),
		"writing to the data": flow("in.csv", ".stepwell/x.ndjson", "ndjson"),
		"writing settings":    flow("in.csv", "stepwell.yaml", "ndjson"),
		"writing outside":     flow("in.csv", filepath.Dir(outside)+"/x.ndjson", "ndjson"),
		"scanning":            {"action_type": "media.scan", "params": map[string]any{"path": filepath.Dir(outside)}},
		"copying":             {"action_type": "media.copy", "params": map[string]any{"source": ".stepwell", "destination": "copy"}},
		"sending":             {"action_type": "util.http", "params": map[string]any{"url": "http://127.0.0.1:1/", "method": "POST", "file": ".stepwell/stepwell.db.key"}},
	} {
		status, seen := s.run("editor", request)
		if status != "failed" || strings.Contains(seen, key) || strings.Contains(seen, "sesame") {
			t.Errorf("%s: %s %s", name, status, seen)
		}
		if !strings.Contains(seen, "belongs to the server") && !strings.Contains(seen, "steps may touch files in") && name != "the key by a glob" {
			t.Errorf("%s failed for another reason: %s", name, seen)
		}
		if raw, err := os.ReadFile("x.ndjson"); err == nil && len(raw) > 0 {
			t.Errorf("%s gave %q", name, raw)
		}
		if err := os.RemoveAll("failures.json"); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{".stepwell/x.ndjson", "stepwell.yaml", filepath.Dir(outside) + "/x.ndjson", "copy"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}
