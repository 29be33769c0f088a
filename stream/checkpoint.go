package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// checkpoint is the file in which a segment records its progress (semantics §6). It is append-only, in blocks
// that count as a whole or not at all:
//
//	an item's key is in it ⇔ its end has it durably, and its state says so
//	a source's cursor is in it ⇒ all items before the cursor are durable at their ends, dropped or failed
//	the spool's length is in it ⇒ so many bytes of it are durable; that of the footprints likewise
//
// A key has the position of its item in its source: a resumed stream looks only for keys behind the cursor.
type checkpoint struct {
	path   string
	header header

	mu     sync.Mutex
	file   *os.File
	buf    []byte
	latest block          // the merged blocks so far: the cursors, the spool, whether it is complete
	states map[int]string // last noted, by end
	prints int64          // bytes of the segment's footprints that count
	size   int64          // of the file
	keys   int64          // in it

	saved func(must bool) error // is told of each durable block; nil: nobody is
}

// header is the first block.
type header struct {
	Format   string `json:"format"`
	Version  int    `json:"version"`
	Config   string `json:"config"` // hash of the segment's modules and configs
	Workflow string `json:"workflow"`
	Entry    string `json:"entry"`
	Segment  string `json:"segment"`
	Run      string `json:"run,omitempty"` // the execution that began the file
}

const (
	checkpointFormat  = "stepwell stream checkpoint"
	checkpointVersion = 1
)

// cursorNote is how far a source has come.
type cursorNote struct {
	Root   int             `json:"root"`
	Seq    int64           `json:"seq"`  // of the last item or failure before
	Read   int64           `json:"read"` // items before
	Cursor json.RawMessage `json:"cursor"`
}

// block is the header of one block: all of it except the keys.
type block struct {
	Begin    bool            `json:"begin,omitempty"` // a later run begins: cursors and failures of before do not count
	Open     bool            `json:"open,omitempty"`  // the components are opened: items are counted from 0 again
	Run      string          `json:"run,omitempty"`   // by this execution, of Open
	Cursors  []cursorNote    `json:"cursors,omitempty"`
	End      int             `json:"end"`             // of which State and the keys are
	State    json.RawMessage `json:"state,omitempty"` // absent: as before
	Spool    int64           `json:"spool"`
	Prints   int64           `json:"prints,omitempty"` // length of the footprints of the execution Run
	Complete bool            `json:"complete,omitempty"`
	// Stopped is the execution whose run failed here, or anyone after a permanent error: any run but its next attempt
	// is a later run, which retries the failures.
	Stopped string `json:"stopped,omitempty"`
	// Done (set with Stopped) has the outcomes of steps that completed although others failed: the next attempt skips
	// them.
	Done    map[string]json.RawMessage `json:"done,omitempty"`
	Keys    int                        `json:"keys,omitempty"`    // how many, those of refused items included
	From    int64                      `json:"from,omitempty"`    // items written to the end before the first of the keys
	Durable int64                      `json:"durable,omitempty"` // how many of the items written to the end are: keys behind do not count yet
	Late    []int64                    `json:"late,omitempty"`    // items refused, by number, whose keys were written before
}

// anyone, as block.Stopped, is every execution.
const anyone = "*"

// lockCheckpoint makes sure that the segment runs once at a time.
func lockCheckpoint(path string) (*flock.Flock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(path + ".lock")
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock of the checkpoint: %w", err)
	}
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the same stream is running already",
			Hint: "wait for the other run, or give this one another name, output or checkpoint directory"}
	}
	return lock, nil
}

// openCheckpoint reads the file and prepares it for appending. A damaged file is set aside and reported to warn.
func openCheckpoint(path string, h header, ends int, later func(*past) bool, warn func(string)) (*checkpoint, *past, error) {
	h.Format, h.Version = checkpointFormat, checkpointVersion
	c := &checkpoint{path: path, header: h, states: map[int]string{}}
	p, size, err := readCheckpoint(path, h, ends, later)
	if d, ok := errors.AsType[*durable.Damage](err); ok {
		aside := fmt.Sprintf("%s.corrupt-%s", path, time.Now().UTC().Format("20060102T150405.000"))
		if err := os.Rename(path, aside); err != nil {
			return nil, nil, err
		}
		warn(fmt.Sprintf("the checkpoint is damaged (%s) and was set aside as %s; the stream starts over", d, aside))
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		p, size, err = &past{}, 0, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if size == 0 {
		return c, p, c.create()
	}
	for end, state := range p.states {
		c.states[end] = string(state)
	}
	c.size, c.keys, c.latest = size, p.keys, block{Spool: p.spool, Prints: p.prints, Complete: p.complete, Stopped: p.stopped, Done: p.done}
	for _, note := range p.cursors {
		c.latest.Cursors = append(c.latest.Cursors, note)
	}
	c.file, err = os.OpenFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err = c.file.Truncate(size); err == nil { // a torn tail
		_, err = c.file.Seek(size, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.file.Close())
	}
	return c, p, nil
}

// create begins an empty file.
func (c *checkpoint) create() error {
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	c.file, c.size, c.keys, c.latest = f, 0, 0, block{}
	raw, err := json.Marshal(c.header)
	if err != nil {
		return err
	}
	c.buf = durable.AppendFrame(c.buf[:0], raw)
	if err := c.write(true); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(c.path))
}

// reset empties the file but for its header.
func (c *checkpoint) reset() error {
	if err := c.file.Close(); err != nil {
		return err
	}
	clear(c.states)
	return c.create()
}

// write appends buf to the file, and fsyncs it if sync is set.
func (c *checkpoint) write(sync bool) error {
	if _, err := c.file.Write(c.buf); err != nil {
		return err
	}
	c.size += int64(len(c.buf))
	if !sync {
		return nil
	}
	return c.file.Sync()
}

// append adds a block, and makes everything durable when sync is asked for. c.mu is held.
func (c *checkpoint) append(b block, keys []entry, sync bool) error {
	b.Keys, b.Prints = len(keys), c.prints
	c.mergeBlock(b)
	meta, err := json.Marshal(b)
	if err != nil {
		return err
	}
	c.buf = appendBlock(c.buf[:0], meta, keys)
	if err := c.write(sync); err != nil || !sync {
		return err
	}
	if c.size > maxWaste && c.size > 2*keySize*c.keys {
		if err := c.compact(); err != nil {
			return err
		}
	}
	if c.saved == nil {
		return nil
	}
	return c.saved(b.Complete || b.Stopped != "")
}

func (c *checkpoint) mergeBlock(b block) {
	if b.Begin {
		c.latest.Cursors = nil
	}
	for _, note := range b.Cursors {
		c.latest.Cursors = slices.DeleteFunc(c.latest.Cursors, func(old cursorNote) bool { return old.Root == note.Root })
		c.latest.Cursors = append(c.latest.Cursors, note)
	}
	if b.State != nil {
		c.states[b.End] = string(b.State)
	}
	c.latest.Spool, c.latest.Prints = b.Spool, b.Prints
	c.latest.Complete, c.latest.Stopped, c.latest.Done = b.Complete, b.Stopped, outcomes(c.latest.Done, &b)
	c.keys += int64(b.Keys)
}

func (c *checkpoint) close() error {
	if c == nil || c.file == nil {
		return nil
	}
	return c.file.Close()
}
