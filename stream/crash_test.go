package stream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

const childDir = "STEPWELL_STREAM_TEST_CHILD"

// child is what this test's own program does in another process: it runs the segment of a directory to its
// end, or until it is killed.
func child() bool {
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	commits := 0
	out, err := streamtest.RunIn(context.Background(), crashSegment(dir, func() {
		fmt.Println("commit")
		if commits++; commits == 20 { // the kill is late
			time.Sleep(time.Minute)
		}
	}))
	if err == nil {
		err = out.Err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("end")
	return true
}

// crashSegment reads a file, drops and fails some items, and writes the others to two files of which
// one commits in chunks.
func crashSegment(dir string, told func()) streamtest.Segment {
	return streamtest.Segment{
		Checkpoints: filepath.Join(dir, "checkpoints"), Dir: dir,
		Settings: map[string]any{"checkpoint_interval": 0.002, "batch": 40, "workers": 3},
		Modules: []stream.Module{
			lines("read", filepath.Join(dir, "in.ndjson"), 7),
			streamtest.Modifier("some", true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
				switch n := number(it); {
				case n%11 == 0:
					return nil, nil
				case n%101 == 0:
					return nil, errors.New("it fails")
				}
				return it, nil
			}),
			{Spec: spec.Spec{Name: "other", Summary: "Marks items, and complains about some.", Stream: &spec.Stream{Role: spec.Modifier}},
				Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
					return streamtest.Func(func(_ context.Context, it *stream.Item) (*stream.Item, error) {
						if number(it)%503 == 0 {
							if err := env.Fail(stream.Failure{Item: it.ID(), Err: errors.New("a complaint")}); err != nil {
								return nil, err
							}
						}
						return put(it, "seen"), nil
					}), nil
				}},
			linesTo("one", filepath.Join(dir, "one.ndjson"), 1, 1009, told),
			linesTo("two", filepath.Join(dir, "two.ndjson"), 5000, 2003, nil),
		},
		Steps: []stream.Step{{ID: "read", Module: "read"}, {ID: "some", Module: "some", Inputs: []string{"read"}}, {ID: "other", Module: "other", Inputs: []string{"some"}},
			{ID: "one", Module: "one", Inputs: []string{"some"}}, {ID: "two", Module: "two", Inputs: []string{"other"}}},
	}
}

// crashInput writes the input, in which many lines are there several times, and tells what is to come out.
func crashInput(t *testing.T, path string, items int) (one, two []string, failures int, prints []stream.Footprint) {
	var in strings.Builder
	for i := 1; i <= items; i++ {
		n := i
		if i%5 == 0 {
			n = i / 1000 * 1000 // the same again and again
		}
		box := stream.Box{float32(n % 170), float32(n % 80), float32(n%170) + 0.5, float32(n%80) + 0.25}
		text := fmt.Sprintf(`{"id":"i%d","n":%d,"bbox":[%v,%v,%v,%v]}`, n, n, box[0], box[1], box[2], box[3])
		if i%997 == 0 {
			in.WriteString("# nothing\n")
			failures++
		}
		fmt.Fprintln(&in, text)
		if n%11 != 0 {
			prints = append(prints, stream.Footprint{Box: box, Failed: n%101 == 0 || n%1009 == 0 || n%2003 == 0})
		}
		switch {
		case n%11 == 0:
			continue
		case n%101 == 0:
			failures++
			continue
		case n%1009 == 0:
			failures++
		default:
			one = append(one, text)
		}
		if n%503 == 0 {
			failures++
		}
		if n%2003 == 0 {
			failures++
			continue
		}
		two = append(two, text[:len(text)-1]+`,"seen":true}`)
	}
	if err := os.WriteFile(path, []byte(in.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return one, two, failures, prints
}

// TestKilled kills a segment at random points, twenty times: nothing is lost, and nothing comes twice.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	one, two, failures, prints := crashInput(t, filepath.Join(dir, "in.ndjson"), 60_000)
	kills := 0
	for kills < 20 {
		if runAndKill(t, dir, 1+rand.IntN(12)) {
			t.Logf("it came to its end after %d kills", kills)
			break
		}
		kills++
	}
	got := streamtest.Run(t.Context(), t, crashSegment(dir, nil))
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	for name, want := range map[string][]string{"one.ndjson": one, "two.ndjson": two} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")); diff != "" {
			t.Errorf("%s after %d kills: %.2000s", name, kills, diff)
		}
	}
	if len(got.Failures) != failures {
		t.Errorf("%d failures after %d kills, want %d", len(got.Failures), kills, failures)
	}
	shown, err := stream.Footprints(t.Context(), stream.Options{Dir: filepath.Join(dir, "checkpoints")}, "flow", "execution", stream.FootprintQuery{Most: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(prints, shown.Rows); diff != "" {
		t.Errorf("%d footprints after %d kills, want %d: %.2000s", shown.Total, kills, len(prints), diff)
	}
	if kills < 10 {
		t.Errorf("only %d kills", kills)
	}
}

// runAndKill runs the segment in a process that it kills after so many commits, and reports whether
// the segment had come to its end before.
func runAndKill(t *testing.T, dir string, commits int) (end bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(pipe)
	for commits > 0 && said.Scan() {
		end = end || said.Text() == "end"
		commits--
	}
	if err := cmd.Process.Kill(); err != nil && !end {
		t.Error(err)
	}
	for said.Scan() {
		end = end || said.Text() == "end"
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		t.Fatal("the process failed: ", err)
	}
	return end
}
