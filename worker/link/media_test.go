package link

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

// TestMediaOfLateAttempt: who waits for the files of the others removes none of an attempt that has come meanwhile.
func TestMediaOfLateAttempt(t *testing.T) {
	w := &Worker{held: map[taskID]*task{}}
	w.media.dir, w.media.files = t.TempDir(), map[string]string{}
	hold := func(ref string) (path string) {
		token := "media:" + ref + "/a.mp3"
		one := &task{Task: &engine.Task{About: plan.About{"lesson": map[string]any{"media": map[string]any{"path": token}}}}}
		w.mu.Lock()
		one.Epoch = uint32(len(w.held))
		w.held[one.key()] = one
		w.mu.Unlock()
		path = filepath.Join(w.media.dir, ref, "a.mp3")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o400); err != nil {
			t.Fatal(err)
		}
		w.media.files[token] = path
		return path
	}
	hold("early")
	w.media.mu.Lock() // another one fetches
	ended := make(chan error)
	go func() {
		_, err := w.localMedia(t.Context(), "early", "a.mp3")
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond) // it has come as far as it can
	late := hold("late")
	w.media.mu.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(late); err != nil {
		t.Error(err)
	}
}
