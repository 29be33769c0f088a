package stream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stream/durable"
)

// TestRetryOnAnotherMachine: a retry finds what has failed, and what was done, also where the first run was on another machine.
func TestRetryOnAnotherMachine(t *testing.T) {
	r := newRetried(t)
	r.segment.Shared = durable.NewSharedFolder(t.TempDir())
	r.reads(100)
	if _, failures := r.run("first", ""); strings.Count(failures, "i") < 10 {
		t.Fatalf("failures: %s", failures)
	}
	r.broken = false
	r.reads(100)
	r.segment.Checkpoints = t.TempDir()
	out, failures := r.run("second", "first")
	if out.Err != nil || failures != "" {
		t.Errorf("%v, failures: %s", out.Err, failures)
	}
	if n := out.Counts["sink"].Out; n != 10 {
		t.Errorf("%d items are repeated, want the 10 that have failed", n)
	}
	if n := len(r.side.Items()); n != 100 {
		t.Errorf("%d items are at the branch where none has failed, want 100", n)
	}
}

// TestReportOfAnotherMachine: stream.report finds the results of the segments that others ran.
func TestReportOfAnotherMachine(t *testing.T) {
	r := newRetried(t)
	r.segment.Shared = durable.NewSharedFolder(t.TempDir())
	r.reads(100)
	r.run("first", "")
	r.segment.Checkpoints = t.TempDir()
	r.segment.Entry = "other" // another segment of the execution
	out, failures := r.run("first", "")
	if n, items := strings.Count(failures, "i99"), fmt.Sprint(out.Report["total_items_processed"]); n != 2 || items != "200" {
		t.Errorf("the report of both has %s of %s items", failures, items)
	}
}
