package transform

import (
	"context"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

type joinCounts struct {
	matched, unmatched atomic.Int64
}

func (c *joinCounts) outputs(t *table, out map[string]any) {
	unused := 0
	for _, e := range t.byKey {
		if !e.used.Load() {
			unused++
		}
	}
	out["rows"], out["rows_failed"], out["duplicate_keys"], out["rows_unmatched"] = t.rows, t.failed, t.duplicates, unused
	out["matched"], out["unmatched"] = c.matched.Load(), c.unmatched.Load()
}

// Modify merges the table's row into an item.
func (t *transformer) Modify(ctx context.Context, it *stream.Item) (*stream.Item, error) {
	t.loading.Do(func() {
		if t.table == nil {
			t.failed = t.load(ctx)
		}
	})
	if t.failed != nil {
		return nil, stream.Abort(t.failed)
	}
	key := text(it.Find(t.itemKey))
	e := t.table.byKey[key]
	if e == nil || key == "" {
		return t.unmatched(it, key)
	}
	e.used.Store(true)
	t.join.matched.Add(1)
	row, err := item.Parse(e.text)
	if err != nil {
		return nil, stream.At("", err)
	}
	for _, m := range t.mappings {
		if err := m.apply(it.Value, row, t.Strategy); err != nil {
			return nil, stream.At(m.target.String(), err)
		}
	}
	return it, nil
}

func (t *transformer) unmatched(it *stream.Item, key string) (*stream.Item, error) {
	t.join.unmatched.Add(1)
	if t.Missing == "ignore" {
		return it, nil
	}
	message := "the table has no row for " + key
	if key == "" {
		message = "the item has no " + t.itemKey.String()
	}
	err := &stepwell.Error{Code: stepwell.CodeNotFound, Message: message}
	if t.Missing == "error" {
		return nil, stream.At(t.itemKey.String(), err)
	}
	return it, t.env.Fail(stream.Failure{Item: it.ID(), Collection: it.Collection(), Type: stream.DataProcessing, Err: err,
		Context: stream.Context{File: it.Place.File, Line: it.Place.Line, URL: it.Place.URL, Field: t.itemKey.String()}})
}

// apply writes a row's value to all places of the target where the strategy allows it. Objects are merged, all else is
// replaced.
func (m *mapping) apply(it, row *item.Value, strategy string) error {
	var same *item.Value // of all places
	if !m.asset {
		var err error
		if same, err = m.value(row, it, ""); same == nil || err != nil {
			return err
		}
	}
	return it.Put(m.target, strategy != "update_existing", func(stars []string, old *item.Value) (v *item.Value, err error) {
		if strategy == "left" && !old.IsNull() {
			return nil, nil
		}
		if v = same; m.asset {
			asset := m.target[1].Key
			if m.target[1].Any {
				asset = stars[0]
			}
			if v, err = m.value(row, it, asset); v == nil || err != nil {
				return nil, err
			}
		}
		if old.Kind() == item.Object && v.Kind() == item.Object && old.Get("coordinates") == nil {
			merged := old.Clone()
			merged.Merge(v)
			return merged, nil
		}
		return v.Clone(), nil
	})
}
