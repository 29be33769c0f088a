package files

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/stream/streamtest"
)

const childDir = "STEPWELL_FILES_TEST_CHILD"

// TestMain lets this program be the process that a test kills.
func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	fmt.Println("begin")
	out, err := streamtest.RunIn(context.Background(), copySegment(dir))
	if err == nil {
		err = out.Err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var copies = []string{"a.ndjson", "b.ndjson.gz", "{collection_id}.json", "d.csv.zst", "e.parquet"}

// copySegment copies the files of a directory into one of each format.
func copySegment(dir string) streamtest.Segment {
	s := streamtest.Segment{Checkpoints: filepath.Join(dir, "checkpoints"), Dir: dir, Settings: map[string]any{"checkpoint_interval": 0.01},
		Modules: Modules(ModuleOptions{Places: New(Options{})}), Steps: streamtest.Chain("stream.read", map[string]any{"path": "in/*"})}
	for i, path := range copies {
		w := streamtest.Chain("stream.write", map[string]any{"path": "out/" + path})[0]
		w.ID, w.Inputs = fmt.Sprint("write", i), []string{"stream.read"}
		s.Steps = append(s.Steps, w)
	}
	return s
}

// TestKilled kills a copying process again and again, until it comes to its end; then every file has every
// item once.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("short: without killing a process")
	}
	dir := t.TempDir()
	var want []string
	for f := range 3 {
		var text strings.Builder
		for i := range 10_000 {
			row := fmt.Sprintf(`{"id":"i%d-%d","collection":"c%d","text":"%s"}`, f, i, i%2, strings.Repeat("x", 100))
			want = append(want, row)
			text.WriteString(row + "\n")
		}
		put(t, dir, fmt.Sprintf("in/%d.ndjson", f), text.String())
	}
	kills := 0
	for ended := false; !ended; {
		if kills++; kills > 200 {
			t.Fatal("it never comes to its end")
		}
		ended = runChild(t, dir, time.Duration(rand.IntN(60)+10*kills+kills*kills)*time.Millisecond)
	}
	t.Logf("killed %d times", kills-1)
	got := map[string][]string{}
	for _, name := range names(t, filepath.Join(dir, "out")) {
		if name[0] == '.' {
			t.Errorf("left behind: %s", name)
			continue
		}
		got[name] = rowsOf(t, filepath.Join(dir, "out", name))
	}
	got["c.json"] = append(got["c0.json"], got["c1.json"]...)
	delete(got, "c0.json")
	delete(got, "c1.json")
	slices.Sort(want)
	for name, rows := range got {
		slices.Sort(rows)
		if !slices.Equal(rows, want) {
			t.Errorf("%s has %d rows, not %d, or others", name, len(rows), len(want))
		}
	}
	if len(got) != len(copies) {
		t.Errorf("%d files", len(got))
	}
}

// runChild runs the copying for a while and reports whether it came to its end.
func runChild(t *testing.T, dir string, life time.Duration) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // itself
	cmd.Env = append(os.Environ(), childDir+"="+dir, "TMPDIR="+t.TempDir())
	var complaints strings.Builder
	cmd.Stderr = &complaints
	told, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewScanner(told).Scan()
	timer := time.AfterFunc(life, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	err = cmd.Wait()
	timer.Stop()
	if complaints.Len() > 0 {
		t.Fatal(complaints.String())
	}
	return err == nil
}
