package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/stream"
)

// The secrets of these tests: one of the vault and one parameter, with everything in them that encodings treat
// differently.
const (
	vaulted = `Vv7+/"q\k &<é>=ss!wordZZ`
	handed  = `Hh9-given%parameter~Yy`
)

// seen are the values that steps of t.see were given, by step.
type seen struct {
	mu     sync.Mutex
	values map[string]any
}

func (s *seen) register(r *action.Registry) error {
	see := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.values[call.StepKey] = call.Params["value"]
		call.Host.Progress(0.5, fmt.Sprint("at ", call.Params["value"]))
		call.Log("seen", slog.Any("value", call.Params["value"]))
		return map[string]any{"value": call.Params["value"]}, nil
	})
	fail := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("no: %v", call.Params["value"]), Hint: fmt.Sprintf("not %q", call.Params["value"])})
	})
	wait := action.HandlerFunc(func(ctx context.Context, call *action.Call) (any, error) {
		if call.State == nil {
			if _, err := action.Once(ctx, call, "k", func(context.Context) (any, error) { return call.Params["value"], nil }); err != nil {
				return nil, err
			}
			state, err := json.Marshal(call.Params["value"])
			if err != nil {
				return nil, err
			}
			return nil, &action.WaitError{Until: time.Now().Add(time.Millisecond), Resume: true, State: state, ExternalID: fmt.Sprint(call.Params["value"])}
		}
		memo, err := action.Once(ctx, call, "k", func(context.Context) (any, error) { return nil, errors.New("the memo is gone") })
		if err != nil {
			return nil, err
		}
		return map[string]any{"state": call.State, "memo": memo}, nil
	})
	spawn := action.HandlerFunc(func(ctx context.Context, call *action.Call) (any, error) {
		return nil, call.Spawn(ctx, action.NewStep{Name: "t.see", Key: "spawned", Params: map[string]any{"value": call.Params["value"]}})
	})
	skip := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		return nil, action.Skip(fmt.Sprint("skipped for ", call.Params["value"]))
	})
	value := []spec.Field{{Name: "value", Type: spec.Any, Doc: "Anything."}}
	for name, h := range map[string]action.Handler{"t.see": see, "t.fail": fail, "t.wait": wait, "t.spawn": spawn, "t.skip": skip} {
		sp := spec.Spec{Name: name, Summary: "For tests.", Params: value}
		if name == "t.spawn" {
			sp.Spawns = []string{"t.see"}
		}
		if err := r.Add(action.Action{Spec: sp, Handler: h}); err != nil {
			return err
		}
	}
	return nil
}

// forms are what must not be found.
func forms(values ...string) map[string]string {
	out := map[string]string{}
	for _, v := range values {
		quoted, _ := json.Marshal(v)
		plain := inJSON(v)
		twice, _ := json.Marshal(plain)
		for name, form := range map[string]string{"raw": v, "json": strings.Trim(string(quoted), `"`), "plain json": plain,
			"json twice": strings.Trim(string(twice), `"`), "query": url.QueryEscape(v), "path": url.PathEscape(v),
			"base64": base64.StdEncoding.EncodeToString([]byte(v))[:len(v)*8/6], "base64 +1": base64.StdEncoding.EncodeToString([]byte("x" + v))[2 : (len(v)+1)*8/6],
			"base64 +2": base64.StdEncoding.EncodeToString([]byte("xx" + v))[3 : (len(v)+2)*8/6], "base64url": base64.RawURLEncoding.EncodeToString([]byte(v))[:len(v)*8/6],
			"go": strings.Trim(strconv.Quote(v), `"`), "go in json": inJSON(strings.Trim(strconv.Quote(v), `"`)), "html": html.EscapeString(v), "percent": allPercent(v),
			"hex": hex.EncodeToString([]byte(v)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(v)))} {
			out[name+" of "+v] = form
		}
	}
	return out
}

// inJSON is a text in the JSON of most servers, which leave <, > and & alone.
func inJSON(v string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return strings.Trim(strings.TrimSpace(b.String()), `"`)
}

// allPercent encodes every byte.
func allPercent(v string) string {
	var b strings.Builder
	for _, c := range []byte(v) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// search goes over all files below a folder but some.
func search(t *testing.T, dir string, but []string, what map[string]string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(but, filepath.Base(path)) {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for name, form := range what {
			if at := bytes.Index(raw, []byte(form)); at >= 0 {
				t.Errorf("%s holds the %s: …%q…", filepath.Base(path), name, raw[max(0, at-60):min(len(raw), at+len(form)+20)])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 2 {
		t.Errorf("only %d files were searched", files)
	}
}

// leakySource makes items that hold its setting, and its cursor, logs, outputs and failures do too.
func leakySource() stream.Module {
	return stream.Module{Spec: spec.Spec{Name: "t.source", Summary: "For tests.", Stream: &spec.Stream{Role: spec.Source}, Params: []spec.Field{{Name: "value", Type: spec.String, Doc: "Anything."}}},
		Open: func(_ context.Context, env *stream.Env, config map[string]any) (any, error) {
			return &leaks{env: env, value: config["value"].(string)}, nil
		}}
}

type leaks struct {
	env   *stream.Env
	value string
}

// Read implements stream.Source.
func (l *leaks) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	for _, id := range []string{"a", "b", l.value} {
		raw, err := json.Marshal(map[string]any{"id": id, "v": l.value})
		if err != nil {
			return err
		}
		if err := errors.Join(out.Item(stream.Lazy(raw, stream.Place{URL: "https://example.org/?k=" + url.QueryEscape(l.value)})), out.Mark(map[string]any{"next": l.value})); err != nil {
			return err
		}
	}
	l.env.Log(slog.LevelInfo, "read with "+l.value, slog.String("value", l.value))
	return out.Fail(stream.Failure{Item: l.value, Err: errors.New("failed with " + l.value)})
}

// leakyModifier fails on one item, and tells everything.
func leakyModifier() stream.Module {
	return stream.Module{Spec: spec.Spec{Name: "t.broken", Summary: "For tests.", Stream: &spec.Stream{Role: spec.Modifier}, Params: []spec.Field{{Name: "value", Type: spec.String, Doc: "Anything."}}},
		Open: func(_ context.Context, env *stream.Env, config map[string]any) (any, error) {
			return modify(func(it *stream.Item) (*stream.Item, error) {
				if it.ID() != "b" {
					return it, nil
				}
				low, err := env.Eval("{{ secrets.api | lower }}", nil)
				return nil, errors.Join(err, fmt.Errorf("no item %s for %v and %v", it.ID(), config["value"], low))
			}), nil
		}}
}

type modify func(it *stream.Item) (*stream.Item, error)

// Modify implements stream.Modifier.
func (m modify) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) { return m(it) }

const secretsDocument = `
name: secretive
parameters:
  - {name: token, type: string, required: true, secret: true}
  - {name: number, type: integer, secret: true}
  - {name: open, type: string}
steps:
  - {id: whole, action: t.see, params: {value: "{{ secrets.api }}"}}
  - {id: given, action: t.see, params: {value: "Bearer {{ params.token }}"}}
  - {id: number, action: t.see, params: {value: "{{ params.number }}"}}
  - {id: shown, action: t.see, params: {value: "{{ params.open }}"}}
  - {id: upper, action: t.see, params: {value: "{{ secrets.api | upper }}"}}
  - {id: coded, action: t.see, params: {value: "{{ ('user:' ~ secrets.api) | b64encode }}"}}
  - {id: replaced, action: t.see, params: {value: "{{ secrets.api | replace('ss!', 'qq') }}"}}
  - {id: joined, action: t.see, params: {value: "{{ [secrets.api, params.token | upper] | join('--') }}"}}
  - {id: structured, action: t.see, params: {value: {"list": ["{{ secrets.api }}", 7], "text": "{{ {'k': secrets.api} | tojson }}", "half": "{{ secrets.api[:12] }}"}}}
  - {id: looped, action: t.see, params: {value: "{% for c in secrets.api | list %}{{ c | upper }}-{% endfor %}"}}
  - {id: passed, action: t.see, depends_on: [whole], params: {value: "{{ steps.whole.outputs.value }}"}}
  - {id: again, action: t.see, depends_on: [upper], params: {value: "{{ steps.upper.outputs.value | lower }} {{ steps.upper.outputs.value }}"}}
  - {id: inner, action: t.see, depends_on: [structured], params: {value: "{{ steps.structured.outputs.value.list[0] | upper }}"}}
  - {id: wait, action: t.wait, params: {value: "{{ params.token }}"}}
  - {id: waited, action: t.see, depends_on: [wait], params: {value: "{{ steps.wait.outputs }}"}}
  - {id: spawn, action: t.spawn, params: {value: "{{ secrets.api | upper }}"}}
  - {id: skip, action: t.skip, params: {value: "{{ secrets.api | upper }}"}}
  - {id: log, action: util.log, params: {message: "log {{ secrets.api }} and {{ params.token | reverse }}"}}
  - {id: fail, action: t.fail, on_failure: continue, params: {value: "{{ secrets.api }}"}}
  - {id: loop, for_each: "{{ [1, 2] }}", action: t.see, params: {value: "{{ secrets.api }}/{{ item }}"}}
  - id: http
    action: util.http
    on_failure: continue
    params: {url: "URL/x?k={{ secrets.api | urlencode }}", headers: {Authorization: "Bearer {{ secrets.api | b64encode }}"}}
  - id: exec
    action: util.exec
    params:
      command: [sh, -c, 'printf "%s" "$S"; printf "%s\n" "$S" >&2; printf "%s" "$S" | base64; printf "%s" "$S" | od -An -tx1 | tr -d " \n"; head -c 16380 /dev/zero | tr "\\0" x; echo "$S"']
      env: {S: "{{ secrets.api }}"}
  - {id: execed, action: t.see, depends_on: [exec], params: {value: "{{ steps.exec.outputs.stdout }}"}}
  - id: env
    action: util.exec
    params: {command: [sh, -c, 'echo "token=$T" > "$STEPWELL_OUTPUT"; echo "bad $T" >&2; exit 0'], env: {T: "{{ params.token }}"}}
  - {id: enved, action: t.see, depends_on: [env], params: {value: "{{ steps.env.outputs.token }}"}}
  - {id: items, module: t.source, config: {value: "{{ secrets.api }}"}}
  - {id: broken, module: t.broken, depends_on: [items], config: {value: "{{ secrets.api | upper }}"}}
  - {id: mapped, module: stream.map, depends_on: [broken], config: {set: {v: "{{ item.v | upper }}"}}}
  - {id: out, module: stream.write, depends_on: [mapped], config: {path: out.ndjson}}
outputs:
  api: "{{ steps.whole.outputs.value }}"
`

func TestSecretsAreNowhere(t *testing.T) {
	answer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q,"header":%q,"upper":%q}`, r.URL.Query().Get("k"), r.Header.Get("Authorization"), strings.Repeat(r.URL.RawQuery, 3))
	}))
	defer answer.Close()
	r := newStreamRig(t)
	var logged bytes.Buffer
	var notes []string
	var mu sync.Mutex
	s := &seen{values: map[string]any{}}
	r.o.Log = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.o.Register = s.register
	r.o.HTTP.AllowPrivate = true
	r.o.Modules = []stream.Module{leakySource(), leakyModifier()}
	but := []string{"out.ndjson", "stepwell.db.key"}
	derived := []string{strings.ToUpper(vaulted), strings.ToLower(strings.ToUpper(vaulted)), strings.ReplaceAll(vaulted, "ss!", "qq"), strings.ToUpper(handed), string(reversed(handed)), "4711004711", vaulted[:12]}
	what := forms(append(derived, vaulted, handed)...)
	r.o.Lines = func(l store.LogLine) {
		mu.Lock()
		defer mu.Unlock()
		raw, _ := json.Marshal(l)
		notes = append(notes, string(raw))
	}
	var failures, id string
	r.with(func(a *app.App) {
		if _, err := a.Secrets.Vault.Set(t.Context(), "api", vaulted, 0, "tester"); err != nil {
			t.Fatal(err)
		}
		x, steps := secretRun(t, r, a, strings.ReplaceAll(secretsDocument, "URL", answer.URL))
		for _, step := range steps {
			if step.Status != stepwell.StepCompleted && !slices.Contains([]string{"fail", "http", "skip"}, step.Key) {
				t.Errorf("%s is %s: %+v", step.Key, step.Status, step.Error)
			}
		}
		if !secret.Sealed(x.Outputs) || string(secret.Mask(x.Outputs)) != `{"api":"***"}` {
			t.Errorf("the outputs are %s", x.Outputs)
		}
		if !secret.Sealed(x.Params) {
			t.Errorf("the parameters are %s", x.Params)
		}
		failures, id = steps["http"].Error.Message, x.ID
		search(t, r.dir, but, what) // with the WAL
	})
	s.values = map[string]any{"before": s.values}
	r.with(func(a *app.App) { // what was sealed by one process is opened by another
		again, err := a.Conductor.Retry(t.Context(), id, "again")
		if err != nil {
			t.Fatal(err)
		}
		x, steps := r.end(a, again)
		if steps["again"].Status != stepwell.StepCompleted || !secret.Sealed(x.Params) {
			t.Errorf("tried again: %v, params %s", steps["again"].Status, x.Params)
		}
	})
	if up := strings.ToUpper(vaulted); s.values["again"] != strings.ToLower(up)+" "+up {
		t.Errorf("tried again with %v", s.values["again"])
	}
	s.values = s.values["before"].(map[string]any)
	if !strings.Contains(failures, "400") || !strings.Contains(failures, secret.Hidden) {
		t.Errorf("the failure of http says %q", failures)
	}
	search(t, r.dir, but, what)
	mu.Lock()
	defer mu.Unlock()
	for name, form := range what {
		if strings.Contains(logged.String(), form) || strings.Contains(strings.Join(notes, "\n"), form) {
			t.Errorf("the log holds the %s", name)
		}
	}
	checkSeen(t, s)
}

func reversed(v string) []rune {
	out := []rune(v)
	slices.Reverse(out)
	return out
}

// checkSeen compares what handlers were given with what they should have been.
func checkSeen(t *testing.T, s *seen) {
	t.Helper()
	up := strings.ToUpper(vaulted)
	dashed := ""
	for _, c := range vaulted {
		dashed += strings.ToUpper(string(c)) + "-"
	}
	for step, want := range map[string]any{"whole": vaulted, "given": "Bearer " + handed, "number": int64(4711004711), "shown": "nothing with " + secretLike, "upper": up,
		"coded": base64.StdEncoding.EncodeToString([]byte("user:" + vaulted)), "replaced": strings.ReplaceAll(vaulted, "ss!", "qq"), "joined": vaulted + "--" + strings.ToUpper(handed),
		"looped": dashed, "passed": vaulted, "again": strings.ToLower(up) + " " + up, "inner": up, "enved": handed, "t.see:spawned": up, "loop[0]": vaulted + "/1"} {
		if got := s.values[step]; got != want {
			t.Errorf("%s was given %#v, not %#v", step, got, want)
		}
	}
	if got, _ := s.values["execed"].(string); !strings.HasPrefix(got, vaulted) || !strings.HasSuffix(got, vaulted) {
		t.Errorf("execed was given %.60q … %q", got, got[max(0, len(got)-60):])
	}
	diff(t, "waited", map[string]any{"state": handed, "memo": handed}, s.values["waited"])
}

// secretLike looks like a token of ours, and comes from outside.
const secretLike = "\u2983sealed:AAAA\u2984"

func secretRun(t *testing.T, r *streamRig, a *app.App, doc string) (*store.Execution, map[string]store.Step) {
	t.Helper()
	d, problems := definition.Parse([]byte(doc), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if err := definition.Check(d, a.Actions, "").Err(); err != nil {
		t.Fatal(err)
	}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p, Dir: r.dir, Params: map[string]any{"token": handed, "number": int64(4711004711), "open": "nothing with " + secretLike}})
	if err != nil {
		t.Fatal(err)
	}
	return r.end(a, id)
}

// A run that has nothing to do with secrets leaves no key file, and does not look at one that is there.
func TestNoKeyWithoutSecrets(t *testing.T) {
	db := filepath.Join(t.TempDir(), "a.db")
	const plain = "name: plain\nparameters: [{name: who, type: string, default: you}]\nsteps: [{id: a, action: util.log, params: {message: \"{{ params.who }}\"}}]\noutputs: {who: \"{{ params.who }}\"}\n"
	a, stop := start(t, db, app.Options{})
	id, _ := begin(t, a, plain, object{"who": "me"})
	if x, _ := ended(t, a, id); x.Status != stepwell.ExecutionCompleted {
		t.Fatal(x.Failure)
	}
	stop()
	if _, err := os.Stat(db + ".key"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is a key that nobody needed: %v", err)
	}

	if err := os.WriteFile(db+".key", nil, 0o644); err != nil { // open to others, and empty
		t.Fatal(err)
	}
	a, stop = start(t, db, app.Options{})
	id, _ = begin(t, a, plain, nil)
	if x, _ := ended(t, a, id); x.Status != stepwell.ExecutionCompleted {
		t.Fatal(x.Failure)
	}
	d, problems := definition.Parse([]byte(strings.Replace(plain, "type: string, default: you", "type: string, secret: true", 1)), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	secretive := conductor.Request{Pipeline: p, Params: object{"who": "somebody"}}
	if _, err := a.Conductor.Start(t.Context(), secretive); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(stepwell.HintOf(err), "chmod 600") {
		t.Errorf("a secret parameter with a key that others can read: %v", err)
	}
	if err := os.Remove(db + ".key"); err != nil {
		t.Fatal(err)
	}
	id, err = a.Conductor.Start(t.Context(), secretive)
	if err != nil {
		t.Fatal(err)
	}
	if x, _ := ended(t, a, id); x.Status != stepwell.ExecutionCompleted || strings.Contains(string(x.Params)+string(x.Outputs), "somebody") {
		t.Errorf("%s with %s and %s", x.Status, x.Params, x.Outputs)
	}
	stop()
	if info, err := os.Stat(db + ".key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v", err)
	}
}
