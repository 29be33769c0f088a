// Package summary gathers what a STAC Collection says about its items: their extent, the values and ranges of some
// properties, the assets they have in common. A Summary takes in items one by one, is kept as JSON, and makes a Collection
// cover it (STAC Collection specification). Stable.
package summary

import (
	"math"
	"slices"
	"time"

	"github.com/stepwell/stepwell/item"
)

// Summary is a collection's summary of its items, gathered one by one. It is stored as JSON.
type Summary struct {
	Version string    `json:"version,omitempty"` // the highest stac_version among them
	Box     []float64 `json:"box,omitempty"`     // 4 or 6 numbers
	Crosses []float64 `json:"crosses,omitempty"` // of boxes that cross the antimeridian: west > east
	Flat    bool      `json:"flat,omitempty"`    // some box has no heights, so that the union has none
	Start   time.Time `json:"start,omitzero"`
	End     time.Time `json:"end,omitzero"`
	// Values are the distinct values of the properties that are summarised, up to maxValues each; a list
	// that is full and wants more is dropped (nil).
	Values map[string][]string `json:"values,omitempty"`
	// Ranges are the least and the greatest values of the properties for which the Collection has a range; nil: none yet.
	Ranges map[string][]float64 `json:"ranges,omitempty"`
	// Assets are the common members of the items' assets, by key, as JSON.
	Assets map[string]string `json:"assets,omitempty"`
}

// summarised are the properties whose distinct values a new collection lists.
var summarised = []string{"platform", "constellation", "instruments", "gsd"}

const maxValues = 30

// Add takes an item in and reports whether the summary has changed.
func (s *Summary) Add(it *item.Value) bool {
	changed := false
	if v, ok := it.Get("stac_version").Str(); ok && Later(v, s.Version) {
		s.Version, changed = v, true
	}
	if box := BoxOf(it); box != nil && s.addBox(box) {
		changed = true
	}
	properties := it.Get("properties")
	for _, key := range []string{"datetime", "start_datetime", "end_datetime"} {
		if text, ok := properties.Get(key).Str(); ok && s.addTime(text) {
			changed = true
		}
	}
	for _, key := range summarised {
		if s.addValue(key, properties.Get(key)) {
			changed = true
		}
	}
	if s.addRanges(properties) {
		changed = true
	}
	if s.addAssets(it) {
		changed = true
	}
	return changed
}

// Later reports whether a version is higher than another: 1.10.0 than 1.9.0, 1.0.0 than 1.0.0-beta.2.
func Later(a, b string) bool {
	if a == b || b == "" {
		return a != b
	}
	release := func(v string) (numbers [3]int, pre string) {
		part := 0
		for i := range len(v) {
			switch c := v[i]; {
			case c >= '0' && c <= '9' && numbers[part] < 1e6:
				numbers[part] = numbers[part]*10 + int(c-'0')
			case c == '.' && part < 2:
				part++
			default:
				return numbers, v[i:]
			}
		}
		return numbers, ""
	}
	x, preA := release(a)
	y, preB := release(b)
	if c := slices.Compare(x[:], y[:]); c != 0 {
		return c > 0
	}
	return preB != "" && (preA == "" || preA > preB)
}

func (s *Summary) addTime(text string) bool {
	t, err := ParseTime(text)
	if err != nil {
		return false // Validate says so; here it only cannot be counted
	}
	changed := false
	if s.Start.IsZero() || t.Before(s.Start) {
		s.Start, changed = t, true
	}
	if s.End.IsZero() || t.After(s.End) {
		s.End, changed = t, true
	}
	return changed
}

// ParseTime reads RFC 3339, also with a blank for the T, as real items have it.
func ParseTime(text string) (time.Time, error) {
	if len(text) > 10 && (text[10] == ' ' || text[10] == 't') {
		text = text[:10] + "T" + text[11:]
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err
}

func (s *Summary) addValue(key string, v *item.Value) bool {
	switch v.Kind() {
	case item.List:
		changed := false
		for _, e := range v.Elements() {
			if e.Kind() != item.List && s.addValue(key, e) {
				changed = true
			}
		}
		return changed
	case item.Text, item.Number:
	default:
		return false
	}
	list, known := s.Values[key]
	text := string(v.Bytes())
	if known && (list == nil || slices.Contains(list, text)) || len(text) > 200 {
		return false
	}
	if s.Values == nil {
		s.Values = map[string][]string{}
	}
	if len(list) >= maxValues {
		s.Values[key] = nil
		return true
	}
	list = append(list, text)
	slices.Sort(list)
	s.Values[key] = list
	return true
}

// addBox widens the union. Boxes that cross the antimeridian are united on their own.
func (s *Summary) addBox(box []float64) bool {
	changed := false
	if len(box) == 4 && !s.Flat {
		s.Flat, changed = true, true
	}
	into := &s.Box
	if box[0] > box[len(box)/2] {
		into = &s.Crosses
	}
	if *into == nil {
		*into = slices.Clone(box)
		return true
	}
	if s.Flat {
		*into, box = flatBox(*into), flatBox(box)
	}
	half := len(box) / 2
	for i := range half {
		if box[i] < (*into)[i] {
			(*into)[i], changed = box[i], true
		}
		if box[half+i] > (*into)[half+i] {
			(*into)[half+i], changed = box[half+i], true
		}
	}
	return changed
}

func flatBox(box []float64) []float64 {
	if len(box) == 6 {
		return []float64{box[0], box[1], box[3], box[4]}
	}
	return box
}

// box is the union of all boxes, nil when there is none.
func (s *Summary) box() []float64 {
	plain, crosses := s.Box, s.Crosses
	if s.Flat {
		plain, crosses = flatBox(plain), flatBox(crosses)
	}
	switch {
	case plain == nil && crosses == nil:
		return nil
	case crosses == nil:
		return plain
	}
	out := slices.Clone(crosses)
	half := len(out) / 2
	if plain != nil {
		for i := 1; i < half; i++ {
			out[i], out[half+i] = min(out[i], plain[i]), max(out[half+i], plain[half+i])
		}
		switch {
		case plain[0] >= crosses[0] || plain[half] <= crosses[half]: // within it
		case plain[0] >= 0:
			out[0] = plain[0]
		case plain[half] <= 0:
			out[half] = plain[half]
		default:
			out[0], out[half] = -180, 180
		}
	}
	if out[0] <= out[half] { // the boxes meet on the other side
		out[0], out[half] = -180, 180
	}
	return out
}

// BoxOf is an item's bbox, or that of its geometry where it is not one; nil when it has neither.
func BoxOf(it *item.Value) []float64 {
	if box := Box(it.Get("bbox")); box != nil {
		return box
	}
	b := bounds{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	b.add(it.Get("geometry").Get("coordinates"), 0)
	if b[0] > b[2] {
		return nil
	}
	return b[:]
}

// Box reads a list of 4 or 6 numbers; nil when it is none.
func Box(list *item.Value) []float64 {
	if list.Len() != 4 && list.Len() != 6 {
		return nil
	}
	box := make([]float64, 0, 6)
	for _, e := range list.Elements() {
		n, ok := e.Float()
		if !ok {
			return nil
		}
		box = append(box, n)
	}
	return box
}

type bounds [4]float64

// add takes in the positions of coordinates, which are nested up to four deep (RFC 7946).
func (b *bounds) add(v *item.Value, depth int) {
	if v.Kind() != item.List || depth > 4 {
		return
	}
	x, okX := v.At(0).Float()
	y, okY := v.At(1).Float()
	if okX && okY {
		b[0], b[1], b[2], b[3] = min(b[0], x), min(b[1], y), max(b[2], x), max(b[3], y)
		return
	}
	for _, e := range v.Elements() {
		b.add(e, depth+1)
	}
}

// AddExtent adds the extent of a Collection.
func (s *Summary) AddExtent(doc *item.Value) {
	if box := Box(doc.Get("extent").Get("spatial").Get("bbox").At(0)); box != nil {
		s.addBox(box)
	}
	interval := doc.Get("extent").Get("temporal").Get("interval").At(0)
	for i := range 2 {
		if text, ok := interval.At(i).Str(); ok {
			s.addTime(text)
		}
	}
}

// maxAssets bounds the item_assets that are gathered.
const maxAssets = 100

// addAssets adds the keys of an item's assets, each with its first contents.
func (s *Summary) addAssets(it *item.Value) (changed bool) {
	for key, a := range it.Get("assets").Members() {
		if _, known := s.Assets[key]; known || len(s.Assets) >= maxAssets || len(key) > 100 {
			continue
		}
		about := item.NewObject()
		for _, name := range []string{"title", "type", "roles"} {
			if v := a.Get(name); v.Kind() == item.Text || v.Kind() == item.List {
				about.Set(name, v.Clone())
			}
		}
		if about.Len() < 2 || len(about.AppendTo(nil)) > 1000 {
			continue // the schema of Collections asks for two members
		}
		if s.Assets == nil {
			s.Assets = map[string]string{}
		}
		s.Assets[key] = string(about.AppendTo(nil))
		changed = true
	}
	return changed
}

// addRanges takes in the properties for which the Collection has a range.
func (s *Summary) addRanges(properties *item.Value) (changed bool) {
	for key, r := range s.Ranges {
		n, ok := properties.Get(key).Float()
		switch {
		case !ok:
		case len(r) != 2:
			s.Ranges[key], changed = []float64{n, n}, true
		case n < r[0] || n > r[1]:
			s.Ranges[key], changed = []float64{min(r[0], n), max(r[1], n)}, true
		}
	}
	return changed
}
