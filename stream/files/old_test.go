package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// TestNoItemsOverOldParquet has the file of an earlier run: a run from the beginning without items takes it away,
// also after a crash, and one that goes on leaves it.
func TestNoItemsOverOldParquet(t *testing.T) {
	_, m := modules(t)
	config := map[string]any{"path": "a.parquet", "allow_empty": true}
	for name, crash := range map[string]bool{"at once": false, "after a crash": true} {
		r := streamtest.New(t)
		path := filepath.Join(r.Env.Dir, "a.parquet")
		s := openSink(t, r, m, config)
		write(t, s, rowRange(0, 3)...)
		state, _ := closeSink(t, s)
		r.Env.State = state // a later run with nothing new
		if _, outputs := closeSink(t, openSink(t, r, m, config)); strings.Contains(outputs, "removed") {
			t.Error(name, outputs)
		}
		if diff := cmp.Diff(rowRange(0, 3), rowsOf(t, path)); diff != "" {
			t.Fatal(name, diff)
		}
		r.Env.State = nil
		s = openSink(t, r, m, config)
		if crash {
			r.Env.State = commit(t, s, 0)
			s.Abandon()
			s = openSink(t, r, m, config)
		}
		if diff := cmp.Diff(rowRange(0, 3), rowsOf(t, path)); diff != "" {
			t.Fatal(name, "it is gone before the end:", diff)
		}
		state, outputs := closeSink(t, s)
		if want := `{"files":[],"items":0,"items_not_checked":0,"removed":["` + path + `"]}`; outputs != want {
			t.Errorf("%s: %s, want %s", name, outputs, want)
		}
		if got := names(t, r.Env.Dir); len(got) != 0 {
			t.Error(name, "left behind:", got)
		}
		// What somebody puts there afterwards is not of the state.
		put(t, r.Env.Dir, "a.parquet", "mine")
		r.Env.State = state
		s = openSink(t, r, m, config)
		if _, err := s.(*writer).file(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		r.Env.State = commit(t, s, 0)
		s.Abandon()
		if _, err := r.Open(m, config); !isGone(err) {
			t.Error(name, err)
		}
		if got := names(t, r.Env.Dir); !slices.Equal(got, []string{"a.parquet"}) {
			t.Error(name, got)
		}
	}
}

func TestNoItemsOverOldParquetS3(t *testing.T) {
	p, _ := bucket(t)
	m := Modules(ModuleOptions{Places: p})[1]
	r := streamtest.New(t)
	config := map[string]any{"path": "s3://data/a.parquet", "allow_empty": true}
	s := openSink(t, r, m, config)
	write(t, s, row(0))
	closeSink(t, s)
	for _, want := range []string{`{"files":[],"items":0,"items_not_checked":0,"removed":["s3://data/a.parquet"]}`, `{"files":[],"items":0,"items_not_checked":0}`} {
		if _, outputs := closeSink(t, openSink(t, r, m, config)); outputs != want {
			t.Error(outputs)
		}
		if _, _, err := p.OpenRaw(t.Context(), "s3://data/a.parquet"); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Error(err)
		}
	}
}

// TestWriteUnwritable has a directory in which nothing can be made.
func TestWriteUnwritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if f, err := os.CreateTemp(dir, ""); err == nil { // permissions do not bind this user
		f.Close() //nolint:errcheck // only a trial
		if dir = "/sys"; !isSysfs(dir) {
			t.Skip("no directory here that cannot be written: without the test of the error for it")
		}
	}
	_, m := modules(t)
	path := filepath.Join(dir, "y.ndjson")
	_, err := streamtest.New(t).Open(m, map[string]any{"path": path})
	if err == nil || !strings.Contains(err.Error(), path+": the directory "+dir+" cannot be written") || strings.Contains(err.Error(), ".lock") ||
		stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
		t.Error(err)
	}
}

// isSysfs reports whether dir is the kernel's, in which nobody makes files.
func isSysfs(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "kernel"))
	return err == nil && info.IsDir()
}
