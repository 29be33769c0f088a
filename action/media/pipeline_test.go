package media

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

func registry(t testing.TB) *action.Registry {
	t.Helper()
	r := new(action.Registry)
	if err := Register(r, Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func registered(t testing.TB, name string) action.Action {
	t.Helper()
	a, ok := registry(t).Lookup(name)
	if !ok {
		t.Fatalf("%s is not registered", name)
	}
	return *a
}

// decoded gives outputs back as the type that wrote them.
func decoded[T any](t testing.TB, outputs map[string]any) *T {
	t.Helper()
	raw, err := json.Marshal(outputs)
	var v T
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &v
}

// TestPipeline runs scan, copy and the spawned steps by the contract alone, on the real files when
// they are there, else on our own: bad files among them fail nobody else (M1, M3).
func TestPipeline(t *testing.T) {
	dir, reg := t.TempDir(), registry(t)
	files := samples()
	addReal(files)
	for name, data := range files {
		for _, cut := range []int{1, 50, 99} {
			if n := len(data) * cut / 100; n > 16 {
				writeFile(t, dir, filepath.Join("card/DCIM/999CUT", strings.Repeat("c", cut)+name), data[:n])
			}
		}
		writeFile(t, dir, "card/DCIM/100MEDIA/"+name, data)
	}
	scan := actiontest.Run(t.Context(), registered(t, "media.scan"), actiontest.Call{Dir: dir, Params: map[string]any{"path": "card"}})
	if scan.Err != nil {
		t.Fatal(scan.Err)
	}
	params := map[string]any{"files": scan.Outputs["files"], "destination": "archive"} // as the pipeline writes it: no source
	call := actiontest.Call{Dir: dir, StepName: "copy", Params: params, Registry: reg}
	run := actiontest.Run(t.Context(), registered(t, "media.copy"), call)
	if run.Err != nil {
		t.Fatal(run.Err)
	}
	res := decoded[CopyResult](t, run.Outputs)
	if res.Failed != 0 || res.Copied+res.Duplicates != len(decoded[ScanResult](t, scan.Outputs).Files) || len(run.Spawned) != res.Copied {
		t.Errorf("%d copied, %d duplicates, %d spawned; %v", res.Copied, res.Duplicates, len(run.Spawned), res.Failures)
	}
	if last := run.Progress[len(run.Progress)-1]; last.Fraction != 1 {
		t.Errorf("progress ends at %v", last)
	}
	sums := map[string]string{}
	for _, f := range res.Files {
		sums[filepath.Join("archive", f.Path)] = f.SHA256
	}
	unusable := 0
	for _, s := range run.Spawned {
		a, _ := reg.Lookup(s.Action)
		r := actiontest.Run(t.Context(), *a, actiontest.Call{Dir: dir, StepName: s.Name, StepKey: s.StepKey(), Params: s.Params})
		if r.Err != nil {
			if stepwell.CodeOf(r.Err) != stepwell.CodeInvalid || !action.IsFail(r.Err) {
				t.Errorf("%s: %v", s.StepKey(), r.Err)
			}
			unusable++
			continue
		}
		m := decoded[Metadata](t, r.Outputs)
		if m.SHA256 != sums[m.Path] || m.SHA256 == "" {
			t.Errorf("%s: hash %s, copied %s", m.Path, m.SHA256, sums[m.Path])
		}
	}
	if unusable == 0 || unusable == len(run.Spawned) {
		t.Errorf("%d of %d files are unusable", unusable, len(run.Spawned))
	}
	run.Memory["file/nobody"] = json.RawMessage("{}")
	call.Memory, call.Attempt = run.Memory, 2
	again := actiontest.Run(t.Context(), registered(t, "media.copy"), call)
	if again.Err != nil || len(again.Spawned) != len(run.Spawned) {
		t.Errorf("second attempt: %v, %d spawned", again.Err, len(again.Spawned))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "archive"))
	if err != nil || len(entries) != res.Copied+1 {
		t.Errorf("%d entries in the archive, want %d and the manifest: %v", len(entries), res.Copied, err)
	}
}
