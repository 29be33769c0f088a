package update

import (
	"context"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// Modify changes an item in the order repair, migrate, removes, updates, patch, time stamp.
func (u *updater) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	id := it.ID() // as it came: updates may change it
	var before *item.Value
	if u.stamp != "" {
		before = it.Value.Clone()
	}
	if u.repair && repairTimes(it.Value) {
		u.repaired.Add(1)
	}
	if u.migrate {
		changed, err := migrate(it.Value)
		if err != nil {
			return nil, stream.At("stac_version", err)
		}
		if changed {
			u.migrated.Add(1)
		}
	}
	for _, path := range u.removes {
		it.Value.Drop(path)
	}
	for i := range u.updates {
		if err := u.updates[i].apply(it.Value, u.create); err != nil {
			return nil, stream.At(u.updates[i].path.String(), err)
		}
	}
	if p := u.patches[id]; p != nil {
		if err := u.patch(it.Value, p); err != nil {
			return nil, stream.At("", err)
		}
	}
	if u.stamp != "" && !it.Value.Equal(before) {
		stamp := item.OfText(u.stamp)
		err := it.Value.Put(item.Path{{Key: "properties"}, {Key: "updated"}}, true, func([]string, *item.Value) (*item.Value, error) { return stamp, nil })
		if err != nil {
			return nil, stream.At("properties.updated", err)
		}
	}
	return it, nil
}

func (r *rule) apply(v *item.Value, create bool) error {
	return v.Put(r.path, create, func(stars []string, _ *item.Value) (*item.Value, error) {
		return r.value.Expand(v, r.asset(stars))
	})
}

// asset is the key of the asset that a place is in, "" when it is in none.
func (r *rule) asset(stars []string) string {
	switch {
	case len(r.path) < 2 || r.path[0].Key != "assets":
		return ""
	case r.path[1].Any:
		return stars[0]
	}
	return r.path[1].Key
}

// Finish gives the counts.
func (u *updater) Finish(error) (any, error) {
	unused := 0
	for _, p := range u.patches {
		if !p.used.Load() {
			unused++
		}
	}
	return map[string]any{"patched": u.patched.Load(), "patches_unused": unused, "migrated": u.migrated.Load(), "repaired": u.repaired.Load()}, nil
}
