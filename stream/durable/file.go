package durable

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// BlockSize is how much text is compressed and written at once at most, but for the row that ends it.
const BlockSize = 1 << 20

// TokenLength is the length of the token that identifies the spool of a run.
const TokenLength = 12

// ErrGone is returned when files do not match the state that a run would go on from: they were moved or changed.
var ErrGone = errors.New("the output is no longer as it was left")

// Places reads, publishes and removes files wherever they are; files.Places implements it.
type Places interface {
	// OpenFile opens a file as it is, and returns its size. CodeNotFound: there is none.
	OpenFile(ctx context.Context, path string) (io.ReadCloser, int64, error)
	// Publish moves a local file to dest atomically and durably.
	Publish(ctx context.Context, local, dest string) error
	// Remove deletes a file, and reports whether it existed.
	Remove(ctx context.Context, dest string) (bool, error)
}

// Version is what is in a place that several machines write to. The zero value: nothing.
type Version struct {
	Tag  string // changes with the contents
	Mark string // given to PublishOver; "" for what was written in another way
}

// Versions are Places that several machines write to without a lock: a file is published over the version that was seen.
type Versions interface {
	// Version is what is at path.
	Version(ctx context.Context, path string) (Version, error)
	// PublishOver is Publish unless another version than tag is at dest: then it publishes nothing, and fails with
	// CodeConflict. A version with the mark counts as published already.
	PublishOver(ctx context.Context, local, dest, tag, mark string) error
}

// Format is a format of files of rows.
type Format interface {
	// Encoder makes the Encoder of a file with these columns; nil: they are not known yet, or the format has none.
	Encoder(columns []string) Encoder
	// Rows gives the rows of a finished file, or of a complete spool that is no Maker's, until row returns an error, which it
	// returns.
	Rows(ctx context.Context, path string, row func(*item.Value) error) error
	// Joined are the columns of a finished file whose rows come first, and then those of columns that it lacks; nil for
	// formats without columns.
	Joined(ctx context.Context, path string, columns []string) ([]string, error)
}

// Encoder makes the text of a file: the start, each row, and the end.
type Encoder interface {
	Begin(dst []byte) ([]byte, error)
	// Row appends a row; n is how many are there. An error refuses the row, and leaves dst as it was.
	Row(dst []byte, row *item.Value, n int64) ([]byte, error)
	End(dst []byte, n int64) []byte
	// Columns are those settled so far; nil for formats without.
	Columns() []string
}

// Maker is an Encoder of a format that cannot grow: its rows wait as compressed lines until the last has come.
type Maker interface {
	// Learn tells the Maker of a row that the file will hold, and that Row was not called for.
	Learn(row *item.Value) error
	// Make writes the file of all rows, whose texts stay as they are.
	Make(ctx context.Context, f *os.File, rows Texts) error
}

// Texts gives the texts of rows in order, until row returns an error, which it returns.
type Texts = func(ctx context.Context, row func(text []byte) error) error

// State is the stored state of one file. Offset is a position in the spool, before the text after the rows.
type State struct {
	Offset  int64    `json:"offset"`
	Items   int64    `json:"items"`
	Columns []string `json:"columns,omitempty"`
	Size    int64    `json:"size,omitempty"` // of the finished file
	Was     int64    `json:"was,omitempty"`  // the size of the file that it replaces
	Done    bool     `json:"done,omitempty"`
	Later   bool     `json:"later,omitempty"` // it adds to a file that the runs it goes on from have published
	Own     int64    `json:"own,omitempty"`   // rows at the end of the finished file that this run has written, Prior included
	Prior   int64    `json:"prior,omitempty"` // of those, rows that were done before the spool was begun
	First   int64    `json:"first,omitempty"` // rows of that file which count, when others behind them come again
	Some    bool     `json:"some,omitempty"`  // only First count
	No      int64    `json:"no,omitempty"`    // of the spool, from 1; 0: of an older program
	Tag     string   `json:"tag,omitempty"`   // of the Version that the finished file replaces
}

// Cut says that of the Own rows of a finished file only the first noted are known to be done: those behind them come
// again.
func (s *State) Cut(noted int64) {
	s.Prior = noted
	if noted < s.Own {
		s.First, s.Some = s.Items-(s.Own-noted), true
	}
}

// Options say how a File is written.
type Options struct {
	Places    Places
	Format    Format
	Packing   string // Gzip, Zstd or none, of the spool and of the file; a Maker's spool is always compressed
	Remote    bool   // the file is not on this machine
	Overwrite bool   // a file that is there may be replaced
	Data      string // the directory of spools of remote files
}

// File is one file that is written: the spool that holds its rows until it is complete. Not for several
// goroutines.
type File struct {
	Dest  string
	State State
	Items int64 // rows, including those that are not yet in the spool

	o       *Options
	token   string
	over    Versions // the file is published over a version; nil: its place is locked
	spool   string
	packing string
	packer  *packer
	enc     Encoder
	f       *os.File // nil: not open
	pending []byte   // text that is not yet in the spool
	packed  []byte
	fresh   bool // begun in this run: no stored state refers to the spool yet
	dirty   bool // written since the last sync
}

// NewFile makes the File at dest; token identifies its spool. It changes nothing.
func NewFile(o *Options, dest, token string) (*File, error) {
	f := &File{Dest: dest, o: o, token: token, packing: o.Packing}
	if f.isMaker() {
		f.packing = spoolPacking
	}
	dir := filepath.Dir(dest)
	if o.Remote {
		dir = o.Data
	}
	f.spool = filepath.Join(dir, f.hidden("."+token+".part"))
	var err error
	f.packer, err = newPacker(f.packing)
	return f, err
}

// hidden is the name of a hidden file that belongs to the destination.
func (o *File) hidden(suffix string) string {
	if o.o.Remote {
		return Hidden(strings.ReplaceAll(o.Dest, "/", "_"), suffix)
	}
	return Hidden(o.Dest, suffix)
}

// Open reports whether the file takes rows.
func (o *File) Open() bool { return o.f != nil }

// Begin starts an empty spool.
func (o *File) Begin() error {
	o.fresh = true
	o.State = State{Later: o.State.Later, Size: o.State.Size, First: o.State.First, Some: o.State.Some, Prior: o.State.Prior, No: o.State.No + 1}
	o.enc = o.o.Format.Encoder(nil)
	return o.open(0)
}

// GoOn opens the spool of a run that was cut off, truncated to the state, and reports whether there is one that is long
// enough. A Maker learns the rows again.
func (o *File) GoOn(ctx context.Context) (found bool, err error) {
	info, err := os.Stat(o.spool)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() < o.State.Offset {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := o.open(o.State.Offset); err != nil {
		return false, err
	}
	o.enc = o.o.Format.Encoder(o.State.Columns)
	m, ok := o.enc.(Maker)
	if !ok {
		return true, nil
	}
	return true, o.lines(ctx, func(text []byte) error {
		row, err := item.Parse(text)
		if err != nil {
			return err
		}
		return m.Learn(row)
	})
}

// lines gives the rows of a Maker's spool.
func (o *File) lines(ctx context.Context, row func(text []byte) error) error {
	f, err := os.Open(o.spool)
	if err != nil {
		return err
	}
	defer f.Close()
	unpacked, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return err
	}
	defer unpacked.Close()
	in := bufio.NewReaderSize(unpacked, 256<<10)
	for n := range o.State.Items {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		text, err := in.ReadBytes('\n')
		if err != nil {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("row %d of %d of the spool %s", n, o.State.Items, o.spool), Err: err}
		}
		if err := row(text[:len(text)-1]); err != nil {
			return err
		}
	}
	return nil
}

// Clear removes the spools of earlier runs next to the file. Its place must be locked exclusively: a stream that would
// have resumed its spool begins anew.
func (o *File) Clear() error {
	dir, prefix := filepath.Dir(o.spool), o.hidden(".")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		token, isSpool := strings.CutPrefix(name, prefix)
		suffix := filepath.Ext(token)
		if !isSpool || len(token) != TokenLength+len(suffix) || suffix != ".part" && suffix != ".made" || name == filepath.Base(o.spool) {
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
	}
	return err
}

// Drop removes the remaining spool of a finished file.
func (o *File) Drop() error {
	if err := os.Remove(o.spool); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// open opens the spool, cut at offset.
func (o *File) open(offset int64) (err error) {
	if err := MakeDir(filepath.Dir(o.spool)); err != nil {
		return err
	}
	if o.f, err = os.OpenFile(o.spool, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	if err := o.f.Truncate(offset); err != nil {
		return err
	}
	if _, err := o.f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	o.Items, o.dirty = o.State.Items, true
	return SyncDir(filepath.Dir(o.spool))
}

// Refusal is the error of a row that cannot be written, while others can.
type Refusal struct{ error }

// Refuse makes a Refusal.
func Refuse(err error) error { return Refusal{err} }

// Unwrap gives the reason.
func (r Refusal) Unwrap() error { return r.error }

// Put appends a row. A Refusal: the row is left out, and others can follow; any other error ends the file. Text is written to
// the spool when block bytes of it wait.
func (o *File) Put(row *item.Value, block int) (err error) {
	if err := o.start(); err != nil {
		return err
	}
	pending, err := o.enc.Row(o.pending, row, o.Items)
	if err != nil {
		return Refusal{err}
	}
	o.pending = pending
	o.Items++
	if len(o.pending) < block {
		return nil
	}
	return o.flush(block)
}

// start writes the text before the rows.
func (o *File) start() (err error) {
	if o.State.Offset == 0 && len(o.pending) == 0 {
		o.pending, err = o.enc.Begin(o.pending)
	}
	return err
}

// flush writes the pending text to the spool, as a block that can be read by itself.
func (o *File) flush(block int) error {
	if len(o.pending) > 0 {
		text := o.pending
		if o.packing != "" {
			var err error
			if o.packed, err = o.packer.pack(o.packed[:0], o.pending); err != nil {
				return err
			}
			text = o.packed
		}
		if _, err := o.f.Write(text); err != nil {
			return o.full(err)
		}
		o.State.Offset += int64(len(text))
		o.dirty = true
		o.pending = o.pending[:0]
		if cap(o.pending) > 4*block {
			o.pending, o.packed = nil, nil
		}
	}
	o.State.Items, o.State.Columns = o.Items, o.enc.Columns()
	return nil
}

func (o *File) full(err error) error {
	e := &stepwell.Error{Code: stepwell.CodeFailed, Message: "write " + o.Dest, Err: err}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Code, e.Hint = stepwell.CodeUnavailable, "the disk is full; what was written stays, so make room and run it again"
	}
	return e
}

// Sync makes the rows put so far durable.
func (o *File) Sync() error {
	if o.f == nil {
		return nil
	}
	if err := o.flush(BlockSize); err != nil {
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

// Publish closes the spool, moves the finished file that Complete has made to its place, and removes the spool.
func (o *File) Publish(ctx context.Context, made string) error {
	err := o.f.Close()
	o.f = nil
	switch {
	case err != nil:
	case o.over != nil:
		err = o.over.PublishOver(ctx, made, o.Dest, o.State.Tag, o.mark(o.State))
	default:
		err = o.o.Places.Publish(ctx, made, o.Dest)
	}
	if err == nil && made != o.spool {
		err = os.Remove(o.spool)
	}
	return err
}

// mark identifies the rows of a spool in what is published.
func (o *File) mark(s State) string { return fmt.Sprintf("%s-%d", o.token, s.No) }

// seeVersion remembers the version that the file is published over.
func (o *File) seeVersion(ctx context.Context) error {
	if o.over == nil {
		return nil
	}
	v, err := o.over.Version(ctx, o.Dest)
	o.State.Tag = v.Tag
	return err
}

// Leave closes the file. Its spool stays when a state refers to it.
func (o *File) Leave() error {
	if o.f == nil {
		return nil
	}
	err := o.f.Close()
	if o.f = nil; o.fresh {
		err = errors.Join(err, os.Remove(o.spool))
	}
	return err
}

// Discard closes the file and removes its spool.
func (o *File) Discard() error {
	o.fresh = true
	return o.Leave()
}
