package upload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// CacheOptions configure a Cache. Blobs and Dir are required.
type CacheOptions struct {
	Blobs Loader
	// Dir is a folder that processes may share: each has its own in it, and removes those of dead ones.
	Dir string
	// MaxBytes bounds the files. Defaults to 20 GiB.
	MaxBytes int64
}

// Cache has media as local files, for actions that read files. It is safe for concurrent use.
type Cache struct {
	o CacheOptions

	mu    sync.Mutex
	dir   string // "" until the first file
	lock  *flock.Flock
	files map[string]*local
	bytes int64
}

// local is a file of the cache.
type local struct {
	path  string
	bytes int64
	users int
	last  time.Time
	ready chan struct{}
	err   error
}

// NewCache makes a Cache, which creates nothing before its first file.
func NewCache(o CacheOptions) *Cache {
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 20<<30)
	return &Cache{o: o, files: map[string]*local{}}
}

// Local is the path of a file that holds the media of a reference, under its name. It is there, and must not be changed, until ctx
// ends; then it may make room for others. CodeInvalid for a malformed reference; CodeUnavailable while the files in use leave no
// room; CodeLimit when it is larger than all the room.
func (c *Cache) Local(ctx context.Context, ref, name string) (string, error) {
	name = FileName(name)
	key := ref + "/" + name
	c.mu.Lock()
	f := c.files[key]
	if f == nil {
		size, err := c.room(ctx, ref)
		if err != nil {
			c.mu.Unlock()
			return "", err
		}
		f = c.files[key]
		if f == nil {
			f = &local{bytes: size, ready: make(chan struct{})}
			c.files[key], c.bytes = f, c.bytes+size
			go c.build(context.WithoutCancel(ctx), f, key, ref, name)
		}
	}
	f.users++
	f.last = time.Now()
	c.mu.Unlock()
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.users--
	})
	select {
	case <-f.ready:
		return f.path, f.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// room makes room for a file. The caller holds the lock, which is let go of while the size is read.
func (c *Cache) room(ctx context.Context, ref string) (size int64, err error) {
	c.mu.Unlock()
	m, err := loadManifest(ctx, c.o.Blobs, ref)
	c.mu.Lock()
	if err != nil {
		return 0, err
	}
	if m.Bytes > c.o.MaxBytes {
		return 0, stepwell.Errorf(stepwell.CodeLimit, "a larger limit is the setting uploads.cache_bytes", "a file of %d bytes does not fit into the media cache", m.Bytes)
	}
	for c.bytes+m.Bytes > c.o.MaxBytes {
		oldest := ""
		for key, f := range c.files {
			if f.users == 0 && (oldest == "" || f.last.Before(c.files[oldest].last)) {
				oldest = key
			}
		}
		if oldest == "" {
			return 0, stepwell.Errorf(stepwell.CodeUnavailable, "it will be retried; a larger limit is the setting uploads.cache_bytes", "the media cache is full of files in use")
		}
		c.evict(oldest)
	}
	return m.Bytes, nil
}

// evict removes a file. The caller holds the lock.
func (c *Cache) evict(key string) {
	f := c.files[key]
	delete(c.files, key)
	if c.bytes -= f.bytes; f.path != "" {
		_ = os.RemoveAll(filepath.Dir(f.path)) // what stays goes with the folder
	}
}

// build writes a file. One that cannot be written is forgotten, so that the next one who asks tries again.
func (c *Cache) build(ctx context.Context, f *local, key, ref, name string) {
	path, err := c.write(ctx, ref, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.path, f.err = path, err; {
	case c.files[key] != f && err == nil: // nobody waited any more, and others needed the room
		_ = os.RemoveAll(filepath.Dir(path))
	case c.files[key] == f && err != nil:
		c.evict(key)
	}
	close(f.ready)
}

func (c *Cache) write(ctx context.Context, ref, name string) (path string, err error) {
	home, err := c.home()
	if err != nil {
		return "", err
	}
	m, err := loadManifest(ctx, c.o.Blobs, ref)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(home, "file-")
	if err != nil {
		return "", fault(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	path = filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return "", fault(err)
	}
	sum := sha256.New()
	from := newReader(ctx, c.o.Blobs, m)
	_, err = io.Copy(io.MultiWriter(file, sum), from)
	if err = errors.Join(err, from.Close(), file.Close()); err != nil {
		return "", fault(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
		return "", &stepwell.Error{Code: stepwell.CodeInternal, Message: "the media " + ref + " is damaged", Hint: "upload it again"}
	}
	return path, nil
}

func fault(err error) error {
	if stepwell.CodeOf(err) != stepwell.CodeInternal {
		return err
	}
	return store.Away("write a file of the media cache", "the folder cannot be used", "free some space, or check its permissions", err)
}

// home is this process's folder. Folders of dead processes are removed when it is made.
func (c *Cache) home() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir != "" {
		return c.dir, nil
	}
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return "", fault(err)
	}
	c.clean()
	dir, err := os.MkdirTemp(c.o.Dir, "media-")
	if err != nil {
		return "", fault(err)
	}
	lock := flock.New(dir + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return "", fault(errors.Join(err, os.RemoveAll(dir)))
	}
	c.dir, c.lock = dir, lock
	return dir, nil
}

// clean removes the folders whose process has died.
func (c *Cache) clean() {
	dirs, _ := filepath.Glob(filepath.Join(c.o.Dir, "media-*.lock"))
	for _, name := range dirs {
		lock := flock.New(name)
		if ok, err := lock.TryLock(); err != nil || !ok {
			continue
		}
		_ = os.RemoveAll(name[:len(name)-len(".lock")])
		_ = lock.Unlock()
		_ = os.Remove(name)
	}
}

// Close removes the files.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		return nil
	}
	err := errors.Join(os.RemoveAll(c.dir), c.lock.Unlock(), os.Remove(c.dir+".lock"))
	c.dir, c.files, c.bytes = "", map[string]*local{}, 0
	return err
}
