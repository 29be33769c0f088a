package scaffold

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
)

// journal stores a gatherer's state across a crash: earlier items do not come again. A line is written, without fsync,
// before the item passes; so a killed process loses nothing, while a machine that loses its power may lose the last
// seconds.
type journal struct {
	path string
	file *os.File
	size int64 // since it was last written anew
}

type journalLine struct {
	Collection string `json:"c"`
	Extent     extent `json:"e"`
}

// maxJournal is the size at which a journal is rewritten; its size is then bounded by the number of collections.
const maxJournal = 4 << 20

// openJournal reads the journal into covered. A truncated line is the last one, and its item has not passed.
func openJournal(path string, covered map[string]*extent) (*journal, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(old))
	for lines.Scan() {
		var line journalLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if covered[line.Collection] == nil {
			covered[line.Collection] = &extent{}
		}
		covered[line.Collection].add(line.Extent)
	}
	j := &journal{path: path}
	return j, j.rewrite(covered)
}

// recordExtent adds the extent of an item.
func (j *journal) recordExtent(collection string, e extent, covered map[string]*extent) error {
	text, err := json.Marshal(journalLine{collection, e})
	if err != nil {
		return err
	}
	n, err := j.file.Write(append(text, '\n'))
	if j.size += int64(n); err != nil || j.size < maxJournal {
		return err
	}
	return j.rewrite(covered)
}

// rewrite replaces the journal by the current state.
func (j *journal) rewrite(covered map[string]*extent) error {
	if err := j.close(); err != nil {
		return err
	}
	var b bytes.Buffer
	for collection, e := range covered {
		text, err := json.Marshal(journalLine{collection, *e})
		if err != nil {
			return err
		}
		b.Write(append(text, '\n'))
	}
	if err := os.WriteFile(j.path+".new", b.Bytes(), 0o600); err != nil {
		return err
	}
	if err := os.Rename(j.path+".new", j.path); err != nil {
		return err
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	j.file, j.size = file, 0
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
