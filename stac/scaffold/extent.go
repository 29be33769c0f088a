package scaffold

import (
	"time"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/summary"
)

// extent is the extent of a collection. The zero value is empty.
type extent struct {
	Box   *[4]float64 `json:"box,omitempty"`   // west, south, east, north
	Since *time.Time  `json:"since,omitempty"` // nil: of no item
	Until *time.Time  `json:"until,omitempty"`
}

// add widens the extent by another one and reports whether that changed it.
func (e *extent) add(more extent) bool {
	changed := false
	if b := more.Box; b != nil {
		switch mine := e.Box; {
		case mine == nil:
			box := *b
			e.Box, changed = &box, true
		default:
			box := [4]float64{min(mine[0], b[0]), min(mine[1], b[1]), max(mine[2], b[2]), max(mine[3], b[3])}
			changed = box != *mine
			*mine = box
		}
	}
	if t := more.Since; t != nil && (e.Since == nil || t.Before(*e.Since)) {
		e.Since, changed = t, true
	}
	if t := more.Until; t != nil && (e.Until == nil || t.After(*e.Until)) {
		e.Until, changed = t, true
	}
	return changed
}

// extentOf is that of one item. A bbox across the antimeridian counts as all longitudes, for the union of
// boxes on both sides of it has no other valid form.
func extentOf(v *item.Value) extent {
	var e extent
	if box := summary.Box(v.Get("bbox")); box != nil {
		n := len(box) / 2
		e.Box = &[4]float64{box[0], box[1], box[n], box[n+1]}
		if e.Box[0] > e.Box[2] {
			e.Box[0], e.Box[2] = -180, 180
		}
	}
	properties := v.Get("properties")
	for _, key := range []string{"datetime", "start_datetime", "end_datetime"} {
		text, ok := properties.Get(key).Str()
		if !ok {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			t = t.UTC()
			e.add(extent{Since: &t, Until: &t})
		}
	}
	return e
}

// json is the extent as a Collection has it; of no items it is everything.
func (e extent) json() map[string]any {
	box := []any{-180, -90, 180, 90}
	if e.Box != nil {
		box = []any{e.Box[0], e.Box[1], e.Box[2], e.Box[3]}
	}
	interval := []any{nil, nil}
	for i, t := range []*time.Time{e.Since, e.Until} {
		if t != nil {
			interval[i] = t.Format(time.RFC3339Nano)
		}
	}
	return map[string]any{"spatial": map[string]any{"bbox": []any{box}}, "temporal": map[string]any{"interval": []any{interval}}}
}
