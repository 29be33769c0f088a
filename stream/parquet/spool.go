package parquet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"

	"github.com/stepwell/stepwell"
)

// spool keeps rows on disk: NDJSON in zstd frames, a frame more with every commit, so that it can be cut
// back to any commit.
type spool struct {
	path string
	file *os.File
	zip  *zstd.Encoder
	open bool // a frame is being written
	rows int64
}

// State is how far a Table has come: it can go on from there (TableOptions.Resume).
type State struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"` // of the spool
}

// ErrStateGone says that a spool is no longer what State tells of.
var ErrStateGone = errors.New("the spool is no longer as it was left")

// openSpool opens the spool at path, cut back to where from tells, or a new one.
func openSpool(path string, from *State) (*spool, error) {
	flags := os.O_CREATE | os.O_RDWR | os.O_TRUNC
	if from != nil {
		flags = os.O_RDWR
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", ErrStateGone, path)
	}
	if err != nil {
		return nil, err
	}
	s := &spool{path: path, file: file}
	if from != nil {
		if err := s.cut(*from); err != nil {
			file.Close()
			return nil, err
		}
	}
	s.zip, err = zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(512<<10))
	if err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

func (s *spool) cut(at State) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < at.Bytes {
		return fmt.Errorf("%w: %s has %d bytes, not %d", ErrStateGone, s.path, info.Size(), at.Bytes)
	}
	if err := s.file.Truncate(at.Bytes); err != nil {
		return err
	}
	s.rows = at.Rows
	_, err = s.file.Seek(at.Bytes, io.SeekStart)
	return err
}

// add appends a row's text.
func (s *spool) add(text []byte) error {
	if bytes.IndexByte(text, '\n') >= 0 {
		compact := jsontext.Value(text).Clone()
		if err := compact.Compact(); err != nil {
			return err
		}
		text = compact
	}
	if !s.open {
		s.zip.Reset(s.file)
		s.open = true
	}
	if _, err := s.zip.Write(text); err != nil {
		return err
	}
	_, err := s.zip.Write([]byte{'\n'})
	s.rows++
	return err
}

// commit ends the frame and makes all rows durable.
func (s *spool) commit(sync bool) (State, error) {
	if s.open {
		if err := s.zip.Close(); err != nil {
			return State{}, err
		}
		s.open = false
	}
	if sync {
		if err := s.file.Sync(); err != nil {
			return State{}, err
		}
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	return State{Rows: s.rows, Bytes: at}, err
}

// each gives the rows that have been committed. The text belongs to the receiver.
func (s *spool) each(ctx context.Context, row func(text []byte) error) error {
	file, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer file.Close()
	zip, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return err
	}
	defer zip.Close()
	in := bufio.NewReaderSize(zip, 256<<10)
	for n := int64(0); n < s.rows; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := in.ReadBytes('\n')
		if err != nil {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("row %d of %d of the spool %s", n, s.rows, s.path), Err: err}
		}
		if err := row(text[:len(text)-1]); err != nil {
			return err
		}
	}
	return nil
}

// close lets go of the file, which stays. Closing twice does nothing.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	if s.open {
		s.zip.Reset(io.Discard) // what has not been committed does not count
		s.open = false
	}
	s.zip.Close()
	err := s.file.Close()
	s.file = nil
	return err
}
