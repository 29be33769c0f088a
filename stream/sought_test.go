package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// retried is a stream over a file of lines, of which every tenth item fails while it is broken.
type retried struct {
	t       *testing.T
	segment streamtest.Segment
	file    string
	side    *streamtest.Collector // on a branch of its own, where nothing fails
	broken  bool
	stopAt  int // item at which the stream stops; -1: none
}

func newRetried(t *testing.T) *retried {
	r := &retried{t: t, file: filepath.Join(t.TempDir(), "in"), side: streamtest.Collect("side"), broken: true, stopAt: -1}
	r.segment = streamtest.Segment{Checkpoints: t.TempDir(), Execution: "first",
		Steps:    append(streamtest.Chain("read", nil, "work", nil, "sink", nil), stream.Step{ID: "side", Module: "side", Inputs: []string{"read"}}),
		Settings: map[string]any{"batch": 10, "workers": 1, "checkpoint_interval": 0.001},
		Modules: []stream.Module{lines("read", r.file, 10), streamtest.Collect("sink").Module(), r.side.Module(),
			streamtest.Modifier("work", true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
				switch n := number(it); {
				case n == r.stopAt:
					return nil, stream.Abort(errors.New("away"))
				case r.broken && n%10 == 9:
					return nil, errors.New("not today")
				}
				return it, nil
			})}}
	return r
}

// reads sets the file: items without those left out, with ids. Those that fail are others when they are repaired.
func (r *retried) reads(n int, without ...int) {
	r.t.Helper()
	var b strings.Builder
	for i := range n {
		if !slices.Contains(without, i) {
			fmt.Fprintf(&b, "{\"id\":\"i%d\",\"n\":%d,\"repaired\":%t}\n", i, i, !r.broken && i%10 == 9)
		}
	}
	if err := os.WriteFile(r.file, []byte(b.String()), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// run runs an execution that retries another, and gives the failures as "type item".
func (r *retried) run(execution, goesOn string) (*streamtest.Outcome, string) {
	r.t.Helper()
	r.segment.Execution, r.segment.GoesOn = execution, goesOn
	out := streamtest.Run(r.t.Context(), r.t, r.segment)
	var failures []string
	for _, f := range out.Failures {
		failures = append(failures, fmt.Sprint(f["error_type"], " ", f["item_id"]))
	}
	slices.Sort(failures)
	return out, strings.Join(failures, ", ")
}

// A retry that is cut off in the middle goes on looking for what it has not found, and only for that; so does a retry of a
// retry that never came to its end.
func TestNotFoundAcrossAttempts(t *testing.T) {
	const gone = "not_found i109, not_found i9"
	for _, c := range []struct {
		name, execution, retries string
	}{{"the next attempt", "second", "first"}, {"a retry of the retry", "third", "second"}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRetried(t)
			r.reads(200)
			if out, _ := r.run("first", ""); out.Err != nil || len(out.Failures) != 20 {
				t.Fatal(out.Err, out.Failures)
			}
			r.broken, r.stopAt = false, 149
			r.reads(200, 9, 109)
			if out, _ := r.run("second", "first"); out.Err == nil {
				t.Fatal("it did not stop")
			}
			r.stopAt = -1
			out, failures := r.run(c.execution, c.retries)
			if out.Err != nil || failures != gone || out.Outputs["read"]["items_not_found"] != int64(2) {
				t.Errorf("%v, failures %q, outputs %v", out.Err, failures, out.Outputs["read"])
			}
			if out.Report["status"] != "completed_with_failures" {
				t.Errorf("report %v", out.Report)
			}
			r.reads(200)
			if out, failures = r.run("fourth", c.execution); out.Err != nil || failures != "" || out.Outputs["sink"]["items_in"] != int64(2) {
				t.Errorf("with the items back: %v, failures %q, outputs %v", out.Err, failures, out.Outputs)
			}
			if n := len(r.side.Items()); n != 200 { // it had them all from the beginning
				t.Errorf("the branch where nothing failed has %d items of 200", n)
			}
		})
	}
}

// A retry of an execution that was cut off, and so never said that it failed, repeats what had failed until then.
func TestRetryOfWhatWasCutOff(t *testing.T) {
	r := newRetried(t)
	r.reads(100)
	r.stopAt = 95
	if out, _ := r.run("first", ""); out.Err == nil {
		t.Fatal("it did not stop")
	}
	r.broken, r.stopAt = false, -1
	if out, failures := r.run("second", "first"); out.Err != nil || failures != "" {
		t.Errorf("%v, failures %q", out.Err, failures)
	}
	// The same items twice: two failed, one is left.
	r = newRetried(t)
	if err := os.WriteFile(r.file, []byte(strings.Repeat("{\"id\":\"i9\",\"n\":9}\n", 2)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := r.run("first", ""); len(out.Failures) != 2 {
		t.Fatal(out.Failures)
	}
	r.reads(10, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	r.broken = false
	if _, failures := r.run("second", "first"); failures != "not_found i9" {
		t.Errorf("failures %q", failures)
	}
}

// What a later run that retries nothing no longer finds is no failure.
func TestNotFoundOnlyInRetries(t *testing.T) {
	r := newRetried(t)
	r.reads(100)
	r.run("first", "")
	r.reads(100, 9)
	r.broken = false
	if out, failures := r.run("second", ""); out.Err != nil || failures != "" {
		t.Errorf("%v, failures %q", out.Err, failures)
	}
}

// rows is a source of what it has: ids of items with a collection, without one, and of failures that may name one.
type rows []string

func (r *rows) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	for _, row := range *r {
		id, collection, failed := strings.TrimPrefix(row, "!"), "", strings.HasPrefix(row, "!")
		if i := strings.Index(id, "/"); i >= 0 {
			collection, id = id[:i], id[i+1:]
		}
		var err error
		if failed {
			err = out.Fail(stream.Failure{Item: id, Collection: collection, Err: errors.New("not today")})
		} else {
			text := fmt.Sprintf(`{"id":%q}`, id)
			if collection != "" {
				text = fmt.Sprintf(`{"id":%q,"collection":%q}`, id, collection)
			}
			err = out.Item(stream.Lazy([]byte(text), stream.Place{}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A failure without a collection is found again by its id alone, and so is an item without one; different collections
// are different items.
func TestFoundAgainByIDAlone(t *testing.T) {
	for _, c := range []struct {
		name, first, then, want string
	}{
		{"the failure has no collection", "!a !b", "c/a c/b", ""},
		{"the item has none", "!c/a !c/b", "a b", ""},
		{"neither has one", "!a !b", "a b", ""},
		{"one is removed", "!a !b", "c/b", "not_found a"},
		{"it fails again, with a collection", "!a", "!c/a", "DataProcessingError a"},
		{"it fails again, without one", "!c/a", "!a", "DataProcessingError a"},
		{"another one of the id was done", "!a c/a", "c/a", "not_found a"},
		{"another collection", "!c/a", "d/a", "not_found a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var source rows
			r := &retried{t: t, segment: streamtest.Segment{Checkpoints: t.TempDir(), Steps: streamtest.Chain("read", nil, "sink", nil),
				Modules: []stream.Module{{Spec: spec.Spec{Name: "read", Summary: "Reads.", Stream: &spec.Stream{Role: spec.Source}},
					Open: func(context.Context, *stream.Env, map[string]any) (any, error) { return &source, nil }}, streamtest.Collect("sink").Module()}}}
			source = strings.Fields(c.first)
			r.run("first", "")
			source = strings.Fields(c.then)
			if out, failures := r.run("second", "first"); out.Err != nil || failures != c.want {
				t.Errorf("%v, failures %q, want %q", out.Err, failures, c.want)
			}
		})
	}
}
