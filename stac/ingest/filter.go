package ingest

import (
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
)

// itemFilter filters the items of files as an API filters its own: by bbox, datetime and ids. It is immutable and safe
// for concurrent use.
type itemFilter struct {
	ids        []string
	bbox       []float64
	from, to   time.Time
	timed      bool
	collection string // for items that name none
}

func newItemFilter(s apiclient.Search) *itemFilter {
	v := &itemFilter{ids: slices.Sorted(slices.Values(s.IDs)), bbox: s.Bbox}
	if len(s.Collections) == 1 {
		v.collection = s.Collections[0]
	}
	if s.Datetime != "" {
		a, b, both := strings.Cut(s.Datetime, "/")
		if !both {
			b = a
		}
		v.from, _ = apiclient.Instant(a, false) // an open end is the zero time
		v.to, _ = apiclient.Instant(b, true)    // likewise
		v.timed = true
	}
	return v
}

// item makes an item of a row, nil if it does not fit.
func (v *itemFilter) item(text []byte, key string, place stream.Place) (*stream.Item, error) {
	fill := key != ""
	if v.collection != "" && !fill {
		_, collection := apiclient.Key(text)
		fill = collection == ""
	}
	if !fill && len(v.ids) == 0 && len(v.bbox) == 0 && !v.timed {
		return stream.Lazy(text, place), nil
	}
	it := stream.Lazy(text, place)
	if err := it.Parse(); err != nil {
		return nil, err
	}
	if it.Get("id").IsNull() && key != "" {
		it.Set("id", item.OfText(key))
	}
	if v.collection != "" && it.Get("collection").IsNull() {
		it.Set("collection", item.OfText(v.collection))
	}
	if !v.fits(it) {
		return nil, nil
	}
	return it, nil
}

func (v *itemFilter) fits(it *stream.Item) bool {
	if len(v.ids) > 0 {
		if _, found := slices.BinarySearch(v.ids, it.ID()); !found {
			return false
		}
	}
	return (len(v.bbox) == 0 || v.inside(it.Value)) && (!v.timed || v.during(it.Get("properties")))
}

// inside reports whether the boxes meet. Of an item without bbox, its geometry's extent counts.
func (v *itemFilter) inside(it *item.Value) bool {
	box := summary.BoxOf(it)
	return box != nil && boxesMeet(box, v.bbox)
}

// boxesMeet compares boxes of 4 or 6 numbers, whose heights do not count.
func boxesMeet(a, b []float64) bool {
	n, m := len(a)/2, len(b)/2
	return a[1] <= b[m+1] && a[n+1] >= b[1] && lonMeets(a[0], a[n], b[0], b[m])
}

// lonMeets compares longitudes; where west is greater than east, the box crosses the antimeridian.
func lonMeets(w1, e1, w2, e2 float64) bool {
	switch {
	case w1 > e1:
		return lonMeets(w1, 180, w2, e2) || lonMeets(-180, e1, w2, e2)
	case w2 > e2:
		return lonMeets(w1, e1, w2, 180) || lonMeets(w1, e1, -180, e2)
	}
	return w1 <= e2 && e1 >= w2
}

// during reports whether the item's time, or its interval, meets the one asked for.
func (v *itemFilter) during(properties *item.Value) bool {
	read := func(name string) (time.Time, bool) {
		text, _ := properties.Get(name).Str() // "" is no time
		return apiclient.Instant(text, false)
	}
	from, okFrom := read("start_datetime")
	to, okTo := read("end_datetime")
	if at, ok := read("datetime"); ok {
		if !okFrom {
			from, okFrom = at, true
		}
		if !okTo {
			to, okTo = at, true
		}
	}
	return okFrom && okTo && (v.to.IsZero() || !from.After(v.to)) && !to.Before(v.from)
}
