package app_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/action/service/daprtest"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// credentialsDocument reads a secret by its name, and one that a parameter names.
const credentialsDocument = `
name: credentials
parameters: [{name: model, type: credential_ref}]
steps:
  - id: use
    action: desk.use
    retry: {max_attempts: 3, backoff_seconds: 0, jitter: 0}
    params: {token: "{{ secrets.TOKEN }}", key: "Bearer {{ credentials.model }}", id: "{{ params.model }}"}
  - {id: again, depends_on: [use], action: desk.use, params: {token: "{{ steps.use.outputs.said }}"}}
`

// desk answers with what it was given: nothing of it may be seen afterwards.
func credentialDesk(seen *[]string) *platform {
	return &platform{answers: map[string]func(*action.Call) (any, error){"desk.use": func(call *action.Call) (any, error) {
		raw, err := json.Marshal(call.Params)
		*seen = append(*seen, string(raw))
		call.Log("it was given " + string(raw))
		return object{"said": "for you: " + fmt.Sprint(call.Params["token"], call.Params["key"])}, err
	}}}
}

// noneOf checks that no value is recorded anywhere.
func noneOf(t *testing.T, a *app.App, x *store.Execution, steps map[string]store.Step, values ...string) {
	t.Helper()
	var all strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&all, "%s %s %+v\n", s.Output, s.Input, s.Error)
	}
	lines, err := a.Store.Logs(t.Context(), x.No, store.LogFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		fmt.Fprintln(&all, l.Message, string(l.Attrs))
	}
	fmt.Fprintln(&all, string(x.Outputs), x.Failure, a.Secrets.Text("", strings.Join(values, " ")))
	for _, v := range values {
		if strings.Contains(all.String(), v) {
			t.Errorf("%s is in\n%s", v, all.String())
		}
	}
}

// Secrets that the vault does not have come from the services that the settings name, when a step reads them; a failure of the
// service is retried as the step says, and told by the name of the source.
func TestSecretsOfServices(t *testing.T) {
	var asked, fails atomic.Int64
	fails.Store(1)
	budapp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		value := map[string]string{"/api/v1/credentials/pipelines-TOKEN": "tok-very-secret", "/api/v1/credentials/pipelines-hf-1": "hf-very-secret"}[r.URL.Path]
		switch {
		case fails.Add(-1) >= 0:
			http.Error(w, "tok-very-secret is not for you", http.StatusServiceUnavailable)
		case value == "":
			http.NotFound(w, r)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"token": value}})
		}
	}))
	defer budapp.Close()
	var seen []string
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: credentialDesk(&seen).register, Services: service.Options{Apps: map[string]string{"budapp": budapp.URL}},
		SecretSources: []service.SecretSource{{Service: "budapp", Prefix: "pipelines-", Value: "data.token"}}})
	run := func(params object) (*store.Execution, map[string]store.Step) {
		id, _ := begin(t, a, credentialsDocument, params)
		return ended(t, a, id)
	}
	x, steps := run(object{"model": "hf-1"})
	want := []string{`{"id":"hf-1","key":"Bearer hf-very-secret","token":"tok-very-secret"}`, `{"token":"for you: tok-very-secret Bearer hf-very-secret"}`}
	if x.Status != stepwell.ExecutionCompleted || steps["use"].Attempt != 2 {
		t.Fatalf("the execution is %s after %d attempts: %+v", x.Status, steps["use"].Attempt, steps["use"].Error)
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "secret Bearer", "secretBearer")
	}
	diff(t, "the steps were given", want, seen)
	noneOf(t, a, x, steps, "tok-very-secret", "hf-very-secret")
	if asked.Load() != 3 { // once in vain, then once for each
		t.Errorf("the service was asked %d times", asked.Load())
	}
	run(object{"model": "hf-1"})
	if asked.Load() != 3 {
		t.Errorf("the service was asked %d times: values are kept for a minute", asked.Load())
	}
	x, steps = run(object{"model": "nobodys"})
	if failure := steps["use"].Error; failure == nil || steps["use"].Attempt != 1 || !strings.Contains(failure.Message, `no secret "nobodys" in the vault or in budapp`) {
		t.Errorf("a credential that is not there: %s, %+v", x.Status, failure)
	}
	fails.Store(100)
	x, steps = run(object{"model": "hf-2"})
	if failure := steps["use"].Error; failure == nil || failure.Code != stepwell.CodeFailed || steps["use"].Attempt != 3 || !strings.Contains(failure.Message, "the source budapp") {
		t.Errorf("a service that is unavailable: %s after %d attempts, %+v", x.Status, steps["use"].Attempt, failure)
	}
	noneOf(t, a, x, steps, "tok-very-secret", "hf-very-secret")
}

// A parameter of type credential_ref names a credential of the sources, never a secret of the vault; parameters of other types are
// not resolved.
func TestCredentialsAreOfSources(t *testing.T) {
	var seen []string
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: credentialDesk(&seen).register})
	for name, value := range map[string]string{"TOKEN": "tok-very-secret", "OTHER": "other-very-secret"} {
		if _, err := a.Secrets.Vault.Set(t.Context(), name, value, 0, "tester"); err != nil {
			t.Fatal(err)
		}
	}
	id, _ := begin(t, a, credentialsDocument, object{"model": "OTHER"})
	x, steps := ended(t, a, id)
	if failure := steps["use"].Error; len(seen) != 0 || failure == nil || failure.Code != stepwell.CodeDenied || !strings.Contains(failure.Hint, "secrets.sources") {
		t.Errorf("the execution is %s: %+v, given %v", x.Status, steps["use"].Error, seen)
	}
	for doc, want := range map[string]string{
		`{name: x, parameters: [{name: model, type: model_ref}], steps: [{id: a, action: util.log, params: {message: "{{ credentials.model }}"}}]}`:                             `"model" is not a parameter of type credential_ref`,
		`{name: x, parameters: [{name: model, type: credential_ref}], steps: [{id: a, action: util.log, params: {message: "{{ credentials.modle }}"}}]}`:                        "did you mean model?",
		`{name: x, parameters: [{name: model, type: credential_ref}], steps: [{id: a, action: util.log, params: {message: "{{ credentials[params.model] }}"}}]}`:                "has to be named",
		`{name: x, parameters: [{name: model, type: credential_ref}], steps: [{id: a, action: util.log, condition: "{{ credentials.model == 'x' }}", params: {message: "y"}}]}`: "credentials cannot be read here",
	} {
		d, problems := definition.Parse([]byte(doc), definition.ParseOptions{})
		if problems = append(problems, definition.Check(d, a.Actions, "")...); problems.Err() == nil || !strings.Contains(problems.Err().Error(), want) {
			t.Errorf("%s: %v, want %s", doc, problems.Err(), want)
		}
	}
}

// Bad sources are refused when the server starts.
func TestBadSecretSources(t *testing.T) {
	for name, s := range map[string]service.SecretSource{
		"neither": {}, "both": {Service: "budapp", Dapr: "store"}, "no place": {Service: "budmodel"}, "no sidecar": {Dapr: "store"}, "no name": {Service: "budapp", Path: "/all"}, "store": {Dapr: "a/b"},
	} {
		_, err := app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "db"), Log: slog.New(slog.DiscardHandler), SecretSources: []service.SecretSource{s}, Services: service.Options{Apps: map[string]string{"budapp": "http://127.0.0.1:1"}}})
		if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(fmt.Sprint(err), "secrets.sources[0]") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A secret store of Dapr is a source: its own sidecar reads a file.
func TestSecretsOfDapr(t *testing.T) {
	n := daprtest.NewNetwork(t)
	file := filepath.Join(t.TempDir(), "secrets.json")
	if err := os.WriteFile(file, []byte(`{"stepwell.TOKEN": "tok-very-secret", "stepwell.hf-1": "hf-very-secret", "stepwell.hf-3": "hf-very-secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n.AddComponent("files", "secretstores.local.file", map[string]string{"secretsFile": file})
	sidecar := n.Start("stepwell", 0)
	var seen []string
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: credentialDesk(&seen).register, Services: service.Options{DaprPort: sidecar.Port},
		SecretSources: []service.SecretSource{{Dapr: "files", Prefix: "stepwell."}}})
	run := func(model string) (*store.Execution, map[string]store.Step) {
		id, _ := begin(t, a, credentialsDocument, object{"model": model})
		return ended(t, a, id)
	}
	x, steps := run("hf-1")
	if x.Status != stepwell.ExecutionCompleted || len(seen) != 2 || seen[0] != `{"id":"hf-1","key":"Bearer hf-very-secret","token":"tok-very-secret"}` {
		t.Fatalf("the execution is %s: %+v, given %v", x.Status, steps["use"].Error, seen)
	}
	noneOf(t, a, x, steps, "tok-very-secret", "hf-very-secret")
	_, steps = run("nobodys")
	if failure := steps["use"].Error; failure == nil || failure.Code != stepwell.CodeNotFound || steps["use"].Attempt != 1 {
		t.Errorf("a secret that is not there: %+v", failure)
	}
	sidecar.Stop()
	_, steps = run("hf-2")
	if failure := steps["use"].Error; failure == nil || failure.Code != stepwell.CodeFailed || steps["use"].Attempt != 3 || !strings.Contains(failure.Message, "the source dapr files") {
		t.Errorf("without the sidecar: %d attempts, %+v", steps["use"].Attempt, failure)
	}
	sidecar.Restart()
	if x, steps = run("hf-3"); x.Status != stepwell.ExecutionCompleted {
		t.Errorf("with the next sidecar: %s: %+v", x.Status, steps["use"].Error)
	}
}

// TestSecretsOfDaprNeedItsToken: with another token than the sidecar's nothing is read, and the failure says why.
func TestSecretsOfDaprNeedItsToken(t *testing.T) {
	t.Setenv("DAPR_API_TOKEN", "of-the-sidecar")
	n := daprtest.NewNetwork(t)
	file := filepath.Join(t.TempDir(), "secrets.json")
	if err := os.WriteFile(file, []byte(`{"TOKEN": "tok-very-secret", "hf-1": "hf-very-secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	n.AddComponent("files", "secretstores.local.file", map[string]string{"secretsFile": file})
	sidecar := n.Start("stepwell", 0)
	for token, want := range map[string]stepwell.ExecutionStatus{"another": stepwell.ExecutionFailed, "of-the-sidecar": stepwell.ExecutionCompleted} {
		var seen []string
		a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: credentialDesk(&seen).register, Services: service.Options{DaprPort: sidecar.Port, DaprToken: token},
			SecretSources: []service.SecretSource{{Dapr: "files"}}})
		id, _ := begin(t, a, credentialsDocument, object{"model": "hf-1"})
		x, steps := ended(t, a, id)
		if failure := steps["use"].Error; x.Status != want || want == stepwell.ExecutionFailed && (len(seen) > 0 || failure == nil || !strings.Contains(failure.Hint, "DAPR_API_TOKEN")) {
			t.Errorf("with the token %q: %s: %+v", token, x.Status, failure)
		}
	}
}
