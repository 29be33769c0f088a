package stream

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell/stream/durable"
)

// maxWaste is how large a checkpoint grows before cursors and states of before are taken out of it, unless
// most of it is keys.
const maxWaste = 16 << 20

// keySize is the approximate size of a key in the file, in bytes.
const keySize = 19

// compact rewrites the file with all its keys and the merged rest. c.mu is held.
func (c *checkpoint) compact() (err error) {
	path := c.path + ".new"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10)
	if err := c.rewrite(out); err != nil {
		return err
	}
	if err := errors.Join(out.Flush(), f.Sync()); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := os.Rename(path, c.path); err != nil {
		return err
	}
	old := c.file
	c.file, c.size = f, size
	return errors.Join(old.Close(), durable.SyncDir(filepath.Dir(c.path)))
}

func (c *checkpoint) rewrite(out io.Writer) error {
	put := func(b block, keys []byte) error {
		meta, err := json.Marshal(b)
		if err != nil {
			return err
		}
		c.buf = appendRawBlock(c.buf[:0], meta, keys)
		_, err = out.Write(c.buf)
		return err
	}
	raw, err := json.Marshal(c.header)
	if err == nil {
		_, err = out.Write(durable.AppendFrame(nil, raw))
	}
	if err != nil {
		return err
	}
	_, err = eachBlock(c.path, func(header) error { return nil }, func(b block, keys []byte) error {
		b.Cursors, b.State, b.Spool, b.Prints, b.Complete, b.Stopped, b.Done = nil, nil, 0, 0, false, "", nil // the latest say it
		return put(b, keys)
	})
	if err != nil {
		return err
	}
	last := c.latest
	for end, state := range c.states {
		last.End, last.State = end, json.RawMessage(state)
		if err := put(last, nil); err != nil {
			return err
		}
	}
	last.End, last.State = 0, nil
	return put(last, nil)
}
