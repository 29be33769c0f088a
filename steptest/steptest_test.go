package steptest_test

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/steptest"
)

//go:embed nightly_test.go
var source string

// docs is docs/testing.md. The tests run in a folder with its files.
var docs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		raw, err := os.ReadFile("../docs/testing.md")
		if err != nil {
			panic(err)
		}
		docs = string(raw)
		dir, err := os.MkdirTemp("", "steptest-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		for _, file := range regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```yaml\n(.*?)```").FindAllStringSubmatch(docs, -1) {
			if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600); err != nil {
				panic(err)
			}
		}
		if err := os.Chdir(dir); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// The page shows the test as it is.
func TestDocs(t *testing.T) {
	_, test, _ := strings.Cut(source, "// This test is in docs/testing.md.\n")
	if !strings.Contains(docs, "```go\n"+test+"```") {
		t.Errorf("docs/testing.md does not show\n%s", test)
	}
}

// Files of tests run with the actions of the program.
func TestFiles(t *testing.T) {
	steptest.Files(t, app.Options{}, "nightly.test.yaml", "release.test.yaml")
}

// words are the options of a program with an action of its own.
func words(spent *int) app.Options {
	return app.Options{Register: func(r *action.Registry) error {
		return r.Add(action.Action{Spec: spec.Spec{Name: "words.count", Summary: "Counts.", OpenParams: true, OpenOutputs: true},
			Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
				*spent++
				return map[string]any{"words": len(strings.Fields(c.Params["text"].(string)))}, nil
			})})
	}}
}

const wordcount = `
name: wordcount
parameters: [{name: texts, type: array}]
steps:
  - {id: count, action: words.count, for_each: "{{ params.texts }}", params: {text: "{{ item }}"}}
  - {id: ask, action: util.approval, depends_on: [count], params: {message: "good?"}}
  - {id: more, pipeline: other, depends_on: [ask], params: {}}
outputs: {total: "{{ steps.count.outputs.results | map(attribute='words') | sum }}"}
`

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An action of the program runs for real, a sub-pipeline is found beside the file, time is skipped, the process dies meanwhile, and
// a function stands for another action.
func TestOwnActions(t *testing.T) {
	write(t, "wordcount.yaml", wordcount)
	write(t, "other.yaml", "name: other\nsteps:\n  - {id: call, action: util.http, params: {url: \"https://example.com\"}, retry: {max_attempts: 2, backoff_seconds: 3600}}\n")
	spent := 0
	p := steptest.Load(t, "wordcount.yaml", words(&spent))
	p.Real("count")
	calls := 0
	p.MockFunc("action util.http", func(ctx context.Context, c *action.Call) (any, error) {
		if calls++; calls == 1 {
			return nil, fmt.Errorf("503")
		}
		return map[string]any{"status": 200}, nil
	})
	p.When(map[string]any{"step": "ask", "is": "waiting", "for": "30m", "approve": map[string]any{"by": "anna"}})
	p.When(map[string]any{"after": "10m", "restart_process": true})
	for range 2 {
		x := p.Run(map[string]any{"texts": []any{"to be", "or not to be"}}).Want("completed").Gives(map[string]any{"total": 6})
		if x.Took() < 80*time.Minute || x.Took() > 3*time.Hour {
			t.Errorf("it took %s", x.Took())
		}
		if params := x.Step("count[1]").Params(); len(params) != 1 || params[0]["text"] != "or not to be" {
			t.Errorf("params %v", params)
		}
		x.Step("ask").Want("completed")
		x.Step("more.call").Attempts(2)
		calls = 0
	}
	if spent != 4 {
		t.Errorf("the action ran %d times", spent)
	}
}

// book is a test that notes what it is told.
type book struct {
	testing.TB
	lines []string
}

func (b *book) Helper()                        {}
func (b *book) Error(args ...any)              { b.lines = append(b.lines, fmt.Sprint(args...)) }
func (b *book) Errorf(format string, a ...any) { b.Error(fmt.Sprintf(format, a...)) }
func (b *book) FailNow()                       { runtime.Goexit() }
func (b *book) Fatal(args ...any)              { b.Error(args...); b.FailNow() }
func (b *book) Fatalf(format string, a ...any) { b.Errorf(format, a...); b.FailNow() }

// said is what a test that fails is told.
func said(t *testing.T, f func(t testing.TB)) []string {
	b, done := &book{TB: t}, make(chan struct{})
	go func() { defer close(done); f(b) }()
	<-done
	return b.lines
}

// What is not as expected is told with its reason.
func TestFailures(t *testing.T) {
	nightly := func(t testing.TB) *steptest.Pipeline {
		p := steptest.Load(t, "nightly.yaml", app.Options{})
		p.Mock("action util.exec", steptest.Outputs(map[string]any{"exit_code": 0}))
		return p
	}
	empty := steptest.Outputs(map[string]any{"status": 200, "body": map[string]any{"orders": []any{}}})
	for name, c := range map[string]struct {
		f    func(t testing.TB)
		want string
	}{
		"status": {func(t testing.TB) {
			p := nightly(t)
			p.Mock("fetch", steptest.Fail("404").With("permanent", true))
			p.Run(nil).Want("completed")
		}, "the execution is failed, want completed: fetch: 404"},
		"attempts and outputs": {func(t testing.TB) {
			p := nightly(t)
			p.Mock("fetch", empty)
			x := p.Run(nil).Gives(map[string]any{"orders": 2})
			x.Step("fetch").Attempts(2).After(time.Second).Want("failed").Gives(map[string]any{})
			x.Step("nothing")
		}, "the outputs of the execution are map[orders:0], want map[orders:2]|fetch had 1 attempts, want 2|the last attempt of fetch began after 0s|" +
			"fetch is completed, want failed|the outputs of fetch are|there was no step \"nothing\""},
		"no mock":     {func(t testing.TB) { nightly(t).Run(nil) }, "the step fetch (util.http) has no mock"},
		"a misprint":  {func(t testing.TB) { p := nightly(t); p.Mock("fetsh", empty); p.Run(nil) }, `there is no step "fetsh"`},
		"a wrong key": {func(t testing.TB) { p := nightly(t); p.Mock("fetch", steptest.Outcome{"fails": "x"}); p.Run(nil) }, "fails"},
		"a secret": {func(t testing.TB) {
			p := nightly(t)
			p.Secret("token", "s3cr3t-value")
			p.Mock("fetch", empty.With("logs", []string{"it is s3cr3t-value"}))
			p.Run(nil)
		}, "secret"},
		"no file":       {func(t testing.TB) { steptest.Load(t, "none.yaml", app.Options{}) }, "none.yaml"},
		"its parameter": {func(t testing.TB) { p := nightly(t); p.Run(map[string]any{"region": "asia"}) }, "region"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := said(t, c.f)
			for _, want := range strings.Split(c.want, "|") {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("nothing says %q: %q", want, lines)
				}
			}
		})
	}
}
