package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

// shared is a path of the real test data; without it the test is skipped.
func shared(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	full, err := filepath.Abs(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: the test with recorded data, which is not here: " + path)
	}
	return full
}

func lines(t testing.TB, path string) []json.RawMessage {
	t.Helper()
	items, err := stactest.Lines(path)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// options reach servers on the loopback interface.
func options(t testing.TB) Options {
	t.Helper()
	h, err := outbound.New(outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Breaker: outbound.Breaker{Failures: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return Options{HTTP: h, Places: files.New(files.Options{HTTP: h})}
}

// module finds a module by name.
func module(t testing.TB, name string) stream.Module {
	t.Helper()
	for _, m := range Modules(options(t)) {
		if m.Spec.Name == name {
			return m
		}
	}
	t.Fatal("no module " + name)
	return stream.Module{}
}

// quick makes retries fast.
func quick(config map[string]any) map[string]any {
	config["rate_limit"] = 0
	config["retry"] = map[string]any{"base": 0.001, "max": 0.01}
	return config
}

func idsOf(t testing.TB, items []string) []string {
	t.Helper()
	ids := make([]string, len(items))
	for i, text := range items {
		ids[i], _ = apiclient.Key([]byte(text))
	}
	return ids
}

func digest(ids []string) string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(ids)), "\n")))
	return hex.EncodeToString(sum[:8])
}

// read runs a source to its end; the outputs are those of Finish.
func read(t testing.TB, r *streamtest.Rig, m stream.Module, config map[string]any, in ...*stream.Item) (items []string, cursors []json.RawMessage, outputs map[string]any, err error) {
	t.Helper()
	keep := m
	keep.Open = nil
	inner := m.Open
	var component any
	m.Open = func(ctx ctx, env *stream.Env, config map[string]any) (any, error) {
		c, err := inner(ctx, env, config)
		component = c
		return c, err
	}
	items, cursors, err = r.Read(m, config, in...)
	if f, ok := component.(stream.Finisher); ok {
		got, ferr := f.Finish(err)
		if ferr != nil {
			t.Fatal(ferr)
		}
		outputs, _ = got.(map[string]any) // a source that failed has none
	}
	return items, cursors, outputs, err
}

func typeOf(err error) string {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e.Type
	}
	return ""
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSpecs has the specifications compile, and every field documented.
func TestSpecs(t *testing.T) {
	for _, m := range Modules(options(t)) {
		if _, err := spec.Compile(m.Spec.Params, false); err != nil {
			t.Errorf("%s: %v", m.Spec.Name, err)
		}
		if m.Spec.Summary == "" || m.Spec.Doc == "" || len(m.Spec.Outputs) == 0 || len(m.Spec.Examples) == 0 || len(m.Spec.Aliases) == 0 || m.Spec.Stream == nil {
			t.Errorf("%s is not described", m.Spec.Name)
		}
		var undocumented func(fields []spec.Field)
		undocumented = func(fields []spec.Field) {
			for _, f := range fields {
				if !strings.HasSuffix(f.Doc, ".") {
					t.Errorf("%s: %s has no sentence", m.Spec.Name, f.Name)
				}
				undocumented(f.Fields)
			}
		}
		undocumented(m.Spec.Params)
	}
}
