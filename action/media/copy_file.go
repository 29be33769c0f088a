package media

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"

	"github.com/stepwell/stepwell/action"
)

const (
	blockSize = 1 << 20
	maxTries  = 3
)

func recordKey(rel string) string { return "file/" + rel }

// recall finds the record of an earlier attempt for a file, and whether both ends are unchanged since. The record is
// written before the file gets its name, so a record alone proves nothing.
func (g *ingest) recall(e *entry) error {
	raw, ok, err := g.call.Host.Recall(g.ctx, recordKey(e.rel))
	if err != nil || !ok {
		return err
	}
	var s Stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("record of %s: %w", e.rel, err)
	}
	src, err := g.src.Stat(e.rel)
	if err == nil && (src.Size() != s.Size || stamp(src.ModTime()) != s.MTime) {
		return nil
	}
	e.old = &s
	dst, err := g.dst.Lstat(s.Path)
	if err == nil && dst.Mode().IsRegular() && dst.Size() == s.Size && stamp(dst.ModTime()) == s.StoredMTime {
		e.rec = &s
	}
	return nil
}

// copyEntry makes one file safe and starts its step, with a few tries.
func (g *ingest) copyEntry(e *entry) (Stored, error) {
	if e.rec != nil {
		g.indexStored(*e.rec)
		return *e.rec, g.spawn(*e.rec)
	}
	for try := 1; ; try++ {
		s, err := g.tryEntry(e)
		if err == nil {
			g.indexStored(s)
			return s, g.spawn(s)
		}
		if err = g.classify(err); try == maxTries || !worthRetry(err) || g.ctx.Err() != nil {
			return s, err
		}
		g.call.Host.Log(slog.LevelWarn, "retrying", slog.String("path", e.rel), slog.Int("try", try), slog.String("error", err.Error()))
		_ = action.Pause(g.ctx, time.Duration(try)*g.opts.RetryPause) // the loop sees when ctx has ended
	}
}

func (g *ingest) indexStored(s Stored) {
	g.index[s.Size] = append(g.index[s.Size], known{path: s.Path, sha256: s.SHA256, ours: s.Status != statusExisting})
}

func (g *ingest) spawn(s Stored) error {
	if g.p.spawn == nil || s.Status != statusCopied {
		return nil
	}
	if err := g.call.Spawn(g.ctx, g.p.spawn.step(s, g.p.Destination)); err != nil {
		return &stopError{fmt.Errorf("spawn a step for %s: %w", s.Source, err)}
	}
	g.res.Spawned++
	return nil
}

// tryEntry finds the content in the destination, or copies it there.
func (g *ingest) tryEntry(e *entry) (Stored, error) {
	info, err := g.src.Stat(e.rel) // before opening: a pipe would block
	if err != nil {
		return Stored{}, sourceFault(err)
	}
	if !info.Mode().IsRegular() {
		return Stored{}, stepwell.Invalid("list files alone", "%s is not a regular file", e.rel)
	}
	s := Stored{Source: e.rel, Size: info.Size(), MTime: stamp(info.ModTime()), Status: statusCopied}
	e.size = info.Size()
	want, err := g.targetName(e.rel, info)
	if err != nil {
		return Stored{}, err
	}
	lazy := &lazyHash{g: g, rel: e.rel, size: s.Size}
	if found, ok, err := g.findKnown(e, s, lazy); err != nil || ok {
		return found, err
	}
	for range maxNames {
		target, same, err := g.freeName(s, want, lazy)
		if err != nil {
			return Stored{}, err
		}
		if same {
			status, err := g.statusOf(e, target, lazy.sum)
			if err != nil {
				return Stored{}, err
			}
			return g.record(s, target, lazy.sum, status)
		}
		stored, taken, err := g.copyTo(s, target, info, lazy.sum)
		if !taken {
			return stored, err
		}
	}
	return Stored{}, &stepwell.Error{Code: stepwell.CodeConflict, Message: "names in the destination are taken faster than they are found"}
}

// statusOf distinguishes a file stored by another attempt of this step from one that was there before. An attempt that has been replaced may
// still be running: it records a file before it gives it its name, so that the record is looked for again once the name is seen.
func (g *ingest) statusOf(e *entry, target, sum string) (string, error) {
	if e.old == nil {
		if err := g.recall(e); err != nil {
			return "", &stopError{err}
		}
	}
	if e.old != nil && e.old.Status == statusCopied && e.old.Path == target && e.old.SHA256 == sum {
		return statusCopied, nil
	}
	return statusExisting, nil
}

// findKnown looks for the same content among the stored files of that size. The stored file is read again: only its
// current content makes a copy needless.
func (g *ingest) findKnown(e *entry, s Stored, lazy *lazyHash) (Stored, bool, error) {
	if !g.p.Dedupe {
		return s, false, nil
	}
	for _, k := range g.index[s.Size] {
		sum, err := lazy.get()
		if err != nil {
			return s, false, err
		}
		if k.sha256 != sum {
			continue
		}
		if stored, err := g.hashStored(k.path, s.Size); err != nil || stored != sum {
			continue // gone or damaged: copy it
		}
		status := statusDuplicate
		if !k.ours {
			if status, err = g.statusOf(e, k.path, sum); err != nil {
				return s, false, err
			}
		}
		found, err := g.record(s, k.path, sum, status)
		return found, true, err
	}
	return s, false, nil
}

// copyTo writes the part file, verifies it and gives it its name. taken: the name was used meanwhile. A part that is gone was taken for a leftover
// by another attempt of this step, which is at work too: another try finds the file stored, or stores it.
func (g *ingest) copyTo(s Stored, target string, info fs.FileInfo, expect string) (_ Stored, taken bool, err error) {
	part := partPrefix(g.id) + uuid.NewString()[:8] + ".part"
	defer func() {
		if rmErr := removeIfThere(g.dst, part); rmErr != nil && err == nil {
			err = destinationFault(rmErr)
		}
	}()
	stored, taken, err := g.storePart(s, part, target, info, expect)
	if f, ok := errors.AsType[*fault](err); ok && f.side == "destination" && notThere(f.err) {
		if _, statErr := g.dst.Lstat(part); notThere(statErr) {
			return s, false, stepwell.Errorf(stepwell.CodeUnavailable, "another attempt of this step may be at work", "the unfinished copy of %s has been removed from the destination", s.Source)
		}
	}
	return stored, taken, err
}

func (g *ingest) storePart(s Stored, part, target string, info fs.FileInfo, expect string) (_ Stored, taken bool, err error) {
	sum, err := g.writePart(s, part, info)
	if err != nil {
		return s, false, err
	}
	if expect != "" && expect != sum {
		return s, false, errChanged(s.Source)
	}
	if g.p.Verify {
		back, err := g.hashStored(part, s.Size)
		if err != nil {
			return s, false, destinationFault(err)
		}
		if back != sum {
			return s, false, &stepwell.Error{Code: stepwell.CodeFailed, Message: "the copy differs from what was read from the source",
				Hint: "check the destination's disk, cable and memory"}
		}
	}
	if s, err = g.recordAs(s, part, target, sum, statusCopied); err != nil {
		return s, false, err
	}
	if taken, err = g.publish(part, target); err == nil && !taken {
		g.claimed[target] = s.Source
	}
	return s, taken, err
}

// writePart copies the source into a new file, flushed to disk, and returns the hash of the bytes read.
func (g *ingest) writePart(s Stored, part string, info fs.FileInfo) (string, error) {
	src, err := g.ops.open(g.src, s.Source)
	if err != nil {
		return "", sourceFault(err)
	}
	defer src.Close()
	dst, err := g.ops.create(g.dst, part)
	if err != nil {
		return "", destinationFault(err)
	}
	sum := sha256.New()
	atMost := io.LimitReader(src, s.Size+1) // a recording that grows as fast as it is read would never end
	n, err := copyBlocks(g.ctx, io.MultiWriter(sum, dst), atMost, func(n int64) { g.progress(n, s.Source) })
	if err == nil { // the time before the flush, which then keeps it
		if err = g.dst.Chtimes(part, time.Time{}, info.ModTime()); err == nil {
			err = dst.Sync()
		}
		if err != nil {
			err = destinationFault(err)
		}
	}
	if closeErr := dst.Close(); closeErr != nil && err == nil {
		err = destinationFault(closeErr)
	}
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), g.unchanged(src, s.Source, n, info)
}

// unchanged compares the source with its state before it was read, by handle and by name.
func (g *ingest) unchanged(src sourceFile, rel string, n int64, before fs.FileInfo) error {
	open, err := src.Stat()
	if err != nil {
		return sourceFault(err)
	}
	named, err := g.src.Stat(rel)
	if err != nil {
		return sourceFault(err)
	}
	for _, now := range []fs.FileInfo{open, named} {
		if now.Size() != n || n != before.Size() || !now.ModTime().Equal(before.ModTime()) || !os.SameFile(now, before) {
			return errChanged(rel)
		}
	}
	return nil
}

func errChanged(rel string) error {
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: rel + " changed while it was copied", Hint: "copy when the recording has ended"}
}

// publish gives the part its name without replacing anything, and flushes the directory. A hard
// link refuses a taken name atomically; where there are none (exFAT), a look and a rename must do.
func (g *ingest) publish(part, target string) (taken bool, err error) {
	dir := path.Dir(target)
	if err := g.makeDir(dir); err != nil {
		return false, destinationFault(err)
	}
	err = g.ops.link(g.dst, part, target)
	switch {
	case errors.Is(err, fs.ErrExist):
		return true, nil
	case noHardLinks(err):
		if _, err := g.dst.Lstat(target); err == nil {
			return true, nil
		}
		err = g.dst.Rename(part, target)
	case err == nil:
		err = removeIfThere(g.dst, part)
	}
	if err == nil {
		err = syncDir(g.dst, dir)
	}
	if err != nil {
		return false, destinationFault(err)
	}
	return false, nil
}

// makeDir makes a directory and flushes the way to it, once per ingest.
func (g *ingest) makeDir(dir string) error {
	if g.synced[dir] || dir == "." {
		return nil
	}
	if err := g.dst.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; d != "."; {
		g.synced[d] = true
		d = path.Dir(d)
		if err := syncDir(g.dst, d); err != nil {
			return err
		}
	}
	return nil
}

// record keeps the outcome of a file that is in the destination already.
func (g *ingest) record(s Stored, target, sum, status string) (Stored, error) {
	return g.recordAs(s, target, target, sum, status)
}

// recordAs keeps the outcome for all attempts; at is where the content is now.
func (g *ingest) recordAs(s Stored, at, target, sum, status string) (Stored, error) {
	info, err := g.dst.Lstat(at)
	if err != nil {
		return s, destinationFault(err)
	}
	s.Path, s.SHA256, s.Status = target, sum, status
	s.HashDate, s.StoredMTime = stamp(time.Now()), stamp(info.ModTime())
	raw, err := json.Marshal(s)
	if err == nil {
		err = g.call.Host.Record(g.ctx, recordKey(s.Source), raw)
	}
	if err != nil {
		return s, &stopError{fmt.Errorf("record %s: %w", s.Source, err)}
	}
	return s, nil
}

// hashStored reads a file of the destination back, from the disk as far as the system lets us. One of
// another size has the hash "".
func (g *ingest) hashStored(name string, size int64) (string, error) {
	f, err := g.dst.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() != size {
		return "", nil // no hash, equal to none
	}
	dropCache(f)
	return hashOf(g, f)
}

func hashOf(g *ingest, r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := copyBlocks(g.ctx, sum, r, nil); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// lazyHash reads the source for its hash when somebody needs it, at most once per try.
type lazyHash struct {
	g    *ingest
	rel  string
	size int64
	sum  string
}

func (l *lazyHash) get() (string, error) {
	if l.sum != "" {
		return l.sum, nil
	}
	f, err := l.g.ops.open(l.g.src, l.rel)
	if err != nil {
		return "", sourceFault(err)
	}
	defer f.Close()
	l.sum, err = hashOf(l.g, io.LimitReader(f, l.size+1))
	return l.sum, err
}
