package action

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/stepwell/stepwell"
)

// ErrDeadline is the cause with which the context of an attempt ends when the step's timeout has passed. A handler that returns it has
// timed out too: a recording of one that did plays that way.
var ErrDeadline = stepwell.Errorf(stepwell.CodeTimeout, "", "the step's timeout passed")

// Tape is a folder of recorded calls of things outside, requests and commands, for tests that call nothing. Calls that look the same are
// numbered, so that a poll gets its answers in order. It may be used by any goroutine.
type Tape struct {
	// Dir is the folder. Begin changes it.
	Dir string
	// Root is the folder that recordings of other pipelines are in too, for the hint of where a call was recorded. Defaults to Dir.
	Root string
	// Hide takes secrets out of a text before it is recorded, and before it is looked for. Defaults to leaving it.
	Hide func(text string) string
	// Learn is told of values that turn out to be secret, such as the credential of a request. Defaults to nobody.
	Learn func(values ...string)
	// Secret reports whether the value of a variable or parameter of that name is one. Defaults to none being so.
	Secret func(name string) bool

	mu   sync.Mutex
	seen map[string]int
}

// Next is the file of the next call of a kind that has this key: the same calls in the same order have the same files. n counts the
// calls with the key from 1.
func (t *Tape) Next(kind, key string) (file string, n int) {
	sum := sha256.Sum256([]byte(key))
	name := kind + hex.EncodeToString(sum[:12])
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	t.seen[name]++
	return filepath.Join(t.Dir, fmt.Sprintf("%s-%d.json", name, t.seen[name])), t.seen[name]
}

// Begin begins the count of all calls anew, as a new execution does, whose recordings are in a folder.
func (t *Tape) Begin(dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Dir, t.seen = dir, nil
}

// Folders are the folder of the recordings and the one that those of other pipelines are in too.
func (t *Tape) Folders() (dir, root string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Dir, cmp.Or(t.Root, t.Dir)
}

// Write records a call in the file that Next gives for it.
func (t *Tape) Write(kind, key string, recording any) error {
	raw, err := json.MarshalIndent(recording, "", "  ")
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	file, _ := t.Next(kind, key)
	if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
		err = os.WriteFile(file, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// Hidden is a text without secrets.
func (t *Tape) Hidden(text string) string {
	if t.Hide == nil {
		return text
	}
	return t.Hide(text)
}

// Learned makes values known as secrets.
func (t *Tape) Learned(values ...string) {
	if t.Learn != nil {
		t.Learn(values...)
	}
}
