package app_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/app"
)

// asking is a line for the shell that sends a request without a key to the server, from this machine, and shows the answer.
func (r *serverRig) asking(method, path, body string) string {
	r.t.Helper()
	host, port, err := net.SplitHostPort(r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/%s/%s && printf "%%s\r\n" "%s %s HTTP/1.0" "Host: localhost" "Content-Type: application/json" "Content-Length: %d" "" >&3 && printf %%s "%s" >&3 && cat <&3'`,
		host, port, method, path, len(body), strings.ReplaceAll(body, `"`, `\"`))
}

// TestKeyless: a confined command is nobody to the server that runs it, however it is confined. Where everybody at this
// machine is an admin, a command that is to be confined does not run.
func TestKeyless(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the requests are made by bash")
	}
	for _, way := range []string{"landlock", "folders", "user"} {
		t.Run(way, func(t *testing.T) {
			o := app.Options{Data: filepath.Join(t.TempDir(), "data")}
			switch way {
			case "user":
				o.Exec.User = "nobody"
			case "folders":
				o.Exec.Folders = []string{"."}
			}
			if _, err := o.Sandbox(); err != nil {
				t.Skipf("refused here: %v", err)
			}
			s := serveClosed(t, func(so *app.ServerOptions) { so.Exec = o.Exec })
			for _, request := range [][3]string{
				{"GET", "/api/v1/me", ""},
				{"POST", "/api/v1/keys", `{"name": "mine", "role": "admin"}`},
				{"POST", "/api/v1/execute", `{"action_type": "util.noop"}`},
				{"PUT", "/api/v1/policy", `{}`},
			} {
				status, seen := s.exec(s.asking(request[0], request[1], request[2]))
				if status != "completed" || !strings.Contains(seen, "401 Unauthorized") || !strings.Contains(seen, "unauthenticated") {
					t.Errorf("%s %s: %s %s", request[0], request[1], status, seen)
				}
			}
			if _, out := s.as("admin", "GET", "/keys", nil); strings.Contains(fmt.Sprint(out), "mine") {
				t.Error("a command has made a key")
			}
		})
	}
	t.Run("open", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if _, err := (&app.Options{}).Sandbox(); err != nil {
			t.Skipf("refused here: %v", err)
		}
		s := serve(t, "", newGate(), func(so *app.ServerOptions) { so.Exec.Folders = []string{"."} })
		line := s.asking("POST", "/api/v1/keys", `{"name": "mine", "role": "admin"}`) + " > out; touch ran"
		code, out := s.send("POST", "/api/v1/execute", fmt.Sprintf(`{"action_type": "util.exec", "params": {"command": %q}}`, line), nil)
		if code > 299 {
			t.Fatal(code, out)
		}
		id := fmt.Sprint(out["execution_id"])
		s.until("the end", func() bool {
			_, out = s.send("GET", "/api/v1/executions/"+id, "", nil)
			return out["completed_at"] != nil
		})
		if seen := fmt.Sprint(out); out["status"] != "failed" || !strings.Contains(seen, "denied") || !strings.Contains(seen, "stepwell keys create") {
			t.Errorf("%v", out)
		}
		if _, err := os.Stat("ran"); err == nil {
			t.Error("the command has run")
		}
		if code, out := s.send("GET", "/api/v1/me", "", nil); code != 200 || out["role"] != "admin" {
			t.Errorf("people at this machine: %d %v", code, out)
		}
		s.Drain()
		s.ended()
	})
}
