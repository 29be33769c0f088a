package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/item"
)

// breaking is Places of local files that ends as a process does that is killed: at the n-th file that is published, before
// or behind it.
type breaking struct {
	disk
	n      int
	behind bool
}

var errKilled = errors.New("killed")

func (b *breaking) Publish(ctx context.Context, local, dest string) error {
	if b.n--; b.n == 0 && !b.behind {
		return errKilled
	}
	if err := b.disk.Publish(ctx, local, dest); err != nil {
		return err
	}
	if b.n == 0 {
		return errKilled
	}
	return nil
}

// killed lets a Set go as the death of its process does: with its locks, and without a word.
func (s *Set) killed(t *testing.T) {
	t.Helper()
	for _, m := range s.Order {
		if m.lock != nil {
			if err := m.lock.Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPublishCutOff kills a run between the files that it publishes, and goes on from what it had committed: each file
// holds in the end what its mode says, no row is lost and none is there twice.
func TestPublishCutOff(t *testing.T) {
	const files = 3
	for mode, old := range map[Mode][]int{Replace: nil, Append: {1, 2, 9}, Upsert: {9}} {
		for kill := 1; kill <= files; kill++ {
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprint(mode, kill, behind), func(t *testing.T) {
					dir := t.TempDir()
					dest := func(i int) string { return filepath.Join(dir, fmt.Sprint("out", i)) }
					for i := range files {
						if err := os.WriteFile(dest(i), []byte("{\"k\":1,\"n\":0}\n{\"k\":2,\"n\":0}\n{\"k\":9,\"n\":0}\n"), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					open := func(p Places, state SetState) *Set {
						locks := &Locks{}
						lockPath := func(dest string) string { return dest + ".lock" }
						o := &SetOptions{Options: Options{Places: p, Format: lines{}, Overwrite: true, Data: dir}, Policy: Policy{Mode: mode, Keep: KeepFail}, Journal: "journal",
							Claim: func(string, bool) error { return nil }, LockPath: lockPath,
							Lock: func(dest string, alone bool, clear func() error) (*Lock, error) {
								return locks.Acquire(lockPath(dest), dest, "run", alone, clear)
							},
							Count: func(ctx context.Context, dest string) (n int64, counted bool, err error) {
								err = lines{}.Rows(ctx, dest, func(*item.Value) error { n++; return nil })
								return n, true, err
							}}
						if mode == Upsert {
							o.Key = func(row *item.Value) (Key, bool) {
								return Key([]byte(strings.Repeat(string(row.Get("k").Bytes()), 16))), true
							}
						}
						s, err := OpenSet(t.Context(), o, state)
						if err != nil {
							t.Fatal(err)
						}
						return s
					}
					put := func(s *Set, from, to int) {
						t.Helper()
						for i := range files {
							m, err := s.File(dest(i), func() error { return nil })
							for k := from; k < to && err == nil; k++ {
								v, perr := item.Parse(fmt.Appendf(nil, `{"k":%d,"n":%d}`, k, i+1))
								if err = perr; err == nil {
									err = s.Write(m, v)
								}
							}
							if err != nil {
								t.Fatal(err)
							}
						}
					}
					first := open(&breaking{n: kill, behind: behind}, SetState{})
					put(first, 1, 3)
					if err := first.Sync(); err != nil {
						t.Fatal(err)
					}
					raw, err := json.Marshal(first.State())
					if err != nil {
						t.Fatal(err)
					}
					put(first, 3, 5)
					if _, err := first.Publish(t.Context()); !errors.Is(err, errKilled) {
						t.Fatalf("it was not killed: %v", err)
					}
					first.killed(t)

					var state SetState
					if err := json.Unmarshal(raw, &state); err != nil {
						t.Fatal(err)
					}
					second := open(disk{}, state)
					put(second, 3, 5)
					if _, err := second.Publish(t.Context()); err != nil {
						t.Fatal(err)
					}
					if _, _, err := second.Check(t.Context()); err != nil {
						t.Error(err)
					}
					if err := second.Done(); err != nil {
						t.Fatal(err)
					}
					for i := range files {
						var want []string
						for _, k := range old {
							want = append(want, fmt.Sprintf("{\"k\":%d,\"n\":0}\n", k))
						}
						for k := 1; k < 5; k++ {
							want = append(want, fmt.Sprintf("{\"k\":%d,\"n\":%d}\n", k, i+1))
						}
						text, err := os.ReadFile(dest(i))
						if err != nil {
							t.Fatal(err)
						}
						if diff := cmp.Diff(strings.Join(want, ""), string(text)); diff != "" {
							t.Errorf("file %d: %s", i, diff)
						}
					}
				})
			}
		}
	}
}
