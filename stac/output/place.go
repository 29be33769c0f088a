package output

import (
	"context"
	"errors"
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

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// place is where the output goes: a local directory or an s3:// prefix. Paths in it are relative, with
// slashes. A file appears under its name when it is complete and durable; that its name is durable too is
// known after sync. Methods but lockUnit, wait, held and release may be called by several goroutines.
type place struct {
	root   string // absolute, or s3://…
	away   bool   // not on this machine
	files  *files.Places
	spare  string // a local directory for files on their way to a remote place
	hidden string // the directory of the lock and of unfinished files, in each locked directory

	token  string // of temporary files
	temp   atomic.Int64
	mu     sync.Mutex
	made   map[string]bool // directories that exist
	dirty  map[string]bool // directories with new names in them
	locks  map[string]*durable.Lock
	remote map[string]bool // units of a remote place that are claimed

	env   *stream.Env
	alone bool // the run replaces existing items
	fixed bool // it is about one collection, so that other runs may write other collections
	// stage is the local directory in which a run that replaces makes its files; "": they are made in their places.
	stage string
	// changed is called for each change at the place, for tests that stop there; nil: no call.
	changed func()
}

// hidden is the usual place.hidden.
const hidden = ".stepwell"

// maxMade bounds the directories that are remembered.
const maxMade = 10_000

// maxLocks bounds the collections that one stream may write at a time, each of which holds a file open.
const maxLocks = 4096

func newPlace(root string, places *files.Places, env *stream.Env) *place {
	return &place{root: strings.TrimSuffix(root, "/"), away: remote(root), files: places, spare: filepath.Join(env.Data, "out"), hidden: hidden, env: env,
		token: durable.NewToken(), made: map[string]bool{}, dirty: map[string]bool{}, locks: map[string]*durable.Lock{}, remote: map[string]bool{}}
}

func remote(path string) bool { return strings.HasPrefix(path, "s3://") }

// local is a path of the system's.
func (p *place) local(rel string) string { return filepath.Join(p.root, filepath.FromSlash(rel)) }

// at is where a file is made that is a path of the system's: in its place, or in the stage.
func (p *place) at(rel string) string {
	if p.stage != "" {
		return filepath.Join(p.stage, filepath.FromSlash(rel))
	}
	return p.local(rel)
}

// direct reports whether files are made on this machine: in their places, or in the stage.
func (p *place) direct() bool { return !p.away || p.stage != "" }

// shown is a path as users know it.
func (p *place) shown(rel string) string {
	if p.away {
		return p.root + "/" + rel
	}
	return p.local(rel)
}

// write makes a file of data. unit is the locked directory that rel is in.
func (p *place) write(ctx context.Context, unit, rel string, data []byte) error {
	dir := p.spare
	switch {
	case p.stage != "":
		dir = filepath.Join(p.stage, hidden)
	case !p.away:
		dir = p.local(path.Join(unit, p.hidden))
	}
	if err := p.makeDir(dir); err != nil {
		return err
	}
	temp := filepath.Join(dir, p.token+"-"+strconv.FormatInt(p.temp.Add(1), 10)+".tmp")
	err := durable.WriteNew(temp, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
	if err == nil {
		err = p.publish(ctx, temp, rel)
	}
	if err != nil || !p.direct() {
		os.Remove(temp)
	}
	return err
}

// publish gives a complete local file its place.
func (p *place) publish(ctx context.Context, temp, rel string) error {
	if !p.direct() {
		return p.bring(ctx, temp, rel)
	}
	target := p.at(rel)
	if err := p.makeDir(filepath.Dir(target)); err != nil {
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return err
	}
	p.mu.Lock()
	p.dirty[filepath.Dir(target)] = true
	p.mu.Unlock()
	if p.stage == "" {
		p.notifyChange()
	}
	return nil
}

func (p *place) notifyChange() {
	if p.changed != nil {
		p.changed()
	}
}

// bring gives a local file its place, at once and durably.
func (p *place) bring(ctx context.Context, from, rel string) error {
	err := p.files.Publish(ctx, from, p.shown(rel))
	p.notifyChange()
	return err
}

// versioned reports whether another worker may go on with this run at a place without locks: files are then published over
// the versions that were seen.
func (p *place) versioned() bool { return p.away && p.env.Hand != nil }

// bringOver is bring over a version.
func (p *place) bringOver(ctx context.Context, from, rel, tag, mark string) error {
	if !p.versioned() {
		return p.bring(ctx, from, rel)
	}
	err := p.files.PublishOver(ctx, from, p.shown(rel), tag, mark)
	p.notifyChange()
	return err
}

// discard removes a file, durably, if there is one.
func (p *place) discard(ctx context.Context, rel string) error {
	_, err := p.files.Remove(ctx, p.shown(rel))
	p.notifyChange()
	return err
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
	if !p.direct() {
		if r, _, err = p.files.Open(ctx, p.root+"/"+rel); stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return nil, fs.ErrNotExist
		}
	} else {
		r, err = os.Open(p.at(rel))
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

// remove deletes a file; a missing one is no error.
func (p *place) remove(rel string) error {
	if p.away {
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
		group.Go(func() error { return durable.SyncDir(dir) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	clear(p.dirty)
	return nil
}

// lockUnit locks a directory for this stream and those of its execution that may write there too, and removes
// unfinished files of dead runs.
func (p *place) lockUnit(unit string) error {
	if p.locks[unit] != nil || p.remote[unit] {
		return nil
	}
	alone := p.alone && (unit != "" || !p.fixed)
	rel := unit
	if name, one := strings.CutPrefix(p.hidden, hidden+"-"); one {
		rel = path.Join(unit, name)
	}
	if err := p.env.Claims(p.shown(rel), !alone); err != nil {
		return err
	}
	if p.away {
		p.remote[unit] = true
		return nil
	}
	if len(p.locks) >= maxLocks {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: "the stream has items of more than " + strconv.Itoa(maxLocks) + " collections",
			Hint: "split the input by collection, or write ndjson to one file"}
	}
	dir := p.local(path.Join(unit, p.hidden))
	lock, err := p.files.LockAt(filepath.Join(dir, "lock"), p.shown(unit), p.env.Run, alone, func() error { return clearTemporary(dir) })
	if err != nil {
		return err
	}
	p.locks[unit] = lock
	return nil
}

// clearTemporary removes the files that a run which died was writing.
func clearTemporary(dir string) error {
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

// wait locks a directory that others lock for a moment only, to write the documents at the root: it tries for a minute,
// then fails with CodeConflict. done ends the turn among the streams of the execution.
func (p *place) wait(ctx context.Context, unit string) (done func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		&stepwell.Error{Code: stepwell.CodeConflict, Message: "another run is writing to " + p.shown(unit), Hint: "give this step a base_dir of its own"})
	defer cancel()
	for {
		err := p.lockUnit(unit)
		if err == nil {
			return p.turn(unit), nil
		}
		if stepwell.CodeOf(err) != stepwell.CodeConflict {
			return nil, err
		}
		if _, ok := errors.AsType[*stream.Error](err); ok { // another stream of the execution has claimed it
			return nil, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// turn waits until no other stream of the execution publishes to a directory that is locked.
func (p *place) turn(unit string) (done func()) {
	if lock := p.locks[unit]; lock != nil {
		return lock.Publishing()
	}
	return p.files.Turn(p.shown(unit))
}

// held reports whether a directory is locked for this stream; remote ones are not locked at all.
func (p *place) held(unit string) bool { return p.remote[unit] || p.locks[unit] != nil }

// release ends all locks. Of an output of one file the hidden directory goes, too; of others it stays.
func (p *place) release() {
	for unit, lock := range p.locks {
		lock.Release()
		if p.hidden != hidden {
			os.Remove(p.local(path.Join(unit, p.hidden))) // when nothing else is in it
		}
		delete(p.locks, unit)
	}
	os.RemoveAll(p.spare)
}

// relative is the path of a file of the output in it.
func (p *place) relative(dest string) string {
	if p.away {
		return strings.TrimPrefix(dest, p.root+"/")
	}
	rel, err := filepath.Rel(p.root, dest)
	if err != nil {
		return dest
	}
	return filepath.ToSlash(rel)
}
