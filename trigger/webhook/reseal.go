package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell/store"
)

// Reseal seals the secrets of signed webhooks again that were sealed with an older master key, so that this one can go.
// It gives how many there were. Those that cannot be opened stay as they are, and are told in the error; ones that are
// valid no longer are dropped with them. Call it before New.
func Reseal(ctx context.Context, objects store.Objects, s Sealer) (n int, err error) {
	kept, err := openShelf(ctx, objects, 0)
	if err != nil {
		return 0, err
	}
	h := &Hooks{o: Options{Sealer: s}, shelf: kept}
	for _, it := range kept.All(func(it *item) bool { return slices.ContainsFunc(it.Value.Secrets, h.old) }) {
		done, failed := h.reseal(ctx, it)
		n += done
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("webhook %s: %w", it.ID, failed))
		}
	}
	return n, err
}

// reseal does it for one webhook, and gives how many of its secrets it was.
func (h *Hooks) reseal(ctx context.Context, it item) (done int, err error) {
	changed, err := h.shelf.Copy(it)
	if err != nil {
		return 0, err
	}
	changed.Secrets = slices.DeleteFunc(changed.Secrets, func(c credential) bool { return !c.valid(time.Now()) })
	for i := range changed.Secrets {
		c := &changed.Secrets[i]
		if !h.old(*c) {
			continue
		}
		plain, failed := h.open(it.ID, c)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		sealed, failed := h.o.Sealer.Seal(plain, sealedAs(it.ID))
		if failed != nil {
			return 0, failed
		}
		c.Sealed = sealed
		done++
	}
	if done == 0 {
		return 0, err
	}
	if _, failed := h.shelf.Put(ctx, it.ID, it.Revision, changed); failed != nil {
		return 0, errors.Join(err, failed)
	}
	return done, err
}

// old reports whether a secret is sealed with a master key that is not the first one any more.
func (h *Hooks) old(c credential) bool { return c.Sealed != nil && !h.o.Sealer.Current(c.Sealed) }
