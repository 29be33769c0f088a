package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/files"
)

// place is where the output goes: a local directory or an s3:// prefix. Paths in it are relative, with
// slashes. A file appears under its name when it is complete and durable; that its name is durable too is
// known after sync. Methods but take and release may be called by several goroutines.
type place struct {
	root   string // absolute, or s3://…
	remote bool
	files  *files.Places
	spare  string // a local directory for what is on its way to a remote place
	hidden string // the directory of the lock and of what is not finished, in each directory that is locked

	temp  atomic.Int64
	mu    sync.Mutex
	made  map[string]bool // directories that exist
	dirty map[string]bool // directories with new names in them
	locks map[string]*flock.Flock

	claim   func(path string) error // of outputs that are written as a whole; nil: of others
	claimed map[string]bool         // by unit
}

// hidden is the usual place.hidden.
const hidden = ".stepwell"

// maxMade bounds the directories that are remembered.
const maxMade = 10_000

// maxLocks bounds the collections that one stream may write at a time, each of which holds a file open.
const maxLocks = 4096

func newPlace(root string, places *files.Places, spare string) *place {
	return &place{root: strings.TrimSuffix(root, "/"), remote: remote(root), files: places, spare: filepath.Join(spare, "out"), hidden: hidden,
		made: map[string]bool{}, dirty: map[string]bool{}, locks: map[string]*flock.Flock{}, claimed: map[string]bool{}}
}

func remote(path string) bool { return strings.HasPrefix(path, "s3://") }

// local is a path of the system's.
func (p *place) local(rel string) string { return filepath.Join(p.root, filepath.FromSlash(rel)) }

// shown is a path as users know it.
func (p *place) shown(rel string) string {
	if p.remote {
		return p.root + "/" + rel
	}
	return p.local(rel)
}

// write makes a file of data.
func (p *place) write(ctx context.Context, unit, rel string, data []byte) error {
	return p.fill(ctx, unit, rel, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// fill makes a file of what write writes. unit is the locked directory that rel is in.
func (p *place) fill(ctx context.Context, unit, rel string, write func(*os.File) error) error {
	dir := p.spare
	if !p.remote {
		dir = p.local(path.Join(unit, p.hidden))
	}
	if err := p.makeDir(dir); err != nil {
		return err
	}
	temp := filepath.Join(dir, strconv.FormatInt(p.temp.Add(1), 10)+".tmp")
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil && !p.remote {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = p.publish(ctx, temp, rel)
	}
	if err != nil || p.remote {
		os.Remove(temp)
	}
	return err
}

// publish gives a complete local file its place.
func (p *place) publish(ctx context.Context, temp, rel string) error {
	if p.remote {
		return p.files.Publish(ctx, temp, p.root+"/"+rel)
	}
	target := p.local(rel)
	if err := p.makeDir(filepath.Dir(target)); err != nil {
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return err
	}
	p.mu.Lock()
	p.dirty[filepath.Dir(target)] = true
	p.mu.Unlock()
	return nil
}

// makeDir makes a directory and those above, and remembers to make their names durable.
func (p *place) makeDir(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.makeDirLocked(dir)
}

func (p *place) makeDirLocked(dir string) error {
	if p.made[dir] {
		return nil
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if err = p.makeDirLocked(filepath.Dir(dir)); err == nil {
			err = os.Mkdir(dir, 0o755)
		}
	}
	switch {
	case err == nil:
		p.dirty[filepath.Dir(dir)] = true
	case errors.Is(err, fs.ErrExist):
		if info, serr := os.Stat(dir); serr != nil || !info.IsDir() {
			return err // a file is in the way
		}
	default:
		return err
	}
	if len(p.made) >= maxMade {
		clear(p.made) // they are looked at again
	}
	p.made[dir] = true
	return nil
}

// read is a file's content; fs.ErrNotExist when there is none. It is bounded by limit.
func (p *place) read(ctx context.Context, rel string, limit int64) ([]byte, error) {
	var r io.ReadCloser
	var err error
	if p.remote {
		if r, _, err = p.files.Open(ctx, p.root+"/"+rel); stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return nil, fs.ErrNotExist
		}
	} else {
		r, err = os.Open(p.local(rel))
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &stepwell.Error{Code: stepwell.CodeLimit, Message: p.shown(rel) + " is larger than " + strconv.FormatInt(limit, 10) + " bytes"}
	}
	return data, err
}

// remove takes a file away; one that is not there is fine.
func (p *place) remove(rel string) error {
	if p.remote {
		return nil // an object that nothing links to stays
	}
	err := os.Remove(p.local(rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sync makes the names of all files durable.
func (p *place) sync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(16)
	for dir := range p.dirty {
		group.Go(func() error { return syncDir(dir) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	clear(p.dirty)
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// take locks a directory for this stream, and clears away what another one left unfinished there.
func (p *place) take(unit string) error {
	if p.claim != nil && !p.claimed[unit] {
		rel := unit
		if name, one := strings.CutPrefix(p.hidden, hidden+"-"); one {
			rel = path.Join(unit, name)
		}
		if err := p.claim(p.shown(rel)); err != nil {
			return err
		}
		p.claimed[unit] = true
	}
	if p.remote || p.locks[unit] != nil {
		return nil
	}
	if len(p.locks) >= maxLocks {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: "the stream has items of more than " + strconv.Itoa(maxLocks) + " collections",
			Hint: "split the input by collection, or write ndjson to one file"}
	}
	dir := p.local(path.Join(unit, p.hidden))
	lock, err := p.lock(dir)
	switch {
	case err != nil:
		return err
	case lock == nil:
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "another run is writing to " + p.shown(unit),
			Hint: "wait for it to end, or give this step a base_dir of its own"}
	}
	p.locks[unit] = lock
	left, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range left {
		if !strings.HasSuffix(entry.Name(), ".tmp") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// lock locks a directory that it makes; nil when another holds it. A lock file that was taken away meanwhile (tidy)
// locks nothing: then it is made again.
func (p *place) lock(dir string) (*flock.Flock, error) {
	for try := 0; ; try++ {
		if err := p.makeDir(dir); err != nil {
			return nil, err
		}
		lock := flock.New(filepath.Join(dir, "lock"))
		got, err := lock.TryLock()
		if err == nil && !got {
			return nil, nil
		}
		if err == nil {
			var mine, there fs.FileInfo
			if mine, err = lock.Stat(); err == nil {
				if there, err = os.Stat(lock.Path()); err == nil && os.SameFile(mine, there) {
					return lock, nil
				}
			}
			lock.Unlock()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || try >= 100 {
			return nil, errors.Join(err, fmt.Errorf("%s cannot be locked", lock.Path()))
		}
		p.mu.Lock()
		delete(p.made, dir)
		p.mu.Unlock()
	}
}

// tidy takes the hidden directory of an output of one file away, which is of no use when all is done. The lock is
// still held: who waits for it finds out that it is gone. What cannot be removed stays, and does no harm: the next
// writer is in there already, or the system does not remove open files.
func (p *place) tidy() {
	if p.hidden == hidden || p.remote || p.locks[""] == nil {
		return
	}
	dir := p.local(p.hidden)
	os.Remove(filepath.Join(dir, "lock"))
	os.Remove(dir)
}

// wait is take for a directory that others lock for a moment only, to write the documents at the root.
func (p *place) wait(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		&stepwell.Error{Code: stepwell.CodeConflict, Message: "another run is writing to " + p.shown(unit), Hint: "give this step a base_dir of its own"})
	defer cancel()
	for {
		err := p.take(unit)
		if stepwell.CodeOf(err) != stepwell.CodeConflict {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// held reports whether a directory is locked for this stream; remote ones are not locked at all.
func (p *place) held(unit string) bool { return p.remote || p.locks[unit] != nil }

// release ends all locks. The lock files stay, but for what tidy removes.
func (p *place) release() {
	for unit, lock := range p.locks {
		lock.Unlock()
		delete(p.locks, unit)
	}
	os.RemoveAll(p.spare)
}
