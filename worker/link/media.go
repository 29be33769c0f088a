package link

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/worker"
)

// media are local copies of the files of lessons: one for each that held attempts name.
type media struct {
	mu    sync.Mutex
	dir   string            // "": nothing has been fetched
	files map[string]string // by token
	no    int
}

// localMedia is worker.Options.Media: it fetches the file of a held attempt from its node, once for all that hold one, and
// removes those that no held attempt names any more.
func (w *Worker) localMedia(ctx context.Context, ref, name string) (path string, err error) {
	token := "media:" + ref + "/" + name
	m := &w.media
	m.mu.Lock()
	defer m.mu.Unlock()
	by, named := w.namers(token) // under the lock: a file that came meanwhile must be among them
	if len(by) == 0 {
		return "", notHeld()
	}
	for other, file := range m.files {
		if !named[other] {
			delete(m.files, other)
			_ = os.RemoveAll(filepath.Dir(file)) // what stays goes with the folder
		}
	}
	if path = m.files[token]; path != "" {
		return path, nil
	}
	if path, err = m.newFile(name); err != nil {
		return "", err
	}
	if err = w.fetchMedia(ctx, by, path); err != nil {
		_ = os.RemoveAll(filepath.Dir(path)) // likewise
		return "", err
	}
	m.files[token] = path
	return path, nil
}

// namers lists the held attempts that name a file and have not ended, and the files that all held ones name.
func (w *Worker) namers(token string) (by []*task, named map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	named = map[string]bool{}
	for _, t := range w.held {
		own, _, _ := worker.MediaToken(t.About)
		if named[own] = true; own == token && t.outcome == nil {
			by = append(by, t)
		}
	}
	return by, named
}

// newFile is a path in a folder of its own. The caller holds the lock.
func (m *media) newFile(name string) (path string, err error) {
	if m.dir == "" {
		if m.dir, err = os.MkdirTemp("", "stepwell-media-"); err != nil {
			return "", err
		}
		m.files = map[string]string{}
	}
	if name = filepath.Base(name); !filepath.IsLocal(name) {
		name = "media"
	}
	m.no++
	dir := filepath.Join(m.dir, strconv.Itoa(m.no))
	return filepath.Join(dir, name), os.Mkdir(dir, 0o700)
}

// fetchMedia fetches the file that some attempts name.
func (w *Worker) fetchMedia(ctx context.Context, by []*task, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	for offset, size := int64(0), int64(1); offset < size; {
		var part wire.MediaPart
		by, err = w.callAny(ctx, by, "media", func(t *task) any { return wire.Media{Worker: w.name(), Epoch: t.Epoch, Offset: offset} }, &part)
		if err != nil {
			return err
		}
		if len(part.Data) == 0 && offset < part.Size {
			return stepwell.Errorf(stepwell.CodeUnavailable, "", "the node gave nothing of a file of %d bytes behind %d", part.Size, offset)
		}
		if _, err := f.Write(part.Data); err != nil {
			return err
		}
		offset, size = offset+int64(len(part.Data)), part.Size
	}
	return nil
}

// close removes all files.
func (m *media) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dir != "" {
		_ = os.RemoveAll(m.dir) // the system's own cleaning does the rest
		m.dir = ""
	}
}
