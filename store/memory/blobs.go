package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Blobs keeps large values in memory, by the hash of their content.
type Blobs struct {
	now   func() time.Time
	mu    sync.RWMutex
	blobs map[string]*blob
}

type blob struct {
	value  []byte
	needed time.Time // when it was last
}

var (
	_ store.Blobs   = (*Blobs)(nil)
	_ store.Sweeper = (*Blobs)(nil)
)

func newBlobs(now func() time.Time) *Blobs { return &Blobs{now: now, blobs: map[string]*blob{}} }

// Put implements store.Blobs.
func (b *Blobs) Put(ctx context.Context, value []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(value)
	hash := hex.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blobs[hash] == nil {
		b.blobs[hash] = &blob{value: slices.Clone(value)}
	}
	b.blobs[hash].needed = b.now()
	return fmt.Sprintf("@sha256:%s:%d", hash, len(value)), nil
}

// Load implements store.Blobs.
func (b *Blobs) Load(ctx context.Context, ref string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	hash, size, err := store.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	found := b.blobs[hash]
	switch {
	case found == nil:
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "there is no blob %s", hash)
	case int64(len(found.value)) != size:
		return nil, stepwell.Errorf(stepwell.CodeInternal, "", "the blob %s has %d bytes instead of %d", hash, len(found.value), size)
	}
	return slices.Clone(found.value), nil
}

// Touch implements store.Sweeper.
func (b *Blobs) Touch(hash string, at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.blobs[hash]; found != nil {
		found.needed = at
	}
	return nil
}

// Sweep implements store.Sweeper.
func (b *Blobs) Sweep(ctx context.Context, part byte, before time.Time, used func(context.Context, []string) (map[string]bool, error)) (removed int, err error) {
	old := b.old(part, before)
	if len(old) == 0 {
		return 0, nil
	}
	keep, err := used(ctx, old) // without the lock: a commit may hold the store's and touch a blob
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, hash := range old {
		if x := b.blobs[hash]; !keep[hash] && x != nil && x.needed.Before(before) {
			delete(b.blobs, hash)
			removed++
		}
	}
	return removed, nil
}

// old are the blobs of a part that were last needed before a time.
func (b *Blobs) old(part byte, before time.Time) (hashes []string) {
	begin := hex.EncodeToString([]byte{part})
	b.mu.RLock()
	defer b.mu.RUnlock()
	for hash, x := range b.blobs {
		if hash[:2] == begin && x.needed.Before(before) {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}
