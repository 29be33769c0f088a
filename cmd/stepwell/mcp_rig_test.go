package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// mcpRig is a server with /mcp, keys of each role, and pipelines with executions.
type mcpRig struct {
	*crashRig
	tokens map[access.Role]string
	admin  *client.Client
	ids    map[string]string // executions that have ended, by pipeline; "slow" goes on
}

// mcpPipelines are what agents ask about.
var mcpPipelines = map[string]string{
	"work":   "name: work\nparameters: [{name: n, type: integer, default: 1}]\nsteps:\n  - {id: say, action: util.log, params: {message: \"number {{ params.n }}\"}}\n  - {id: done, action: util.set_output, depends_on: [say], params: {n: \"{{ params.n }}\"}}\n",
	"broken": "name: broken\nsteps:\n  - {id: say, action: util.log, params: {message: hello}}\n  - {id: bad, action: util.fail, depends_on: [say], params: {message: it is broken}}\n",
	"slow":   "name: slow\nsteps:\n  - {id: wait, action: util.wait, params: {seconds: 3600}}\n",
}

func newMCPRig(t *testing.T, settings string) *mcpRig {
	t.Helper()
	r := &mcpRig{crashRig: newCrashRig(t), tokens: map[access.Role]string{}, ids: map[string]string{}}
	r.set(settings)
	r.start()
	for _, role := range []access.Role{access.Admin, access.Viewer, access.Operator, access.Editor, access.Worker} {
		made, err := r.client.Keys().Create(t.Context(), api.NewKey{Name: "the " + role.String(), Role: role})
		must(t, err)
		r.tokens[role] = made.Token
		if role == access.Admin {
			r.client, err = client.New(client.Options{URL: "http://" + r.address, Token: made.Token})
			must(t, err)
		}
	}
	r.admin = r.client
	for name, text := range mcpPipelines {
		_, err := r.admin.Pipelines().Create(t.Context(), api.NewPipeline{Document: api.Document(text)})
		must(t, err)
		r.ids[name] = r.execute(name)
	}
	return r
}

// execute starts a pipeline and waits for its end, if that is near.
func (r *mcpRig) execute(name string) string {
	r.t.Helper()
	x, err := r.admin.Execute(r.t.Context(), api.ExecuteRequest{Workflow: name}, "")
	must(r.t, err)
	if name != "slow" {
		_, err = r.admin.Wait(r.t.Context(), x.ID)
		must(r.t, err)
	}
	return x.ID
}

// agent is a client of the protocol.
type agent struct {
	t *testing.T
	*mcp.ClientSession
}

// overHTTP connects to /mcp with a key.
func (r *mcpRig) overHTTP(role access.Role) *agent {
	r.t.Helper()
	return connect(r.t, &mcp.StreamableClientTransport{Endpoint: "http://" + r.address + "/mcp", HTTPClient: &http.Client{Transport: bearer(r.tokens[role])}, MaxRetries: -1, DisableStandaloneSSE: true})
}

// overStdio connects to `stepwell mcp`, which asks the server with a key.
func (r *mcpRig) overStdio(role access.Role) *agent {
	r.t.Helper()
	return onStdio(r.t, r.t.TempDir(), []string{"STEPWELL_API_KEY=" + r.tokens[role]}, "--server", "http://"+r.address)
}

// onStdio connects to `stepwell mcp` in a folder.
func onStdio(t *testing.T, dir string, env []string, args ...string) *agent {
	t.Helper()
	cmd := exec.Command("stepwell", append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	return connect(t, &mcp.CommandTransport{Command: cmd})
}

func connect(t *testing.T, transport mcp.Transport) *agent {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "testagent", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() }) // the process may have ended
	return &agent{t, session}
}

type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

type args = map[string]any

// told is an answer of a tool.
type told struct {
	Untrusted bool           `json:"untrusted"`
	Data      map[string]any `json:"data"`
	Next      string         `json:"next_cursor"`
	Done      bool           `json:"done"`
	Confirm   string         `json:"confirm"`
	ConfirmBy string         `json:"confirm_by"`
	Refused   string         `json:"refused"`
	Error     *struct {
		Code    stepwell.Code `json:"code"`
		Message string        `json:"message"`
		Hint    string        `json:"hint"`
	} `json:"error"`
	text string
}

// code is that of the error, "" for none.
func (a *told) code() stepwell.Code {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}

// call calls a tool. Each answer is marked, and bounded.
func (a *agent) call(tool string, with args) *told {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	got, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: with})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	out := &told{text: got.Content[0].(*mcp.TextContent).Text}
	must(a.t, json.Unmarshal([]byte(out.text), out))
	structured, err := json.Marshal(got.StructuredContent)
	must(a.t, err)
	if !out.Untrusted || got.IsError != (out.Error != nil) || len(out.text) > 64<<10 || len(structured) > 70<<10 {
		a.t.Fatalf("%s is not marked, or has %d bytes: %.300s", tool, len(out.text), out.text)
	}
	return out
}

// must calls a tool, which must not fail.
func (a *agent) must(tool string, with args) *told {
	a.t.Helper()
	out := a.call(tool, with)
	if out.Error != nil {
		a.t.Fatalf("%s: %s", tool, out.text)
	}
	return out
}

// twice does what a tool does: it asks, and then confirms.
func (a *agent) twice(tool string, with args) *told {
	a.t.Helper()
	first := a.must(tool, with)
	if first.Done || first.Confirm == "" {
		a.t.Fatalf("%s has given no token: %s", tool, first.text)
	}
	return a.must(tool, confirmed(with, first.Confirm))
}

func confirmed(with args, token string) args {
	out := args{"confirm": token}
	for name, v := range with {
		out[name] = v
	}
	return out
}
