// Package durabletest is what every durable.Shared must pass, and what a durable.Handover over it must. For tests only.
package durabletest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/stream/durable"
)

// Run tests the places that open gives; each call gives an empty one.
func Run(t *testing.T, open func(t *testing.T) durable.Shared) {
	t.Run("shared", func(t *testing.T) { shared(t, open(t)) })
	t.Run("many creators", func(t *testing.T) { creators(t, open(t)) })
	t.Run("handover", func(t *testing.T) { handover(t, open(t)) })
	t.Run("two owners", func(t *testing.T) { owners(t, open(t)) })
	t.Run("changes", func(t *testing.T) { changes(t, open(t)) })
	t.Run("epochs", func(t *testing.T) { epochs(t, open(t)) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func shared(t *testing.T, s durable.Shared) {
	ctx := t.Context()
	must(t, durable.Probe(ctx, s))
	if list, err := s.List(ctx, ""); err != nil || len(list) != 0 {
		t.Errorf("the probe has left %v, %v", list, err)
	}
	if _, err := s.Get(ctx, "a/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is there: %v", err)
	}
	must(t, s.Remove(ctx, "a/none"))
	must(t, s.Put(ctx, "a/b/1", []byte("one")))
	must(t, s.Put(ctx, "a/b-2", []byte("0")))
	must(t, s.Put(ctx, "a/b-2", []byte("two")))
	must(t, s.Create(ctx, "a/c", []byte("three")))
	if err := s.Create(ctx, "a/c", []byte("four")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create: %v", err)
	}
	if body, err := s.Get(ctx, "a/c"); err != nil || string(body) != "three" {
		t.Errorf("%q, %v", body, err)
	}
	for prefix, want := range map[string]string{"": "a/b-2 a/b/1 a/c", "a/b": "a/b-2 a/b/1", "a/b/": "a/b/1", "b": "", "a/b-": "a/b-2"} {
		list, err := s.List(ctx, prefix)
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
			if one.Modified.IsZero() {
				t.Errorf("%s has no time", one.Name)
			}
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("below %q are %s (%v), want %s", prefix, got, err, want)
		}
	}
	must(t, s.Remove(ctx, "a/c"))
	must(t, s.Create(ctx, "a/c", []byte("five")))
}

// creators has many at one name: one of them has it.
func creators(t *testing.T, s durable.Shared) {
	for round := range 10 {
		var all sync.WaitGroup
		var made atomic.Int32
		for i := range 8 {
			all.Go(func() {
				err := s.Create(t.Context(), fmt.Sprint("names/", round), fmt.Append(nil, i))
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
			})
		}
		if all.Wait(); made.Load() != 1 {
			t.Errorf("%d have made it", made.Load())
		}
	}
}

// worker is a machine with a directory of its own.
type worker struct {
	t    *testing.T
	s    durable.Shared
	base string
	*durable.Handover
}

var carriedParts = []string{".ckpt", ".data"}

func newWorker(t *testing.T, s durable.Shared, epoch uint32) *worker {
	t.Helper()
	w := &worker{t: t, s: s, base: filepath.Join(t.TempDir(), "segment")}
	must(t, w.take(epoch))
	return w
}

func (w *worker) take(epoch uint32) (err error) {
	w.Handover, err = durable.TakeOver(context.Background(), w.s, "flow/-/segment", w.base, durable.Owner{Execution: "x", Epoch: epoch}, carriedParts...)
	return err
}

func (w *worker) write(rel, text string, flags int) {
	w.t.Helper()
	must(w.t, os.MkdirAll(filepath.Dir(w.base+rel), 0o700))
	f, err := os.OpenFile(w.base+rel, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	must(w.t, err)
	_, err = f.WriteString(text)
	must(w.t, errors.Join(err, f.Close()))
}

func (w *worker) save() {
	w.t.Helper()
	must(w.t, w.Save(w.t.Context()))
}

func (w *worker) files() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, part := range carriedParts {
		err := filepath.WalkDir(w.base+part, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			text, err := os.ReadFile(name)
			found[strings.TrimPrefix(name, w.base)] = string(text)
			return err
		})
		must(w.t, err)
	}
	return found
}

func handover(t *testing.T, s durable.Shared) {
	first := newWorker(t, s, 1)
	first.write(".ckpt", "one", os.O_APPEND)
	first.write(".data/step/spool", "", 0)
	first.write(".data/output.lock", "mine", 0)
	first.save()
	first.write(".ckpt", " two", os.O_APPEND) // not saved
	second := newWorker(t, s, 2)
	if diff := cmp.Diff(map[string]string{".ckpt": "one", ".data/step/spool": ""}, second.files()); diff != "" {
		t.Error(diff)
	}
	second.write(".ckpt", " and two", os.O_APPEND)
	if err := first.Save(t.Context()); !errors.Is(err, durable.ErrFenced) {
		t.Errorf("the first one saves: %v", err)
	}
	second.save()
	if err := first.Save(t.Context()); !errors.Is(err, durable.ErrFenced) {
		t.Errorf("the first one saves again: %v", err)
	}
	must(t, first.take(3)) // on the machine that it was on, whose files are old
	if got := first.files()[".ckpt"]; got != "one and two" {
		t.Errorf("the first machine continues with %q", got)
	}
	base := filepath.Join(t.TempDir(), "reader")
	must(t, durable.Fetch(t.Context(), s, "flow/-/segment", base))
	if text, err := os.ReadFile(base + ".ckpt"); err != nil || string(text) != "one and two" {
		t.Errorf("a reader finds %q, %v", text, err)
	}
	first.save() // a reader fences nobody
	if all, err := durable.HandoversIn(t.Context(), s, "flow/-/"); err != nil || len(all) != 1 || all["flow/-/segment"].IsZero() {
		t.Errorf("%v, %v", all, err)
	}
	must(t, durable.RemoveAll(t.Context(), s, "flow/"))
	if list, err := s.List(t.Context(), ""); err != nil || len(list) > 0 {
		t.Errorf("%v, %v are left", list, err)
	}
}

// owners has several who take the stream from each other all the time. Each appends a line before each Save: of those whose
// Save succeeded none is lost, and none is there twice.
func owners(t *testing.T, s durable.Shared) {
	var mu sync.Mutex
	saved := map[string]bool{}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			w := &worker{t: t, s: s, base: filepath.Join(t.TempDir(), "segment")}
			for turn := range 6 {
				if err := w.take(0); errors.Is(err, durable.ErrFenced) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				for n := range 4 {
					line := fmt.Sprintf("%d-%d-%d;", i, turn, n)
					w.write(".ckpt", line, os.O_APPEND)
					err := w.Save(t.Context())
					if errors.Is(err, durable.ErrFenced) {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					saved[line] = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	last := newWorker(t, s, 0)
	got := map[string]bool{}
	for _, line := range strings.SplitAfter(last.files()[".ckpt"], ";") {
		if line == "" {
			continue
		}
		if got[line] {
			t.Errorf("%s is there twice", line)
		}
		got[line] = true
	}
	for line := range saved {
		if !got[line] {
			t.Errorf("%s is lost", line)
		}
	}
}

// changes grows, cuts, replaces and removes files at random, and takes over now and then.
func changes(t *testing.T, s durable.Shared) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorker(t, s, 0)
	names := []string{".ckpt", ".data/a/spool", ".data/a/keys", ".data/b/journal.json"}
	for range 300 {
		name := names[r.IntN(len(names))]
		switch r.IntN(12) {
		case 0: // replaced, as by WriteFile
			must(t, durable.WriteFile(w.base+name, func(f *os.File) error {
				_, err := f.WriteString(strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(3000)))
				return err
			}))
		case 1:
			os.Remove(w.base + name)
		case 2: // the next owner: it cuts a file, and goes on with it
			w.save()
			before := w.files()
			w = newWorker(t, s, 0)
			if diff := cmp.Diff(before, w.files()); diff != "" {
				t.Fatal(diff)
			}
			if old := before[name]; len(old) > 0 {
				must(t, os.Truncate(w.base+name, int64(r.IntN(len(old)))))
				w.write(name, strings.Repeat(string(rune('A'+r.IntN(26))), r.IntN(2*len(old))), os.O_APPEND)
			}
		case 3:
			w.save()
		default:
			w.write(name, strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(20_000)), os.O_APPEND)
		}
	}
	w.write(".data/large", strings.Repeat("0123456789", 2_500_000), 0) // more than a pack
	w.save()
	if diff := cmp.Diff(w.files(), newWorker(t, s, 0).files()); diff != "" {
		t.Fatal(diff)
	}
	packs, err := s.List(t.Context(), "flow/-/segment/packs/")
	if err != nil || len(packs) > 40 {
		t.Errorf("%d packs are left, %v", len(packs), err)
	}
}

// epochs refuses an attempt that comes late.
func epochs(t *testing.T, s durable.Shared) {
	second := newWorker(t, s, 2)
	late := &worker{t: t, s: s, base: filepath.Join(t.TempDir(), "segment")}
	if err := late.take(1); !errors.Is(err, durable.ErrFenced) {
		t.Errorf("the first attempt comes late: %v", err)
	}
	second.save()
	must(t, late.take(2)) // a step that was handed out twice
	if err := second.Save(t.Context()); !errors.Is(err, durable.ErrFenced) {
		t.Errorf("of two with one epoch: %v", err)
	}
}
