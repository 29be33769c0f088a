package action

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"sync"
)

// Tape is a folder of recorded calls of things outside, requests and commands, for tests that call nothing. Calls that look the same are
// numbered, so that a poll gets its answers in order. It may be used by any goroutine.
type Tape struct {
	Dir string
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

// Reset begins the count of all calls anew, as a new execution does.
func (t *Tape) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = nil
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
