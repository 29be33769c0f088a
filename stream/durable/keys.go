package durable

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Key stands for the key of a row.
type Key [16]byte

// Verdict is the answer of Keys about a row.
type Verdict int

// The verdicts.
const (
	Fresh    Verdict = iota // the key is new: write it
	Repeated                // the same row is there: nothing to write
	LeftOut                 // another row has the key and is kept
	Replaced                // another row has the key and is left out: write this one
	Refused                 // another row has the key: this one fails
)

// Judge is the verdict on a row whose key another row of the same run has.
func (k Keep) Judge(same bool) Verdict {
	switch {
	case same:
		return Repeated
	case k == KeepFirst:
		return LeftOut
	case k == KeepLast:
		return Replaced
	}
	return Refused
}

// Keys are the keys of the rows of a file that grows: 32 bytes each in memory, and 24 in a journal from which a
// run that goes on learns them again. Not for several goroutines.
type Keys struct {
	keep Keep
	rows map[Key]keyed
	all  int64 // rows, those left out included
	file *os.File
	out  *bufio.Writer
}

// keyed is the row that has a key now.
type keyed struct {
	row     int64
	content uint64
}

const keySize = 24

// OpenKeys opens the journal at path with the keys of the first rows rows, and truncates the rest. ErrGone when it has
// fewer.
func OpenKeys(path string, rows int64, keep Keep) (*Keys, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	k := &Keys{keep: keep, rows: map[Key]keyed{}, file: f, out: bufio.NewWriterSize(f, 64<<10)}
	if err := k.load(rows); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return k, nil
}

func (k *Keys) load(rows int64) error {
	in := bufio.NewReaderSize(io.LimitReader(k.file, rows*keySize), 64<<10)
	var entry [keySize]byte
	for row := range rows {
		if _, err := io.ReadFull(in, entry[:]); err != nil {
			return fmt.Errorf("%w: %s has %d keys of %d", ErrGone, k.file.Name(), row, rows)
		}
		k.rows[Key(entry[:16])] = keyed{row, binary.LittleEndian.Uint64(entry[16:])}
	}
	k.all = rows
	if err := k.file.Truncate(rows * keySize); err != nil {
		return err
	}
	_, err := k.file.Seek(rows*keySize, io.SeekStart)
	return err
}

// Judge judges a row by its key and a hash of its content, and changes nothing.
func (k *Keys) Judge(key Key, content uint64) Verdict {
	old, known := k.rows[key]
	if !known {
		return Fresh
	}
	return k.keep.Judge(old.content == content)
}

// Add takes in the key of row number row, which has been written.
func (k *Keys) Add(key Key, content uint64, row int64) error {
	k.rows[key] = keyed{row, content}
	k.all++
	var entry [keySize]byte
	copy(entry[:], key[:])
	binary.LittleEndian.PutUint64(entry[16:], content)
	_, err := k.out.Write(entry[:])
	return err
}

// LeftOut is how many rows have lost their key to a later one.
func (k *Keys) LeftOut() int64 { return k.all - int64(len(k.rows)) }

// Has reports whether a row has the key.
func (k *Keys) Has(key Key) bool {
	_, known := k.rows[key]
	return known
}

// Sync makes the keys durable.
func (k *Keys) Sync() error {
	if err := k.out.Flush(); err != nil {
		return err
	}
	return k.file.Sync()
}

// Current returns a function that reports for each row in order whether it still has its key.
func (k *Keys) Current() (next func() (bool, error), err error) {
	if err := k.out.Flush(); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(k.file, 0, 1<<62), 64<<10)
	row := int64(-1)
	return func() (bool, error) {
		var entry [keySize]byte
		if _, err := io.ReadFull(in, entry[:]); err != nil {
			return false, fmt.Errorf("%s: %w", k.file.Name(), err)
		}
		row++
		return k.rows[Key(entry[:16])].row == row, nil
	}, nil
}

// Close lets go of the journal, and removes it when it is of no more use.
func (k *Keys) Close(remove bool) error {
	err := k.file.Close()
	if remove {
		err = errors.Join(err, os.Remove(k.file.Name()))
	}
	return err
}
