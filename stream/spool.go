package stream

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/zeebo/xxh3"
)

// spool keeps the failure records of a segment in a file, one to a line, until they are reported. The file
// is made with the first of them.
type spool struct {
	path  string
	live  string           // a second name while the segment runs; "": none
	known map[[16]byte]int // records without a place from before the stream was cut off; see add

	mu    sync.Mutex
	file  *os.File
	out   *bufio.Writer
	size  int64
	count int64
	dirty bool // not yet fsynced
	boxes bool // a record says where its item is
}

const maxKnown = 100_000 // of spool.known

// add writes a record and returns the number of records. again: a retried item failed as it did before the stream was
// cut off, and its record is not written twice.
func (s *spool) add(r *failureRecord, raw []byte) (again bool, total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) > 0 && r.At == nil {
		if key := sameness(r); s.known[key] > 0 {
			s.known[key]--
			return true, s.count, nil
		}
	}
	if s.file == nil {
		if err := s.open(os.O_CREATE | os.O_TRUNC); err != nil {
			return false, s.count, err
		}
	}
	s.boxes = s.boxes || r.Box != nil
	err = s.writeLine(append(raw, '\n'))
	return false, s.count, err
}

func (s *spool) writeLine(line []byte) error {
	if _, err := s.out.Write(line); err != nil {
		return err
	}
	s.size += int64(len(line))
	s.count++
	s.dirty = true
	return nil
}

func (s *spool) open(flags int) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	s.file, s.out = f, bufio.NewWriterSize(f, 64<<10)
	if s.live != "" && remove(s.live) == nil && os.MkdirAll(filepath.Dir(s.live), 0o755) == nil {
		_ = os.Link(s.path, s.live) // without links the records are seen at the segment's end
	}
	return nil
}

// sameness hashes a record except its time: equal hashes are the same failure.
func sameness(r *failureRecord) [16]byte {
	c := *r
	c.Time, c.At = "", nil
	raw, err := json.Marshal(&c)
	if err != nil { // texts and numbers only
		panic(err)
	}
	return xxh3.Hash128(raw).Bytes()
}

// sync makes everything durable and returns the length of the file.
func (s *spool) sync() (size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil || !s.dirty {
		return s.size, nil
	}
	if err := s.out.Flush(); err != nil {
		return 0, err
	}
	s.dirty = false
	return s.size, s.file.Sync()
}

// close writes everything out.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.out.Flush(), s.file.Close())
	s.file = nil
	return err
}

// hasBoxes reports whether a record says where its item is.
func (s *spool) hasBoxes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes
}

// failures is how many there are.
func (s *spool) failures() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// resume goes on with the spool of a stream that was cut off. Of its first size bytes it keeps the records that will not
// come again: those before the place where their source goes on, which count for their steps, and all of steps that do
// not run again. The old file is not touched, as a report may still hold it.
func (s *spool) resume(size int64, cursors map[int]cursorNote, done map[string]json.RawMessage, count func(step string)) error {
	if size == 0 {
		return s.drop()
	}
	old, err := os.Open(s.path)
	if err != nil {
		return unlessAbsent(err)
	}
	defer old.Close()
	final := s.path
	s.path += ".new"
	if err := s.open(os.O_CREATE | os.O_TRUNC); err != nil {
		return err
	}
	s.known = map[[16]byte]int{}
	in := bufio.NewReaderSize(io.LimitReader(old, size), 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = s.retain(line, cursors, done, count)
		}
		if err != nil {
			return fmt.Errorf("failures of before: %s: %w", final, err)
		}
	}
	if _, err := s.sync(); err != nil {
		return err
	}
	s.path = final
	return os.Rename(final+".new", final)
}

// retain keeps a record of before, unless it will come again.
func (s *spool) retain(line []byte, cursors map[int]cursorNote, done map[string]json.RawMessage, count func(step string)) error {
	var r failureRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if done[r.Step] != nil {
		s.boxes = s.boxes || r.Box != nil
		return s.writeLine(line)
	}
	if len(r.At) == 2 && r.At[1] > cursors[int(r.At[0])].Seq {
		return nil
	}
	count(r.Step)
	s.boxes = s.boxes || r.Box != nil
	if err := s.writeLine(line); err != nil {
		return err
	}
	if r.At == nil && len(s.known) < maxKnown {
		s.known[sameness(&r)]++
	}
	return nil
}

// drop begins with an empty spool.
func (s *spool) drop() error {
	if s.live != "" {
		return errors.Join(remove(s.path), remove(s.live))
	}
	return remove(s.path)
}
