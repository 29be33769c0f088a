package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// paged is a Remote source of pages of three items, of which every second has a failure too.
type paged struct {
	env   *stream.Env
	pages int
	asked map[int]int // how often, by page
}

// Remote implements stream.Remote.
func (paged) Remote() bool { return true }

// Read implements stream.Source.
func (p paged) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	from := 0
	if _, err := stream.State(p.env.Cursor, &from); err != nil {
		return err
	}
	for page := from; page < p.pages; page++ {
		p.asked[page]++
		for i := range 3 {
			n := 3*page + i
			if i == 1 && page%2 == 1 {
				f := stream.Failure{Item: fmt.Sprint("f", page), Err: errors.New("it came broken"), Context: stream.Context{URL: fmt.Sprint("https://example.org/", page), Status: 200}}
				if err := out.Fail(f); err != nil {
					return err
				}
			}
			if err := out.Item(stream.Lazy(fmt.Appendf(nil, `{"id":"i%d","n":%d}`, n, n), stream.Place{URL: fmt.Sprint("https://example.org/", page)})); err != nil {
				return err
			}
		}
		if err := out.Mark(page + 1); err != nil {
			return err
		}
	}
	return nil
}

// TestKeptPages: a stream that failed asks for no page that it has had; a kept file that was cut off anywhere costs the
// pages behind that, and nothing else.
func TestKeptPages(t *testing.T) {
	const pages = 60
	dir := t.TempDir()
	checkpoints, output := filepath.Join(dir, "c"), filepath.Join(dir, "out")
	asked, stop := map[int]int{}, true
	segment := func() streamtest.Segment {
		return streamtest.Segment{Checkpoints: checkpoints, Dir: dir, Steps: streamtest.Chain("read", nil, "modifier", nil, "write", nil),
			Modules: []stream.Module{{Spec: spec.Spec{Name: "read", Summary: "Reads pages.", Stream: &spec.Stream{Role: spec.Source}},
				Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
					return paged{env, pages, asked}, nil
				}},
				linesTo("write", output, 1, 0, nil),
				streamtest.Modifier("modifier", true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
					switch n := number(it); {
					case stop && n == 100:
						return nil, stream.Abort(errors.New("away"))
					case n%20 == 7:
						return nil, errors.New("not this one")
					}
					return it, nil
				})},
			Settings: map[string]any{"batch": 10, "workers": 1, "checkpoint_interval": 3600}}
	}
	if got := streamtest.Run(t.Context(), t, segment()); got.Err == nil {
		t.Fatal("it did not stop")
	}
	had := len(asked)
	kept, err := filepath.Glob(filepath.Join(checkpoints, "flow", "-", "*.pages", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	whole, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(dir, "before")
	for _, dirs := range [][2]string{{checkpoints, filepath.Join(before, "c")}} {
		if err := os.CopyFS(dirs[1], os.DirFS(dirs[0])); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 3 * pages {
		if n%20 != 7 {
			want = append(want, fmt.Sprintf(`{"id":"i%d","n":%d}`, n, n))
		}
	}
	stop = false
	last := pages
	for size := len(whole); size >= 0; size -= 1 + len(whole)/80 {
		if err := os.RemoveAll(checkpoints); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(checkpoints, os.DirFS(filepath.Join(before, "c"))); err != nil {
			t.Fatal(err)
		}
		tail := ""
		if size < len(whole) {
			tail = strings.Repeat("\x00", size%40)
		}
		write(t, kept[0], append(append([]byte(nil), whole[:size]...), tail...))
		write(t, output, written)
		clear(asked)
		next := segment()
		next.Attempt = 2
		got := mustRun(t, next)
		raw, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")); diff != "" {
			t.Fatalf("cut off at %d of %d: %s", size, len(whole), diff)
		}
		if len(got.Failures) != pages/2+9 {
			t.Fatalf("cut off at %d of %d: %d failures: %v", size, len(whole), len(got.Failures), got.Failures)
		}
		first := pages
		for page, n := range asked {
			if first = min(first, page); n != 1 {
				t.Errorf("page %d was asked for %d times", page, n)
			}
		}
		if size == len(whole) && first != had {
			t.Errorf("asked for page %d again, of %d that were there", first, had)
		}
		if first > last || len(asked) != pages-first {
			t.Errorf("cut off at %d of %d: %d pages from %d on, %d when more was there", size, len(whole), len(asked), first, last)
		}
		last = first
		if left, _ := filepath.Glob(filepath.Join(checkpoints, "flow", "-", "*.pages")); len(left) > 0 {
			t.Errorf("kept when all is done: %v", left)
		}
	}
	if last == had {
		t.Error("nothing was lost with the file")
	}
	clear(asked)
	if mustRun(t, segment()); len(asked) != pages {
		t.Errorf("a later run does not read again: %v", asked)
	}
}
