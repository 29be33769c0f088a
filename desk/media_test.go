package desk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
)

// TestMediaElsewhere: a worker elsewhere gives its handler a local copy of the lesson's file, of several parts, and removes it
// when the worker ends.
func TestMediaElsewhere(t *testing.T) {
	both(t, func(t *testing.T, streams bool) {
		db := dbOf(t)
		content := bytes.Repeat([]byte("0123456789abcdef"), 2*wire.MaxMedia/16+1)
		if err := os.WriteFile(filepath.Join(filepath.Dir(db), "own"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var seen []string
		read := act("t.read", func(_ context.Context, c *action.Call) (any, error) {
			path, _ := c.Params["file"].(string)
			mu.Lock()
			seen = append(seen, path)
			mu.Unlock()
			got, err := os.ReadFile(path)
			if err == nil && !bytes.Equal(got, content) {
				err = errors.New("the copy differs")
			}
			return map[string]any{"name": filepath.Base(path), "other": c.Params["other"]}, err
		})
		n := newNode(t, db, desk.Options{}, never("t.read"))
		t.Cleanup(func() { // when the worker has ended
			for _, path := range seen {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is still there: %v", path, err)
				}
			}
		})
		n.link("w1", streams, []string{n.url}, read)
		id := n.beginAbout(`{id: a, action: t.read, for_each: 3, source: media, params: {file: "{{ source.path }}", other: "media:other/x.mp4"}}`, "own")
		_, steps := n.end(id, stepwell.ExecutionCompleted)
		if got := string(steps["a[0]"].Output); got != `{"name":"cells.mp4","other":"media:other/x.mp4"}` || len(seen) != 3 {
			t.Errorf("output %s, paths %v", got, seen)
		}
	})
}

// TestMediaOfOthers: a worker reads the file of the execution of an attempt that it holds, and no other.
func TestMediaOfOthers(t *testing.T) {
	db := dbOf(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(db), "own"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, db, desk.Options{}, never("t.read"))
	c := client{n: n, name: "w1"}.join("t.read")
	about, none := n.beginAbout(`{id: a, action: t.read}`, "own"), n.begin("name: p\nsteps:\n  - {id: a, action: t.read}\n")
	var held []wire.Task
	for len(held) < 2 {
		var out wire.Turned
		if status, p := c.send("turn", wire.Turn{Worker: "w1", Want: 2 - len(held), WaitMS: 1000}, &out); status != 200 {
			t.Fatal(status, p)
		}
		held = append(held, out.Tasks...)
	}
	for _, task := range held {
		want := map[string]string{about: "media:own/cells.mp4", none: ""}[task.ExecutionID]
		if task.Media != want {
			t.Errorf("the task names %q, want %q", task.Media, want)
		}
		for offset, want := range map[int64]string{0: "200 4 text", 3: "200 4 t", 4: "200 4 ", 5: "400 0 ", -1: "400 0 "} {
			if task.ExecutionID == none {
				want = "404 0 "
			}
			var part wire.MediaPart
			status, _ := c.send("steps/"+task.StepID+"/media", wire.Media{Worker: "w1", Epoch: task.Epoch, Offset: offset}, &part)
			if got := fmt.Sprintf("%d %d %s", status, part.Size, part.Data); got != want {
				t.Errorf("behind %d: %s, want %s", offset, got, want)
			}
		}
	}
	other := client{n: n, name: "w2"}.join("t.read")
	if status, _ := other.send("steps/"+held[0].StepID+"/media", wire.Media{Worker: "w2", Epoch: held[0].Epoch}, nil); status != 409 {
		t.Errorf("another worker's attempt: %d", status)
	}
}
