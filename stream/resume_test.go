package stream_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// want gives what a chain of source, modifier and sink passes on.
func texts(from, to int) []string { return numbered(to)[from:] }

// through is a chain of a source of items, a modifier and a sink.
func through(dir string, items []string, sink *streamtest.Collector, f streamtest.Func) streamtest.Segment {
	return streamtest.Segment{Checkpoints: dir, Modules: []stream.Module{streamtest.Source("source", items...), streamtest.Modifier("modifier", true, f), sink.Module()},
		Steps: streamtest.Chain("source", nil, "modifier", nil, "sink", nil)}
}

func mustRun(t *testing.T, s streamtest.Segment) *streamtest.Outcome {
	t.Helper()
	got := streamtest.Run(t.Context(), t, s)
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	return got
}

// TestLaterRun: what is done is skipped, what failed is tried again, what is new is done, and nothing new
// is no failure.
func TestLaterRun(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	broken := true
	f := func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		if broken && number(it)%10 == 0 {
			return nil, errors.New("not today")
		}
		return it, nil
	}
	got := mustRun(t, through(dir, texts(0, 100), sink, f))
	if len(sink.Items()) != 90 || len(got.Failures) != 10 {
		t.Fatalf("%d items, %d failures", len(sink.Items()), len(got.Failures))
	}
	broken = false
	got = mustRun(t, through(dir, texts(0, 100), sink, f))
	if len(sink.Items()) != 100 || len(got.Failures) != 0 || got.Outputs["source"]["items_skipped"] != int64(90) {
		t.Fatalf("second run: %d items, %d failures, %v", len(sink.Items()), len(got.Failures), got.Outputs)
	}
	more := append(texts(0, 120), texts(0, 1)...) // the first is there twice now
	got = mustRun(t, through(dir, more, sink, f))
	if len(sink.Items()) != 121 || got.Outputs["sink"]["items_out"] != int64(21) {
		t.Fatalf("third run: %d items, %v", len(sink.Items()), got.Outputs)
	}
	got = mustRun(t, through(dir, more, sink, f))
	if len(sink.Items()) != 121 || got.Outputs["source"]["items_skipped"] != int64(121) || got.Report["status"] != "completed" {
		t.Fatalf("fourth run: %d items, %v %v", len(sink.Items()), got.Outputs, got.Report)
	}
	s := through(dir, more, sink, f)
	s.Settings = map[string]any{"resume": false}
	if mustRun(t, s); len(sink.Items()) != 121 || sink.Items()[0] != more[0] {
		t.Fatalf("without resume: %d items", len(sink.Items()))
	}
}

// TestRetry: a segment that has failed goes on where it was.
func TestRetry(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	stop := true
	s := through(dir, texts(0, 3000), sink, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		switch n := number(it); {
		case n%100 == 50:
			return nil, errors.New("bad")
		case n == 2000 && stop:
			return nil, stream.Abort(errors.New("away"))
		}
		return it, nil
	})
	s.Settings = map[string]any{"batch": 10, "workers": 1, "checkpoint_interval": 0.001}
	got := streamtest.Run(t.Context(), t, s)
	if m, ok := errors.AsType[*action.MemberError](got.Err); !ok || m.Member != "modifier" || action.IsFail(got.Err) {
		t.Fatalf("%v", got.Err)
	}
	if got.Report["status"] != "failed" || got.Report["success"] != false || sink.Closed() != 0 {
		t.Errorf("%v", got.Report)
	}
	before := len(sink.Items())
	stop = false
	got = mustRun(t, s)
	var want []string
	for i, text := range texts(0, 3000) {
		if i%100 != 50 {
			want = append(want, text)
		}
	}
	if diff := cmp.Diff(want, sink.Items()); diff != "" {
		t.Error(diff)
	}
	if len(got.Failures) != 30 {
		t.Errorf("%d failures", len(got.Failures))
	}
	for step, all := range map[string]int64{"source": 3000, "modifier": 3000, "sink": 2970} {
		in, _ := got.Outputs[step]["items_in"].(int64)
		if resumed, _ := got.Outputs[step]["items_resumed"].(int64); in+resumed != all {
			t.Errorf("%s: %d items and %d before, want %d", step, in, resumed, all)
		}
	}
	if again := got.Outputs["modifier"]["items_in"].(int64); again > int64(3000-before) {
		t.Errorf("%d items were durable, and %d done again", before, again)
	}
}

// TestOutcomeLostTwice: a stream whose outcome was lost counts what it had done, however often that happens; what another execution
// has done is not its own.
func TestOutcomeLostTwice(t *testing.T) {
	s := through(t.TempDir(), texts(0, 300), streamtest.Collect("sink"), func(_ context.Context, it *stream.Item) (*stream.Item, error) { return it, nil })
	for _, x := range []struct {
		execution string
		want      int64
	}{{"one", 300}, {"one", 300}, {"one", 300}, {"two", 0}, {"two", 0}, {"one", 0}} {
		s.Execution = x.execution
		got := mustRun(t, s)
		for _, step := range []string{"modifier", "sink"} {
			in, _ := got.Outputs[step]["items_in"].(int64)
			if resumed, _ := got.Outputs[step]["items_resumed"].(int64); in+resumed != x.want {
				t.Errorf("%s of %s: %d items and %d before, want %d", step, x.execution, in, resumed, x.want)
			}
		}
	}
}

// checkpointOf finds the one checkpoint of a directory.
func checkpointOf(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "flow", "-", "*.ckpt"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// TestTornCheckpoint cuts a checkpoint off at every length: whatever is left, the output is whole in
// the end.
func TestTornCheckpoint(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte(strings.Join(texts(0, 200), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := true
	segment := func() streamtest.Segment {
		return streamtest.Segment{Checkpoints: filepath.Join(dir, "c"), Dir: dir, Steps: streamtest.Chain("read", nil, "modifier", nil, "write", nil),
			Modules: []stream.Module{lines("read", in, 10), linesTo("write", filepath.Join(dir, "out"), 1, 0, nil),
				streamtest.Modifier("modifier", true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
					if stop && number(it) == 150 {
						return nil, stream.Abort(errors.New("away"))
					}
					return it, nil
				})},
			Settings: map[string]any{"batch": 10, "workers": 1, "checkpoint_interval": 0.001}}
	}
	if got := streamtest.Run(t.Context(), t, segment()); got.Err == nil {
		t.Fatal("it did not stop")
	}
	path := checkpointOf(t, filepath.Join(dir, "c"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	stop = false
	for size := 0; size < len(whole); size += 1 + len(whole)/60 {
		for _, tail := range []string{"", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
			write(t, path, slices.Concat(whole[:size], []byte(tail)))
			write(t, filepath.Join(dir, "out"), output)
			mustRun(t, segment())
			raw, err := os.ReadFile(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Join(texts(0, 200), "\n")+"\n", string(raw)); diff != "" {
				t.Fatalf("cut off at %d of %d: %s", size, len(whole), diff)
			}
		}
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCorruptCheckpoint: a damaged one is set aside, and the stream begins anew.
func TestCorruptCheckpoint(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	s := through(dir, texts(0, 500), sink, pass)
	s.Settings = map[string]any{"batch": 10, "checkpoint_interval": 0.001}
	mustRun(t, s)
	path := checkpointOf(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole)-100; at += 1 + len(whole)/40 { // of the last block it is a torn tail
		bad := slices.Clone(whole)
		bad[at] ^= 0x55
		write(t, path, bad)
		got := mustRun(t, s)
		if diff := cmp.Diff(texts(0, 500), sink.Items()); diff != "" {
			t.Fatalf("byte %d of %d: %s", at, len(whole), diff)
		}
		if !slices.ContainsFunc(got.Lines, func(line string) bool { return strings.Contains(line, "damaged") }) {
			t.Errorf("byte %d: no warning: %v", at, got.Lines)
		}
		aside, _ := filepath.Glob(path + ".corrupt-*")
		if len(aside) != 1 {
			t.Fatalf("set aside: %v", aside)
		}
		if err := os.Remove(aside[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOutputGone: a sink that does not find its output makes the stream begin anew.
func TestOutputGone(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, through(dir, texts(0, 50), streamtest.Collect("sink"), pass))
	sink := streamtest.Collect("sink")
	got := mustRun(t, through(dir, texts(0, 50), sink, pass))
	if diff := cmp.Diff(texts(0, 50), sink.Items()); diff != "" {
		t.Error(diff)
	}
	if !slices.ContainsFunc(got.Lines, func(line string) bool { return strings.Contains(line, "starts over") }) {
		t.Errorf("no warning: %v", got.Lines)
	}
}

// TestTwoSinks: of two sinks one fails; in the next run it gets what it lacks, and the other nothing twice.
func TestTwoSinks(t *testing.T) {
	dir, good, bad := t.TempDir(), streamtest.Collect("good"), streamtest.Collect("bad")
	fails := true
	module := bad.Module()
	open := module.Open
	module.Open = func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
		c, err := open(ctx, env, config)
		return &failing{c.(stream.Sink), &fails, 0}, err
	}
	s := streamtest.Segment{Checkpoints: dir, Modules: []stream.Module{streamtest.Source("source", texts(0, 1000)...), good.Module(), module},
		Steps:    []stream.Step{{ID: "source", Module: "source"}, {ID: "good", Module: "good", Inputs: []string{"source"}}, {ID: "bad", Module: "bad", Inputs: []string{"source"}}},
		Settings: map[string]any{"batch": 10, "checkpoint_interval": 0.001}}
	got := streamtest.Run(t.Context(), t, s)
	if m, ok := errors.AsType[*action.MemberError](got.Err); !ok || m.Member != "bad" || !strings.Contains(got.Err.Error(), "disk full") {
		t.Fatalf("%v", got.Err)
	}
	if good.Closed() != 1 {
		t.Error("the good sink needs nothing of the other, and was not closed")
	}
	fails = false
	mustRun(t, s)
	for _, c := range []*streamtest.Collector{good, bad} {
		if diff := cmp.Diff(texts(0, 1000), c.Items()); diff != "" {
			t.Error(diff)
		}
	}
	got = mustRun(t, s)
	if len(good.Items()) != 1000 || len(bad.Items()) != 1000 || got.Outputs["source"]["items_skipped"] != int64(1000) {
		t.Errorf("later run: %v", got.Outputs)
	}
}

// failing is a sink that fails after 500 items.
type failing struct {
	stream.Sink
	fails *bool
	n     int
}

func (f *failing) Write(ctx context.Context, batch []*stream.Item) error {
	if f.n += len(batch); f.n > 500 && *f.fails {
		return errors.New("disk full")
	}
	return f.Sink.Write(ctx, batch)
}

// TestTwoRunsAtOnce: the second one is refused.
func TestTwoRunsAtOnce(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	inside, leave := make(chan struct{}), make(chan struct{})
	f := func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		if number(it) == 0 {
			close(inside)
			<-leave
		}
		return it, nil
	}
	first := make(chan error)
	go func() {
		got, err := streamtest.RunIn(context.Background(), through(dir, texts(0, 10), sink, f))
		if err == nil {
			err = got.Err
		}
		first <- err
	}()
	<-inside
	s := through(dir, texts(0, 10), streamtest.Collect("sink"), pass)
	s.Execution = "another"
	got := streamtest.Run(t.Context(), t, s)
	close(leave)
	if stepwell.CodeOf(got.Err) != stepwell.CodeConflict || stepwell.HintOf(got.Err) == "" {
		t.Errorf("%v", got.Err)
	}
	if err := <-first; err != nil || len(sink.Items()) != 10 {
		t.Error(err, len(sink.Items()))
	}
}

// TestNoCheckpoint: nothing is left but the result.
func TestNoCheckpoint(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	s := through(dir, texts(0, 100), sink, pass)
	s.Settings = map[string]any{"checkpoint": false}
	mustRun(t, s)
	mustRun(t, s) // the sink begins anew
	if diff := cmp.Diff(texts(0, 100), sink.Items()); diff != "" {
		t.Error(diff)
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if diff := cmp.Diff([]string{"/flow/runs/execution/-.source.json"}, files); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestTooManyThenAgain: a stream that ended because too much failed tries all of that again the next time, and
// does nothing twice.
func TestTooManyThenAgain(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	broken := true
	s := through(dir, texts(0, 1000), sink, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
		if broken && number(it)%10 == 9 {
			return nil, errors.New("not today")
		}
		return it, nil
	})
	s.Settings = map[string]any{"max_failures": "5", "batch": 10, "workers": 1, "checkpoint_interval": 0.001}
	if got := streamtest.Run(t.Context(), t, s); !action.IsFail(got.Err) {
		t.Fatal(got.Err)
	}
	broken = false
	if got := mustRun(t, s); len(got.Failures) != 0 {
		t.Errorf("%d failures", len(got.Failures))
	}
	done := sink.Items()
	slices.Sort(done)
	want := texts(0, 1000)
	slices.Sort(want)
	if diff := cmp.Diff(want, done); diff != "" {
		t.Error(diff)
	}
}

// TestOldCheckpoints: what a config has left that nobody uses any more is removed after a while.
func TestOldCheckpoints(t *testing.T) {
	dir, sink := t.TempDir(), streamtest.Collect("sink")
	pass := func(_ context.Context, it *stream.Item) (*stream.Item, error) { return it, nil }
	count := func() (n int) {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			if strings.HasSuffix(path, ".ckpt") {
				n++
				if err := os.Chtimes(path, time.Time{}, time.Now().AddDate(0, 0, -91)); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		return n
	}
	for i, want := range []int{1, 1} {
		s := through(dir, texts(0, 10), sink, pass)
		if i == 1 { // another config
			s.Steps[1].ID, s.Steps[2].Inputs = "renamed", []string{"renamed"}
		}
		mustRun(t, s)
		if got := count(); got != want {
			t.Errorf("run %d: %d checkpoints, want %d", i, got, want)
		}
	}
}
