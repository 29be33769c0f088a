package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// blockSize is how much text is written, and compressed, at once.
const blockSize = 1 << 20

// fileState is what is kept of one file. Offset is a place in the spool, before what stands behind the
// items; of a finished file also in the file itself, unless it is Parquet.
type fileState struct {
	Offset  int64    `json:"offset"`
	Items   int64    `json:"items"`
	Columns []string `json:"columns,omitempty"` // of CSV
	Size    int64    `json:"size,omitempty"`    // of the finished file
	Was     int64    `json:"was,omitempty"`     // the size of the file that it replaces
	Done    bool     `json:"done,omitempty"`
	Later   bool     `json:"later,omitempty"` // a next version of what ended without items, and so without a file
}

// output is one file that is written: the spool that holds its items until it is complete.
type output struct {
	places *Places
	dest   string
	spool  string
	target target
	packer *packer
	enc    encoder

	lock    *lock
	f       *os.File // nil: not open
	state   fileState
	pending []byte // text that is not yet in the spool
	packed  []byte
	items   int64 // with those in pending
	fresh   bool  // begun in this run: nobody counts on the spool yet
	dirty   bool  // written since the last sync
}

// spoolPath is where the items wait: beside the file, so that it only needs to be renamed, or in data.
func spoolPath(dest, data, token string) string {
	if isS3(dest) {
		return filepath.Join(data, beside(strings.ReplaceAll(dest, "/", "_"), "."+token+".part"))
	}
	return filepath.Join(filepath.Dir(dest), beside(dest, "."+token+".part"))
}

// begin starts an empty file.
func (o *output) begin(ctx context.Context) error {
	if err := o.claim(); err != nil {
		return err
	}
	if err := o.vacant(ctx); err != nil {
		return err
	}
	o.fresh, o.state = true, fileState{}
	o.enc = newEncoder(o.target, nil)
	return o.open(0)
}

// vacant finds out early what would else show when all items are there.
func (o *output) vacant(ctx context.Context) error {
	if isS3(o.dest) {
		if err := o.places.hasBucket(ctx, o.dest); err != nil {
			return err
		}
	} else if info, err := os.Stat(o.dest); err == nil && info.IsDir() {
		return invalid(o.dest+" is a directory", "write the path of a file")
	}
	if o.target.overwrite {
		return nil
	}
	in, _, err := o.places.OpenRaw(ctx, o.dest)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	return errors.Join(in.Close(), &stepwell.Error{Code: stepwell.CodeConflict, Message: o.dest + " is there already", Hint: "take it away, or set `overwrite: true`"})
}

// claim locks the file and removes what runs before have left beside it.
func (o *output) claim() (err error) {
	if o.lock != nil {
		return nil
	}
	if o.lock, err = lockOutput(o.dest); err != nil {
		return err
	}
	dir, prefix := filepath.Dir(o.spool), beside(o.dest, ".")
	if isS3(o.dest) {
		prefix = beside(strings.ReplaceAll(o.dest, "/", "_"), ".")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		token, isSpool := strings.CutPrefix(name, prefix)
		suffix := filepath.Ext(token)
		if !isSpool || len(token) != tokenLength+len(suffix) || suffix != ".part" && suffix != ".made" || name == filepath.Base(o.spool) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// open opens the spool, cut at offset.
func (o *output) open(offset int64) (err error) {
	if o.f, err = os.OpenFile(o.spool, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	if err := o.f.Truncate(offset); err != nil {
		return err
	}
	if _, err := o.f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	o.items, o.dirty = o.state.Items, true
	return syncPath(filepath.Dir(o.spool))
}

// goOn opens the spool of a run that was cut off. ErrStateGone of stream when it is not as it was left.
func (o *output) goOn(ctx context.Context) (found bool, err error) {
	info, err := os.Stat(o.spool)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() < o.state.Offset {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := o.claim(); err != nil {
		return false, err
	}
	if err := o.open(o.state.Offset); err != nil {
		return false, err
	}
	return true, o.learn(ctx)
}

// tidy takes away what a run that died has left of a file that is finished: its lock, and the spool of a next
// version that was never committed.
func (o *output) tidy() error {
	_, noSpool := os.Stat(o.spool)
	_, noLock := os.Stat(lockPath(o.dest))
	if noSpool != nil && noLock != nil {
		return nil
	}
	if err := o.claim(); err != nil || noSpool != nil {
		return err
	}
	return os.Remove(o.spool)
}

// reopen takes a finished file as the beginning of its next version. The file stays as it is until that is
// complete.
func (o *output) reopen(ctx context.Context) error {
	if err := o.claim(); err != nil {
		return err
	}
	o.fresh = true
	o.enc = newEncoder(o.target, o.state.Columns)
	if o.target.format == formatParquet {
		return o.unfold(ctx)
	}
	in, _, err := o.places.OpenRaw(ctx, o.dest)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := o.open(0); err != nil {
		return err
	}
	n, err := io.CopyN(o.f, &abortable{ctx, in}, o.state.Offset)
	if err != nil {
		return fmt.Errorf("copy %d of %d bytes: %w", n, o.state.Offset, err)
	}
	o.state.Done = false
	return nil
}

// refusal is an item that cannot be written, while others can.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// put takes an item. A refusal is not of the file.
func (o *output) put(it *item.Value, block int) (err error) {
	if err := o.start(); err != nil {
		return err
	}
	pending, err := o.enc.item(o.pending, it, o.items)
	if err != nil {
		return refusal{err}
	}
	o.pending = pending
	o.items++
	if len(o.pending) < block {
		return nil
	}
	return o.flush(block)
}

// start writes what stands before the items.
func (o *output) start() (err error) {
	if o.state.Offset == 0 && len(o.pending) == 0 {
		o.pending, err = o.enc.begin(o.pending)
	}
	return err
}

// flush puts the pending text into the spool, as a block that stands for itself.
func (o *output) flush(block int) error {
	if len(o.pending) > 0 {
		text := o.pending
		if o.target.packing != "" || o.target.format == formatParquet {
			var err error
			if o.packed, err = o.packer.pack(o.packed[:0], o.pending); err != nil {
				return err
			}
			text = o.packed
		}
		if _, err := o.f.Write(text); err != nil {
			return o.full(err)
		}
		o.state.Offset += int64(len(text))
		o.dirty = true
		o.pending = o.pending[:0]
		if cap(o.pending) > 4*block {
			o.pending, o.packed = nil, nil
		}
	}
	o.state.Items = o.items
	if t, ok := o.enc.(*tableEncoder); ok {
		o.state.Columns = t.names
	}
	return nil
}

func (o *output) full(err error) error {
	e := &stepwell.Error{Code: stepwell.CodeFailed, Message: "write " + o.dest, Err: err}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Code, e.Hint = stepwell.CodeUnavailable, "the disk is full; what was written stays, so make room and run it again"
	}
	return e
}

// sync makes what was put durable.
func (o *output) sync() error {
	if o.f == nil {
		return nil
	}
	if err := o.flush(blockSize); err != nil {
		return err
	}
	if !o.dirty {
		return nil
	}
	if err := o.f.Sync(); err != nil {
		return o.full(err)
	}
	o.dirty, o.fresh = false, false
	return nil
}

// complete makes the finished file, which is still hidden: the spool with its end, or what is made of it.
// The state stays that before the end.
func (o *output) complete(ctx context.Context) (made string, err error) {
	if err := o.start(); err != nil {
		return "", err
	}
	if err := o.flush(blockSize); err != nil {
		return "", err
	}
	made = o.spool
	if p, ok := o.enc.(*parquetEncoder); ok {
		made = strings.TrimSuffix(o.spool, ".part") + ".made"
		if err := o.sync(); err != nil {
			return "", err
		}
		if err := o.fold(ctx, p, made); err != nil {
			return "", err
		}
	} else {
		before := o.state
		o.pending = o.enc.end(o.pending, o.items)
		if err := o.flush(blockSize); err != nil {
			return "", err
		}
		o.state = before
		if err := o.f.Sync(); err != nil {
			return "", o.full(err)
		}
	}
	info, err := os.Stat(made)
	if err != nil {
		return "", err
	}
	o.state.Was, o.state.Size, o.state.Done = o.state.Size, info.Size(), true
	return made, nil
}

// publish puts the finished file in its place.
func (o *output) publish(ctx context.Context, made string) error {
	err := o.f.Close()
	o.f = nil
	if err == nil {
		err = o.places.Publish(ctx, made, o.dest)
	}
	if err == nil && made != o.spool {
		err = os.Remove(o.spool)
	}
	return err
}

// removeOld takes away the file that is in the place of one without items, if it may be replaced.
func (o *output) removeOld(ctx context.Context) (was bool, err error) {
	if !o.target.overwrite {
		return false, nil // there was none, or begin had failed
	}
	return o.places.remove(ctx, o.dest)
}

// leave lets go of the file. Its spool stays when a state tells of it.
func (o *output) leave() error {
	var errs []error
	if o.f != nil {
		errs = append(errs, o.f.Close())
		if o.f = nil; o.fresh {
			errs = append(errs, os.Remove(o.spool))
		}
	}
	if o.lock != nil {
		errs = append(errs, o.lock.release())
		o.lock = nil
	}
	return errors.Join(errs...)
}
