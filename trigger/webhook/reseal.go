package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Reseal reseals the secrets of signed webhooks that were sealed with an older master key, so that this key can be
// removed. It returns their number. Secrets that cannot be opened stay as they are and are listed in the error; expired
// ones, by the clock now, are dropped. Call it before New.
func Reseal(ctx context.Context, objects store.Objects, s Sealer, now func() time.Time) (n int, err error) {
	set, err := openSet(ctx, objects, 0)
	if err != nil {
		return 0, err
	}
	h := &Hooks{o: Options{Sealer: s, Now: now}, set: set}
	for _, item := range set.All(func(i *resource.Item[record]) bool { return slices.ContainsFunc(i.Value.Secrets, h.old) }) {
		done, failed := 0, error(nil)
		_, stored := set.Update(ctx, item.ID, item.Revision, func(r *record) error {
			done, failed = h.reseal(r)
			if done == 0 {
				return errNothing
			}
			return nil
		})
		if stored == nil {
			n += done
		} else if stored != errNothing {
			failed = errors.Join(failed, stored)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("webhook %s: %w", item.ID, failed))
		}
	}
	return n, err
}

// errNothing keeps a webhook as it is.
var errNothing = errors.New("nothing to reseal")

// reseal seals the secrets of one webhook again, and returns how many.
func (h *Hooks) reseal(r *record) (done int, err error) {
	r.Secrets = slices.DeleteFunc(r.Secrets, func(c credential) bool { return !c.valid(h.o.Now()) })
	for i := range r.Secrets {
		c := &r.Secrets[i]
		if !h.old(*c) {
			continue
		}
		plain, failed := h.open(r.ID, c)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		sealed, failed := h.o.Sealer.Seal(plain, sealedAs(r.ID))
		if failed != nil {
			return 0, failed
		}
		c.Sealed = sealed
		done++
	}
	return done, err
}

// old reports whether a secret is sealed with a master key that is not the first one any more.
func (h *Hooks) old(c credential) bool { return c.Sealed != nil && !h.o.Sealer.Current(c.Sealed) }
