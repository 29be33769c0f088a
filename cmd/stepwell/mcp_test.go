package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
)

const mcpTests = "tests:\n  - name: it says so\n    expect: {status: completed, steps: {done: completed}}\n"

// toolCases are all tools: arguments that are right, some that are wrong, and the least role.
func (r *mcpRig) toolCases() []toolCase {
	changed := strings.Replace(mcpPipelines["work"], "number", "count", 1)
	return []toolCase{
		{"list_actions", args{"query": "http"}, args{"cursor": "!"}, access.Viewer, "util.http"},
		{"describe_action", args{"name": "util.log"}, args{"name": "util.lgo"}, access.Viewer, `"message"`},
		{"validate", args{"pipeline": "work"}, args{}, access.Viewer, `"valid":true`},
		{"plan", args{"document": changed}, args{"pipeline": "nowhere"}, access.Viewer, `"say"`},
		{"test", args{"pipeline": "work", "tests": mcpTests}, args{"pipeline": "work", "tests": 7}, access.Viewer, `"passed":1`},
		{"lab", args{"pipeline": "work", "tests": mcpTests, "run": "says"}, args{"pipeline": "work", "tests": mcpTests, "run": "("}, access.Viewer, `"crashes"`},
		{"list_executions", args{"pipeline": "work", "status": []string{"completed"}}, args{"status": []string{"fine"}}, access.Viewer, r.ids["work"]},
		{"show_execution", args{"execution": r.ids["work"], "outputs": true}, args{"execution": "0"}, access.Viewer, `"done"`},
		{"why", args{"execution": r.ids["broken"]}, args{"execution": r.ids["broken"], "step": "none"}, access.Viewer, "reasons"},
		{"why", args{"execution": r.ids["broken"], "what_if": "retry"}, args{"execution": r.ids["broken"], "what_if": "explode"}, access.Viewer, `"later"`},
		{"logs", args{"execution": r.ids["work"], "level": "info"}, args{"execution": r.ids["work"], "level": "loud"}, access.Viewer, "number 1"},
		{"compare", args{"execution": r.ids["work"], "other": r.ids["broken"]}, args{"execution": r.ids["work"]}, access.Viewer, "totals"},
		{"replay", args{"execution": r.ids["work"], "document": changed}, args{"execution": r.ids["work"]}, access.Viewer, `"same"`},
		{"backtest", args{"pipeline": "work", "document": changed}, args{"pipeline": "work", "document": changed, "last": 51}, access.Viewer, `"backtest"`},
		{"start_execution", args{"pipeline": "work", "params": args{"n": 5}}, args{"pipeline": "work", "params": args{"n": "many"}}, access.Operator, "execution_id"},
		{"retry", args{"execution": r.ids["broken"]}, args{"execution": r.ids["broken"], "from": "none"}, access.Operator, "execution_id"},
		{"restart", args{"execution": r.ids["broken"], "step": "bad"}, args{"execution": r.ids["broken"], "step": "none"}, access.Operator, "execution_id"},
		{"cancel", args{"execution": r.execute("slow"), "reason": "enough"}, args{"execution": r.ids["work"]}, access.Operator, "cancel"},
		{"write_pipeline", args{"document": changed, "tests": mcpTests, "note": "other words"}, args{"document": "name: x\nsteps: [{id: a, action: util.exec, params: {command: [\"true\"]}}]"}, access.Editor, `"name":"work"`},
	}
}

type toolCase struct {
	tool      string
	good, bad args
	role      access.Role
	has       string // what a good answer has
}

// TestMCP: each tool, over HTTP and over standard input and output, with each role, with arguments that are right and wrong.
func TestMCP(t *testing.T) {
	t.Parallel()
	r := newMCPRig(t, "mcp: {enabled: true}\n")
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Editor, access.Admin} {
		for name, open := range map[string]func(access.Role) *agent{"http": r.overHTTP, "stdio": r.overStdio} {
			if name == "stdio" && role == access.Editor {
				continue // as an admin
			}
			t.Run(name+" "+role.String(), func(t *testing.T) {
				a := open(role)
				a.t = t
				for _, c := range r.toolCases() {
					c.try(a, role)
				}
			})
		}
	}
	entries, err := r.admin.Audit(t.Context(), api.ListAudit{Limit: 500})
	must(t, err)
	for _, want := range []string{"execution.start", "execution.retry", "execution.restart", "execution.cancel", "pipeline.update"} {
		if !slices.ContainsFunc(entries.Items, func(e api.AuditEntry) bool {
			return e.Action == want && e.Actor == "the admin via mcp testagent" && e.Result == "ok"
		}) {
			t.Errorf("the audit log does not say that an agent asked for %s", want)
		}
	}
}

func (c *toolCase) try(a *agent, role access.Role) {
	a.t.Helper()
	if bad := a.call(c.tool, c.bad); bad.Error == nil {
		a.t.Errorf("%s takes %v: %s", c.tool, c.bad, bad.text)
	}
	if unknown := a.call(c.tool, args{"surely_not": 1}); unknown.code() != stepwell.CodeInvalid {
		a.t.Errorf("%s takes an unknown argument: %s", c.tool, unknown.text)
	}
	if !role.May(c.role) {
		if got := a.call(c.tool, c.good); got.code() != stepwell.CodeForbidden {
			a.t.Errorf("%s is for %s, and a %s gets %s", c.tool, c.role, role, got.text)
		}
		return
	}
	ask := a.must
	if c.role != access.Viewer {
		ask = a.twice
	}
	if got := ask(c.tool, c.good); !strings.Contains(got.text, c.has) {
		a.t.Errorf("%s does not say %s: %s", c.tool, c.has, got.text)
	}
}

// TestMCPDoor: /mcp is there where it is switched on, for those who may call the API, with headers alone.
func TestMCPDoor(t *testing.T) {
	t.Parallel()
	off := newCrashRig(t)
	off.start()
	r := newMCPRig(t, "mcp: {enabled: true}\n")
	ask := func(address string, header map[string]string) int {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+"/mcp", strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for name, v := range header {
			req.Header.Set(name, v)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, res.Body.Close())
		return res.StatusCode
	}
	viewer := "Bearer " + r.tokens[access.Viewer]
	for _, c := range []struct {
		name, address string
		header        map[string]string
		want          int
	}{
		{"off", off.address, nil, 404},
		{"nobody", r.address, nil, 401},
		{"a wrong key", r.address, map[string]string{"Authorization": "Bearer sw_nothing"}, 401},
		{"a worker", r.address, map[string]string{"Authorization": "Bearer " + r.tokens[access.Worker]}, 403},
		{"a viewer", r.address, map[string]string{"Authorization": viewer}, 200},
		{"a page elsewhere", r.address, map[string]string{"Authorization": viewer, "Origin": "https://elsewhere.example"}, 403},
		{"a cookie", r.address, map[string]string{"Cookie": "stepwell_session=" + r.tokens[access.Viewer]}, 401},
	} {
		if got := ask(c.address, c.header); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestMCPTokens: a token counts once, for its caller, and only while what it was given for is as it was.
func TestMCPTokens(t *testing.T) {
	t.Parallel()
	r := newMCPRig(t, "mcp: {enabled: true}\n")
	a, b := r.overHTTP(access.Operator), r.overHTTP(access.Admin)
	start := args{"pipeline": "work", "params": args{"n": 3}}
	refused := func(what string, got *told) {
		t.Helper()
		if got.code() != stepwell.CodeConflict {
			t.Errorf("%s: %s", what, got.text)
		}
	}
	token := func() string { return a.must("start_execution", start).Confirm }

	refused("a made-up token", a.call("start_execution", confirmed(start, "c_AAAAAAAAAAAAAAAAAAAAAA")))
	refused("other arguments", a.call("start_execution", confirmed(args{"pipeline": "work", "params": args{"n": 4}}, token())))
	refused("another pipeline", a.call("start_execution", confirmed(args{"pipeline": "broken"}, token())))
	refused("another tool", a.call("cancel", confirmed(args{"execution": r.ids["slow"]}, token())))
	refused("another caller", b.call("start_execution", confirmed(start, token())))
	one := token()
	if got := a.must("start_execution", confirmed(start, one)); !got.Done {
		t.Errorf("the token does not count: %s", got.text)
	}
	refused("the second time", a.call("start_execution", confirmed(start, one)))

	one = token()
	p, tag, err := r.admin.Pipelines().Get(t.Context(), "work")
	must(t, err)
	_, err = r.admin.Pipelines().Update(t.Context(), p.ID, api.NewPipeline{Document: api.Document(p.Document + "# another version\n")}, tag)
	must(t, err)
	refused("another version", a.call("start_execution", confirmed(start, one)))

	stop := args{"execution": r.ids["slow"]}
	one = a.must("cancel", stop).Confirm
	_, err = r.admin.Pause(t.Context(), r.ids["slow"])
	must(t, err)
	refused("another status", a.call("cancel", confirmed(stop, one)))

	again := args{"execution": r.ids["broken"], "step": "bad"}
	one = a.must("restart", again).Confirm
	_, err = r.admin.Restart(t.Context(), r.ids["broken"], api.RestartRequest{Step: "say"})
	must(t, err)
	if got := a.call("restart", confirmed(again, one)); got.Error == nil {
		// it may have ended in the same way by now: then nothing has changed
		x, err := r.admin.Execution(t.Context(), r.ids["broken"])
		must(t, err)
		t.Logf("restarted from %s", x.Status)
	}

	draft := args{"document": mcpPipelines["slow"] + "# more\n"}
	one = b.must("write_pipeline", draft).Confirm
	p, tag, err = r.admin.Pipelines().Get(t.Context(), "slow")
	must(t, err)
	_, err = r.admin.Pipelines().Update(t.Context(), p.ID, api.NewPipeline{Document: api.Document(p.Document + "# meanwhile\n")}, tag)
	must(t, err)
	refused("a version meanwhile", b.call("write_pipeline", confirmed(draft, one)))
}

// TestMCPPerson: with mcp.confirm: person the agent gets no token; with mcp.actions it may run definitions of these actions alone.
func TestMCPPerson(t *testing.T) {
	t.Parallel()
	r := newMCPRig(t, "mcp: {enabled: true, confirm: person, actions: [\"util.*\"]}\n")
	a := r.overHTTP(access.Editor)
	got := a.must("start_execution", args{"pipeline": "work"})
	if got.Confirm != "" || got.ConfirmBy == "" || strings.Contains(got.text, "c_") {
		t.Errorf("the agent has the token: %s", got.text)
	}
	inline := func(action string) *told {
		return a.call("start_execution", args{"document": "name: x\nsteps: [{id: a, action: " + action + "}]"})
	}
	if got := inline("util.log, params: {message: hello}"); got.Error != nil || !strings.Contains(got.text, "would_run") {
		t.Errorf("util.log: %s", got.text)
	}
	for _, bad := range []string{"util.exec, params: {command: [\"true\"]}", "git.checkout, params: {url: \"https://example.org/x\"}"} {
		if got := inline(bad); got.code() != stepwell.CodeForbidden && got.code() != stepwell.CodeNotFound {
			t.Errorf("%s: %s", bad, got.text)
		}
	}
	none := newMCPRig(t, "mcp: {enabled: true}\n").overHTTP(access.Admin)
	if got := none.call("start_execution", args{"document": mcpPipelines["work"]}); got.code() != stepwell.CodeForbidden {
		t.Errorf("without mcp.actions: %s", got.text)
	}
}

// TestMCPAgent: an agent comes from nothing to a pipeline that is tested, crashed, stored and run, with the tools alone.
func TestMCPAgent(t *testing.T) {
	t.Parallel()
	a := onStdio(t, t.TempDir(), nil, "--data", "d")
	testing, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "stepwell://docs/testing"})
	if err != nil || !strings.Contains(testing.Contents[0].Text, "mock:") {
		t.Fatal("there is no page on tests", err)
	}
	prompt, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "write_pipeline", Arguments: map[string]string{"goal": "fetch the weather"}})
	if err != nil || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "fetch the weather") {
		t.Fatal("the prompt is not the goal's", err)
	}
	if got := a.must("list_actions", args{"query": "http"}); !strings.Contains(got.text, "util.http") {
		t.Fatal(got.text)
	}
	a.must("describe_action", args{"name": "util.http"})
	draft := "name: weather\nparameters: [{name: town, type: string, default: Bern}]\nsteps:\n  - {id: fetch, action: util.htpp, params: {url: \"https://weather.example/{{ params.town }}\"}, retry: {max_attempts: 2, backoff_seconds: 0.1}}\n" +
		"  - {id: tell, action: util.log, depends_on: [fetch], params: {message: \"{{ steps.fetch.outputs.statsu }}\"}}\n"
	if got := a.must("validate", args{"document": draft}); !strings.Contains(got.text, "util.http") || !strings.Contains(got.text, `"valid":false`) {
		t.Fatal("the first mistake is not told: ", got.text)
	}
	draft = strings.Replace(draft, "htpp", "http", 1)
	if got := a.must("validate", args{"document": draft}); !strings.Contains(got.text, "statsu") {
		t.Fatal("the second mistake is not told: ", got.text)
	}
	draft = strings.Replace(draft, "statsu", "status", 1)
	if got := a.must("validate", args{"document": draft}); !strings.Contains(got.text, `"lint":[]`) {
		t.Fatal(got.text)
	}
	tests := "tests:\n  - name: the weather is told\n    expect: {status: completed}\n"
	if got := a.must("test", args{"document": draft, "tests": tests}); !strings.Contains(got.text, "has no mock") {
		t.Fatal("a step without a mock: ", got.text)
	}
	tests = "mock: {fetch: [{fail: away}, {outputs: {status: 200}}]}\n" + tests
	if got := a.must("test", args{"document": draft, "tests": tests}); !strings.Contains(got.text, `"failed":0,"passed":1`) {
		t.Fatal(got.text)
	}
	a.must("lab", args{"document": draft, "tests": tests})
	a.twice("write_pipeline", args{"document": draft, "tests": tests})
	if got := a.must("write_pipeline", args{"document": draft + "# 2\n", "tests": strings.Replace(tests, "completed", "failed", 1)}); got.Refused == "" || got.Confirm != "" {
		t.Fatal("tests that fail are no reason: ", got.text)
	}
	started := a.twice("start_execution", args{"pipeline": "weather", "params": args{"town": "x"}})
	id, _ := started.Data["execution_id"].(string)
	deadline := time.Now().Add(time.Minute)
	for status := ""; status != "failed"; { // there is no such host
		x, _ := a.must("show_execution", args{"execution": id}).Data["execution"].(map[string]any)
		if status, _ = x["status"].(string); time.Now().After(deadline) {
			t.Fatal("it is still", status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := a.must("why", args{"execution": id}); !strings.Contains(got.text, "fetch") {
		t.Fatal(got.text)
	}
	log, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "stepwell://executions/" + id + "/logs/fetch"})
	if err != nil || !json.Valid([]byte(log.Contents[0].Text)) || log.Contents[0].Meta["untrusted"] != true {
		t.Fatal("the log cannot be read", err)
	}
}
