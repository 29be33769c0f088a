package git

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// watcher ends the work when its folders grow by more than a limit.
type watcher struct {
	most   int64
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	roots map[string]int64 // with the size at the beginning
}

// watch watches folders until end, or until ctx ends. A look costs a walk through them, and comes after a pause of at
// least ten times as long.
func watch(ctx context.Context, cancel context.CancelCauseFunc, most int64) *watcher {
	w := &watcher{most: most, cancel: cancel, done: make(chan struct{}), roots: map[string]int64{}}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		pause := 100 * time.Millisecond
		for action.Pause(ctx, pause) == nil {
			begin := time.Now()
			if err := w.check(); err != nil {
				w.cancel(err)
				return
			}
			pause = max(pause, 10*time.Since(begin))
		}
	}()
	return w
}

// add also watches a folder.
func (w *watcher) add(dir string) {
	size := sizeOf(dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.roots[dir]; !known {
		w.roots[dir] = size
	}
}

func (w *watcher) check() *stepwell.Error {
	w.mu.Lock()
	roots := make(map[string]int64, len(w.roots))
	for dir, size := range w.roots {
		roots[dir] = size
	}
	w.mu.Unlock()
	grown := int64(0)
	for dir, before := range roots {
		grown += sizeOf(dir) - before
	}
	if grown <= w.most {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the repository has more than %d bytes", w.most), Hint: "fetch less with depth and sparse, or raise git.max_bytes in the settings"}
}

// end ends the watch with a last look.
func (w *watcher) end() error {
	w.stop()
	<-w.done
	if err := w.check(); err != nil {
		return action.Fail(err)
	}
	return nil
}

// sizeOf is the size of the files in a folder, as far as it can be told.
func sizeOf(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}
