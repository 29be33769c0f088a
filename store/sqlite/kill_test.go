package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// victim is the environment variable that makes the test binary the process to be killed.
const victim = "STEPWELL_TEST_COMMIT_TO"

// TestKill kills a process in the middle of its commits, five times on the same database: every
// version that it has said to be committed is there, whole, without a gap.
func TestKill(t *testing.T) {
	if path := os.Getenv(victim); path != "" {
		commitUntilKilled(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for round := range 5 {
		said := runVictim(t, path, 40+round*90)
		checkSurvivor(t, path, said)
	}
}

// runVictim runs the process until it has said n versions, and returns the last that it said.
func runVictim(t *testing.T, path string, n int) (last int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$", "-test.v=false")
	cmd.Env = append(os.Environ(), victim+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if last, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Errorf("it said %q", lines.Text())
		}
		if n--; n == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || n > 0 {
		t.Fatalf("it ended by itself (%v) after %d", err, last)
	}
	return last
}

func checkSurvivor(t *testing.T, path string, said int64) {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path, Exclusive: true}) // the claim of the dead is void
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var check string
	if err := s.read.QueryRow("PRAGMA quick_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("quick_check: %s %v", check, err)
	}
	version := int64(0)
	for e, err := range s.StepLog(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if version++; e.Version != version {
			t.Fatalf("version %d comes after %d", e.Version, version-1)
		}
	}
	if version < said {
		t.Errorf("version %d was committed, the last one there is %d", said, version)
	}
	steps, err := s.Steps(t.Context(), 1, store.StepFilter{Limit: 10_000, Statuses: []stepwell.StepStatus{stepwell.StepCompleted}})
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(steps)) != 3*(version-1) {
		t.Errorf("%d steps of %d versions", len(steps), version)
	}
}

// commitUntilKilled goes on where the last victim was killed, and says each version once it is
// committed.
func commitUntilKilled(t *testing.T, path string) {
	s := open(t, Options{Path: path, Exclusive: true})
	version := int64(0)
	for e, err := range s.StepLog(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		version = e.Version
	}
	if version == 0 {
		begin(t, s, 1, `{"steps":[]}`)
		version = 1
	}
	last := version + 590 // more than a round waits for, and in five rounds fewer than checkSurvivor reads
	for version++; version <= last; version++ {
		rows := make([]engine.StepRow, 3)
		for i := range rows {
			rows[i] = engine.StepRow{Idx: int32(version)*3 + int32(i), Status: stepwell.StepCompleted, Key: fmt.Sprintf("s:%d-%d", version, i), Ended: 1}
		}
		if err := s.Commit(t.Context(), []store.Commit{{Execution: 1, Version: version, Log: []byte(`{"t":1,"e":[]}`), Steps: rows}}); err != nil {
			t.Fatal(err)
		}
		fmt.Println(version)
	}
	time.Sleep(time.Minute) // the kill is late
}
