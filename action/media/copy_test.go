package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

func newCopier() *copier {
	return &copier{opts: Options{RetryPause: time.Nanosecond}.withDefaults(), ops: systemOps()}
}

func copyCall(h *host, params map[string]any) *action.Call {
	return &action.Call{Execution: "run", StepKey: "copy", StepName: "copy", Dir: "/", Host: h, Params: params}
}

func runCopy(t testing.TB, c *copier, h *host, params map[string]any) (CopyResult, error) {
	t.Helper()
	before := snapshot(t, params["source"].(string))
	out, err := c.Run(t.Context(), copyCall(h, params))
	if diff := cmp.Diff(before, snapshot(t, params["source"].(string))); diff != "" && !h.sourceChanges {
		t.Errorf("the source was touched: %s", diff)
	}
	if err != nil {
		return CopyResult{}, err
	}
	checkOutputs(t, copySpec().Outputs, out)
	return out.(CopyResult), nil
}

// snapshot is everything that can be seen of a directory: names, sizes, times and content.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		all[filepath.ToSlash(rel)] = fmt.Sprintf("%d %s %s %x", info.Size(), info.Mode(), stamp(info.ModTime()), sha256.Sum256(data))
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// content is what a destination holds, without the manifests.
func content(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	for name := range snapshot(t, dir) {
		if !strings.HasPrefix(name, "manifest-") {
			data, _ := os.ReadFile(filepath.Join(dir, name))
			all[name] = string(data)
		}
	}
	return all
}

func names(m map[string]string) []string {
	var n []string
	for name := range m {
		n = append(n, name)
	}
	slices.Sort(n)
	return n
}

// TestCopyCard copies a card as a pipeline does: scan, copy, one metadata step per file (M1).
func TestCopyCard(t *testing.T) {
	src, dst := card(t), filepath.Join(t.TempDir(), "archive", "new")
	scan, err := runScan(t, map[string]any{"path": src})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(scan.Files)
	var files []any
	if err := json.Unmarshal(raw, &files); err != nil {
		t.Fatal(err)
	}
	h := newHost()
	stored := 0
	h.onSpawn = func(s action.NewStep) error { // the file is there, whole, when its step starts
		stored++
		m, err := describeFile(t.Context(), s.Params["path"].(string), false, Options{})
		if err != nil || m.Partial || stored < 5 && len(content(t, dst)) == 5 {
			t.Errorf("step for %s: %v, %d files there", s.Key, err, len(content(t, dst)))
		}
		return nil
	}
	res, err := runCopy(t, newCopier(), h, map[string]any{"source": src, "files": files, "destination": dst})
	if err != nil {
		t.Fatal(err)
	}
	if res.Copied != 5 || res.Failed != 0 || res.Spawned != 5 || res.Count != 5 || res.Bytes != scan.TotalBytes || h.fraction != 1 {
		t.Errorf("%+v, progress %v", res, h.fraction)
	}
	want := []string{"extract_metadata:DCIM/100MEDIA/CLIP0001.MP4", "extract_metadata:DCIM/100MEDIA/CLIP0002.MOV", "extract_metadata:DCIM/100MEDIA/IMG_0003.JPG",
		"extract_metadata:DCIM/100MEDIA/IMG_0004.JPG", "extract_metadata:DCIM/101MEDIA/CLIP0005.MP4"}
	if diff := cmp.Diff(want, h.order); diff != "" {
		t.Error(diff)
	}
	if s := h.steps[want[0]]; s.Action != "media.metadata" || s.OnFailure != "continue" || s.Params["path"] != filepath.Join(dst, "CLIP0001.MP4") {
		t.Errorf("%+v", s)
	}
	for _, f := range res.Files {
		a, _ := os.Stat(filepath.Join(src, f.Source))
		b, err := os.Stat(filepath.Join(dst, f.Path))
		if err != nil || !a.ModTime().Equal(b.ModTime()) || a.Size() != b.Size() {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	checkManifest(t, dst, res)

	// A second attempt of the same step copies nothing and spawns the same steps.
	c := newCopier()
	c.ops.create = func(*os.Root, string) (targetFile, error) { t.Error("copied again"); return nil, errDevice }
	again, err := runCopy(t, c, h, map[string]any{"source": src, "files": files, "destination": dst})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(res, again); diff != "" || len(h.order) != 5 {
		t.Errorf("second attempt: %s, steps %v", diff, h.order)
	}
}

func checkManifest(t *testing.T, dst string, res CopyResult) {
	t.Helper()
	raw, err := os.ReadFile(res.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	if m.Format != manifestFormat || m.Tool != "stepwell" || len(m.Files) != len(res.Files) {
		t.Errorf("%+v", m)
	}
	for _, f := range m.Files {
		data, err := os.ReadFile(filepath.Join(dst, f.Path))
		sum := sha256.Sum256(data)
		if err != nil || hex.EncodeToString(sum[:]) != f.SHA256 || f.Size != int64(len(data)) || f.HashDate == "" {
			t.Errorf("%s: %v, hash in the manifest differs", f.Path, err)
		}
	}
}

// TestCopySame: the same content twice, the same name twice, and a second card (M6).
func TestCopySame(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for name, data := range map[string]string{"a/IMG.jpg": "one", "a/copy of.jpg": "one", "b/IMG.jpg": "two", "c/IMG.jpg": "six", "c/other.jpg": "four"} {
		writeFile(t, src, name, []byte(data))
	}
	h := newHost()
	res, err := runCopy(t, newCopier(), h, map[string]any{"source": src, "destination": dst})
	if err != nil {
		t.Fatal(err)
	}
	if res.Copied != 4 || res.Duplicates != 1 || res.Spawned != 4 {
		t.Errorf("%+v", res)
	}
	want := map[string]string{"IMG.jpg": "one", "IMG_2.jpg": "two", "IMG_3.jpg": "six", "other.jpg": "four"}
	if diff := cmp.Diff(want, content(t, dst)); diff != "" {
		t.Error(diff)
	}
	checkManifest(t, dst, res)

	second := t.TempDir()
	for name, data := range map[string]string{"d/IMG.jpg": "one", "d/x.jpg": "two", "d/y.jpg": "six", "d/other.jpg": "four", "d/new.jpg": "five"} {
		writeFile(t, second, name, []byte(data))
	}
	h2 := newHost()
	call := copyCall(h2, map[string]any{"source": second, "destination": dst})
	call.Execution = "another run"
	out, err := newCopier().Run(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if r := out.(CopyResult); r.Copied != 1 || r.Existing != 4 || r.Spawned != 1 {
		t.Errorf("%+v", r)
	}
	want["new.jpg"] = "five"
	if diff := cmp.Diff(want, content(t, dst)); diff != "" {
		t.Error(diff)
	}

	// Without the lists, names still tell; a damaged stored file does not count as stored.
	lists, _ := filepath.Glob(filepath.Join(dst, "manifest-*"))
	if len(lists) != 2 {
		t.Fatalf("manifests: %v", lists)
	}
	for _, l := range lists {
		writeFile(t, dst, filepath.Base(l), []byte("{"))
	}
	writeFile(t, dst, "other.jpg", []byte("FOUR"))
	call.Execution = "third run"
	call.Host = newHost()
	out, err = newCopier().Run(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if r := out.(CopyResult); r.Existing != 2 || r.Copied != 3 || content(t, dst)["other_2.jpg"] != "four" {
		t.Errorf("%+v %v", r, content(t, dst))
	}
}

func TestCopyWithoutDedupe(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for name, data := range map[string]string{"a/IMG.jpg": "one", "b/IMG.jpg": "one", "c.jpg": "one"} {
		writeFile(t, src, name, []byte(data))
	}
	h := newHost()
	for range 2 {
		res, err := runCopy(t, newCopier(), h, map[string]any{"source": src, "destination": dst, "dedupe": false, "spawn": false})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(content(t, dst)); res.Copied != 3 || res.Spawned != 0 || len(got) != 3 {
			t.Errorf("%+v %v", res, got)
		}
	}
}

func TestCopyTemplate(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	photo := writeFile(t, src, "DCIM/A.JPG", samples()["photo.jpg"])
	plain := writeFile(t, src, "DCIM/B.JPG", samples()["plain.jpg"])
	when := time.Date(2021, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, f := range []string{photo, plain} {
		if err := os.Chtimes(f, when, when); err != nil {
			t.Fatal(err)
		}
	}
	for template, want := range map[string][]string{
		"{date}/{camera}/{original}": {"2021-02-03/unknown/B.JPG", "2026-03-14/ACME One/A.JPG"},
		"in/{path}":                  {"in/DCIM/A.JPG", "in/DCIM/B.JPG"},
		"x-{original}":               {"x-A.JPG", "x-B.JPG"},
	} {
		sub := filepath.Join(dst, fmt.Sprintf("%x", sha256.Sum256([]byte(template))))
		if _, err := runCopy(t, newCopier(), newHost(), map[string]any{"source": src, "destination": sub, "template": template}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, names(content(t, sub))); diff != "" {
			t.Errorf("%s: %s", template, diff)
		}
	}
	long := "é" + strings.Repeat("n", 249) + ".jpg"
	if got := suffixed("d/"+long, 12); len(filepath.Base(got)) > 255 || !strings.HasSuffix(got, "_12.jpg") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := suffixed(".jpg", 2); got != ".jpg_2" {
		t.Errorf("%s", got)
	}
}

// TestCopyRefuses lists what is wrong with the parameters for good.
func TestCopyRefuses(t *testing.T) {
	src, dst := card(t), t.TempDir()
	inner := filepath.Join(dst, "inner")
	writeFile(t, inner, "a.jpg", []byte("x"))
	for what, p := range map[string]map[string]any{
		"escape":             {"files": []any{"../secret.jpg"}},
		"hidden escape":      {"files": []any{"DCIM/../../secret.jpg"}},
		"absolute":           {"files": []any{"/etc/passwd"}},
		"number":             {"files": []any{3}},
		"template escape":    {"template": "../{original}"},
		"template absolute":  {"template": "/x/{original}"},
		"template unknown":   {"template": "{name}"},
		"template constant":  {"template": "all.jpg"},
		"spawn":              {"spawn": map[string]any{"acton": "x"}},
		"spawn text":         {"spawn": "yes"},
		"on_error":           {"on_error": "ignore"},
		"inside the source":  {"destination": filepath.Join(src, "DCIM", "new")},
		"the source":         {"destination": src},
		"no source":          {"source": ""},
		"two roots":          {"source": "", "files": []any{map[string]any{"path": "a", "root": "/x"}, map[string]any{"path": "b", "root": "/y"}}},
		"no source for path": {"source": "", "files": []any{"a.jpg"}},
	} {
		params := map[string]any{"source": src, "destination": dst}
		for k, v := range p {
			params[k] = v
		}
		_, err := newCopier().Run(t.Context(), copyCall(newHost(), params))
		if !action.IsFail(err) || stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v, want a final error with a hint", what, err)
		}
	}
	// A source inside the destination is fine, as long as nothing is written into it.
	res, err := runCopy(t, newCopier(), newHost(), map[string]any{"source": inner, "destination": dst, "template": "inner/{original}"})
	if err == nil || !strings.Contains(err.Error(), "inside the source") {
		t.Errorf("%+v %v", res, err)
	}
	// Nothing listed is nothing to do.
	if res, err := newCopier().Run(t.Context(), copyCall(newHost(), map[string]any{"files": []any{}, "destination": dst})); err != nil || res.(CopyResult).Count != 0 {
		t.Errorf("%+v %v", res, err)
	}
}

// TestCopyNames: unusual names survive; links, pipes and absent files are failures of their own.
func TestCopyNames(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	outside := writeFile(t, t.TempDir(), "secret.jpg", []byte("secret"))
	good := []string{"e\u0301.jpg", "日本.jpg", "new\nline.jpg", "-rf.jpg", "%s {original}.jpg", strings.Repeat("n", 251) + ".jpg", "CON.jpg", "a\\b.jpg"}
	var files []any
	for i, n := range good {
		writeFile(t, src, n, []byte(fmt.Sprint("content ", i)))
		files = append(files, n)
	}
	if err := os.Symlink(outside, filepath.Join(src, "link.jpg")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, src, ".tmp-1-2.part", []byte("odd name"))
	files = append(files, "link.jpg", "absent.jpg", ".", "dir", ".tmp-1-2.part")
	files = slices.DeleteFunc(files, func(f any) bool { return f == "." })
	if err := os.Mkdir(filepath.Join(src, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	res, err := runCopy(t, newCopier(), newHost(), map[string]any{"source": src, "files": files, "destination": dst})
	if err != nil {
		t.Fatal(err)
	}
	if res.Copied != len(good) || res.Failed != 4 {
		t.Errorf("%+v", res.Failures)
	}
	slices.Sort(good)
	if diff := cmp.Diff(good, names(content(t, dst))); diff != "" {
		t.Error(diff)
	}
	_, err = runCopy(t, newCopier(), newHost(), map[string]any{"source": src, "files": []any{"absent.jpg", "-rf.jpg"}, "destination": t.TempDir(), "on_error": "fail"})
	if err == nil || action.IsFail(err) || !strings.Contains(err.Error(), "absent.jpg") {
		t.Errorf("on_error fail: %v", err)
	}
}

func TestCopyCancel(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	writeFile(t, src, "big.mp4", bytes.Repeat([]byte("x"), 5<<20))
	ctx, cancel := context.WithCancel(t.Context())
	c := newCopier()
	c.ops.create = func(root *os.Root, name string) (targetFile, error) {
		f, err := systemOps().create(root, name)
		return &watched{targetFile: f, onWrite: func(int) error { cancel(); return nil }}, err
	}
	_, err := c.Run(ctx, copyCall(newHost(), map[string]any{"source": src, "destination": dst}))
	if !errors.Is(err, context.Canceled) || len(snapshot(t, dst)) != 0 {
		t.Errorf("%v, left %v", err, snapshot(t, dst))
	}
}

// TestCopySpawnOptions changes the step that is started, and the host refuses it once.
func TestCopySpawnOptions(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	writeFile(t, src, "a.jpg", []byte("a"))
	h := newHost()
	refused := false
	h.onSpawn = func(action.NewStep) error {
		if !refused {
			refused = true
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "store is unavailable"}
		}
		return nil
	}
	params := map[string]any{"source": src, "destination": dst, "spawn": map[string]any{"action": "util.exec", "name": "probe", "on_failure": "fail", "params": map[string]any{"n": 1}}}
	if _, err := runCopy(t, newCopier(), h, params); stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Errorf("%v", err)
	}
	if res, err := runCopy(t, newCopier(), h, params); err != nil || res.Copied != 1 || res.Spawned != 1 {
		t.Errorf("%+v %v", res, err)
	}
	if s := h.steps["probe:a.jpg"]; s.Action != "util.exec" || s.OnFailure != "fail" || s.Params["n"] != 1 || s.Params["path"] != filepath.Join(dst, "a.jpg") {
		t.Errorf("%+v", s)
	}
}
