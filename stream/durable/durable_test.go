package durable

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// lines is a format of one row a line.
type lines struct{}

func (lines) Encoder([]string) Encoder         { return lines{} }
func (lines) Columns() []string                { return nil }
func (lines) Begin(dst []byte) ([]byte, error) { return dst, nil }
func (lines) End(dst []byte, _ int64) []byte   { return dst }
func (lines) Row(dst []byte, v *item.Value, _ int64) ([]byte, error) {
	return append(v.AppendTo(dst), '\n'), nil
}
func (lines) Joined(context.Context, string, []string) ([]string, error) { return nil, nil }
func (lines) Rows(_ context.Context, path string, row func(*item.Value) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		v, err := item.Parse([]byte(strings.TrimSpace(line)))
		if err == nil {
			err = row(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// disk is Places of local files.
type disk struct{}

func (disk) OpenFile(_ context.Context, path string) (io.ReadCloser, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, &stepwell.Error{Code: stepwell.CodeNotFound, Err: err}
	}
	info, err := f.Stat()
	return f, info.Size(), err
}
func (disk) Publish(ctx context.Context, local, dest string) error { return Publish(ctx, local, dest) }
func (disk) Remove(_ context.Context, dest string) (bool, error)   { return true, os.Remove(dest) }

func newFile(t *testing.T, dir string) *File {
	t.Helper()
	f, err := NewFile(&Options{Places: disk{}, Format: lines{}, Overwrite: true}, filepath.Join(dir, "a"), "0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func put(t *testing.T, f *File, rows ...string) {
	t.Helper()
	for _, row := range rows {
		v, err := item.Parse([]byte(row))
		if err == nil {
			err = f.Put(v, BlockSize)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestMerging completes a file over one that is there, in each way.
func TestMerging(t *testing.T) {
	key := func(v *item.Value) Key { return Key([]byte(strings.Repeat(string(v.Get("k").Bytes()), 16))) }
	for name, tt := range map[string]struct {
		merging func(k *Keys) Merging
		want    []string
	}{
		"nothing stays": {func(*Keys) Merging { return Merging{} }, []string{`{"k":2,"n":1}`, `{"k":3,"n":2}`, `{"k":2,"n":3}`}},
		"all stays":     {func(*Keys) Merging { return Merging{Base: true} }, []string{`{"k":1}`, `{"k":2}`, `{"k":2,"n":1}`, `{"k":3,"n":2}`, `{"k":2,"n":3}`}},
		"by key": {func(k *Keys) Merging {
			return Merging{Base: true, Drop: func(v *item.Value) bool { return k.Has(key(v)) }, Keys: k, LeftOut: k.LeftOut()}
		}, []string{`{"k":1}`, `{"k":3,"n":2}`, `{"k":2,"n":3}`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a"), []byte("{\"k\":1}\n{\"k\":2}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f := newFile(t, dir)
			keys, err := OpenKeys(filepath.Join(dir, "keys"), 0, KeepLast)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Begin(); err != nil {
				t.Fatal(err)
			}
			for i, row := range []string{`{"k":2,"n":1}`, `{"k":3,"n":2}`, `{"k":2,"n":3}`} {
				put(t, f, row)
				v, err := item.Parse([]byte(row))
				if err == nil {
					err = keys.Add(key(v), uint64(i), int64(i))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			made, err := f.Complete(t.Context(), tt.merging(keys))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(f.Dest); err != nil || string(text) != "{\"k\":1}\n{\"k\":2}\n" {
				t.Errorf("the place has changed too early: %s %v", text, err)
			}
			if err := f.Publish(t.Context(), made); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(f.Dest)
			if got := strings.Fields(string(text)); err != nil || !slices.Equal(got, tt.want) || f.State.Items != int64(len(tt.want)) {
				t.Errorf("%d items, %q, want %q (%v)", f.State.Items, got, tt.want, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".a*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q %v", left, err)
			}
		})
	}
}

// TestKeys learns keys again, up to the rows that were durable.
func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	k, err := OpenKeys(path, 0, KeepFail)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := k.Add(Key{byte(i)}, uint64(i), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(k.Sync(), k.Close(false)); err != nil {
		t.Fatal(err)
	}
	if k, err = OpenKeys(path, 2, KeepFail); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key     byte
		content uint64
		want    Verdict
	}{{0, 0, Repeated}, {1, 7, Refused}, {2, 2, Fresh}} {
		if got := k.Judge(Key{c.key}, c.content); got != c.want {
			t.Errorf("key %d: %v, want %v", c.key, got, c.want)
		}
	}
	if err := k.Close(true); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeys(path, 2, KeepFail); !errors.Is(err, ErrGone) {
		t.Errorf("the journal is gone: %v", err)
	}
}

// TestFull has a spool that cannot be written.
func TestFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here: without the test of a full disk")
	}
	f := newFile(t, t.TempDir())
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := f.f.Close(); err != nil {
		t.Fatal(err)
	}
	f.f = full
	put(t, f, `{}`)
	if err := f.Sync(); stepwell.CodeOf(err) != stepwell.CodeUnavailable || stepwell.HintOf(err) == "" {
		t.Error(err)
	}
}

// TestLocks lets the streams of one execution share a place, and nobody else.
func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".a.lock")
	var here, elsewhere Locks
	cleared := 0
	clear := func() error { cleared++; return nil }
	first, err := here.Acquire(path, "a", "run", false, clear)
	if err != nil || cleared != 1 {
		t.Fatal(first, err)
	}
	second, err := here.Acquire(path, "a", "run", false, clear)
	if err != nil || cleared != 1 {
		t.Fatal(second, err)
	}
	for name, take := range map[string]func() (*Lock, error){
		"another run":     func() (*Lock, error) { return here.Acquire(path, "a", "other", false, clear) },
		"alone":           func() (*Lock, error) { return here.Acquire(path, "a", "run", true, clear) },
		"another process": func() (*Lock, error) { return elsewhere.Acquire(path, "a", "run", false, clear) },
	} {
		if _, err := take(); stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Acquire(path, "a", "run", false, clear); err == nil {
		t.Error("one of two has let go, and the place is free")
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if third, err := elsewhere.Acquire(path, "a", "run", true, clear); err != nil || third.Release() != nil || cleared != 2 {
		t.Error(err, cleared)
	}
	refused := errors.New("refused")
	if _, err := here.Acquire(path, "a", "run", true, func() error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if again, err := elsewhere.Acquire(path, "a", "run", true, clear); err != nil || again.Release() != nil {
		t.Error("a place that could not be cleared stays locked: ", err)
	}
}

// TestClearFirst: nobody gets the place before what a dead run left there is cleared away, else what the next
// stream begins would go, too.
func TestClearFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".a.lock")
	var locks Locks
	begun, go1, order := make(chan struct{}), make(chan struct{}), make(chan string, 2)
	take := func(name string, clear func() error) {
		l, err := locks.Acquire(path, "a", "run", false, clear)
		if err != nil {
			t.Error(err)
			return
		}
		order <- name
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		take("first", func() error { close(begun); <-go1; order <- "cleared"; return nil })
	})
	<-begun
	both.Go(func() {
		close(go1)
		take("second", func() error { return nil })
	})
	if first := <-order; first != "cleared" {
		t.Errorf("%s comes before the place is cleared", first)
	}
	<-order
	<-order
	both.Wait()
}

// TestCopyOver brings a file from another file system, and removes what a crash has left of that long ago.
func TestCopyOver(t *testing.T) {
	dir := t.TempDir()
	local, dest := filepath.Join(dir, "local"), filepath.Join(dir, "there", strings.Repeat("ü", 120))
	old := filepath.Join(filepath.Dir(dest), Hidden(dest, ".123.tmp"))
	past := time.Now().Add(-2 * staleAfter)
	err := errors.Join(os.Mkdir(filepath.Dir(dest), 0o755), os.WriteFile(local, []byte("3"), 0o600), os.WriteFile(old, nil, 0o600), os.Chtimes(old, past, past),
		copyOver(t.Context(), local, dest))
	entries, derr := os.ReadDir(filepath.Dir(dest))
	if text, rerr := os.ReadFile(dest); string(text) != "3" || len(entries) != 1 || errors.Join(err, derr, rerr) != nil {
		t.Error(string(text), entries, errors.Join(err, derr, rerr))
	}
}

func TestMayReplace(t *testing.T) {
	yes := func() (bool, error) { return true, nil }
	for _, c := range []struct {
		policy Policy
		given  Given
		holds  bool
		want   stepwell.Code
	}{
		{Policy{Mode: Replace}, Given{Read: 3, Rows: 3}, true, ""},
		{Policy{Mode: Replace}, Given{}, true, stepwell.CodeNotReplaced},
		{Policy{Mode: Replace}, Given{}, false, ""},
		{Policy{Mode: Replace, AllowEmpty: true}, Given{}, true, ""},
		{Policy{Mode: Replace, AllowEmpty: true}, Given{Read: 3, Failed: 3}, true, stepwell.CodeNotReplaced},
		{Policy{Mode: Replace}, Given{Read: 3}, true, ""}, // a filter left all out
		{Policy{Mode: Upsert}, Given{}, true, ""},
	} {
		holds := yes
		if !c.holds {
			holds = func() (bool, error) { return false, nil }
		}
		if err := c.policy.MayReplace("a", c.given, holds); err == nil && c.want != "" || err != nil && stepwell.CodeOf(err) != c.want {
			t.Errorf("%+v %+v: %v", c.policy, c.given, err)
		}
	}
}
