package summary

import (
	"slices"
	"strconv"
	"time"

	"github.com/stepwell/stepwell/item"
)

// summaries lists the values of some properties.
func (s *Summary) summaries() *item.Value {
	out := item.NewObject()
	for _, key := range summarised {
		list := item.NewList()
		for _, text := range s.Values[key] {
			v, err := item.Parse([]byte(text))
			if err != nil {
				continue // cannot be: it comes from an item
			}
			list.Append(v)
		}
		if list.Len() > 0 {
			out.Set(key, list)
		}
	}
	return out
}

// Merge makes a Collection cover a summary: its extent, its summaries and its item_assets. Members that cover it
// already stay as they are.
func Merge(doc *item.Value, s *Summary) {
	if doc.Get("extent").Kind() != item.Object {
		doc.Set("extent", item.NewObject())
	}
	widenSpace(doc.Get("extent"), s)
	widenTime(doc.Get("extent"), s)
	mergeSummaries(doc, s)
	mergeAssets(doc, s)
}

func widenSpace(extent *item.Value, s *Summary) {
	all := *s
	all.Box, all.Crosses = slices.Clone(s.Box), slices.Clone(s.Crosses)
	spatial := extent.Get("spatial")
	before := Box(spatial.Get("bbox").At(0))
	if before != nil {
		all.addBox(before)
	}
	box := all.box()
	switch {
	case box == nil && before == nil:
		box = []float64{-180, -90, 180, 90}
	case slices.Equal(box, before) || box == nil:
		return
	}
	list := item.NewList()
	for _, n := range box {
		list.Append(number(n))
	}
	if before != nil {
		spatial.Get("bbox").At(0).Replace(list)
		return
	}
	if spatial.Kind() != item.Object {
		extent.Set("spatial", item.NewObject())
		spatial = extent.Get("spatial")
	}
	spatial.Set("bbox", item.NewList(list))
}

func number(n float64) *item.Value {
	v, err := item.Parse(strconv.AppendFloat(nil, n, 'f', -1, 64))
	if err != nil {
		return item.NewObject() // cannot be: positions are finite
	}
	return v
}

func widenTime(extent *item.Value, s *Summary) {
	temporal := extent.Get("temporal")
	first := temporal.Get("interval").At(0)
	if first.Len() == 2 {
		if s.Start.IsZero() {
			return
		}
		if text, ok := first.At(0).Str(); ok {
			if t, err := ParseTime(text); err == nil && s.Start.Before(t) {
				first.At(0).Replace(instant(s.Start))
			}
		}
		if text, ok := first.At(1).Str(); ok {
			if t, err := ParseTime(text); err == nil && s.End.After(t) {
				first.At(1).Replace(instant(s.End))
			}
		}
		return // an end that is null is open and stays so
	}
	if temporal.Kind() != item.Object {
		extent.Set("temporal", item.NewObject())
		temporal = extent.Get("temporal")
	}
	temporal.Set("interval", item.NewList(item.NewList(instant(s.Start), instant(s.End))))
}

func instant(t time.Time) *item.Value {
	if t.IsZero() {
		return &item.Value{}
	}
	return item.OfText(t.UTC().Format(time.RFC3339Nano))
}

// mergeSummaries adds the values that the items have to lists, and widens ranges.
func mergeSummaries(doc *item.Value, s *Summary) {
	summaries := doc.Get("summaries")
	if summaries.Kind() != item.Object {
		summaries = item.NewObject()
	}
	changed := false
	for key, list := range s.summaries().Members() {
		there := summaries.Get(key)
		if there.IsNull() {
			if there == nil {
				summaries.Set(key, list.Clone())
				changed = true
			}
			continue
		}
		if there.Kind() != item.List {
			continue // a range or a schema
		}
		for _, v := range list.Elements() {
			has := false
			for _, old := range there.Elements() {
				has = has || string(old.Bytes()) == string(v.Bytes())
			}
			if !has {
				there.Append(v.Clone())
				changed = true
			}
		}
	}
	for key, r := range s.Ranges {
		there := summaries.Get(key)
		if len(r) != 2 || there.Kind() != item.Object {
			continue
		}
		if low, ok := there.Get("minimum").Float(); ok && r[0] < low {
			there.Set("minimum", number(r[0]))
			changed = true
		}
		if high, ok := there.Get("maximum").Float(); ok && r[1] > high {
			there.Set("maximum", number(r[1]))
			changed = true
		}
	}
	if changed && doc.Get("summaries").Kind() != item.Object {
		doc.Set("summaries", summaries)
	}
}

// mergeAssets adds assets of the items that the Collection lacks, from STAC 1.1 on, which has item_assets, or where it
// has some.
func mergeAssets(doc *item.Value, s *Summary) {
	there := doc.Get("item_assets")
	version, _ := doc.Get("stac_version").Str()
	if len(s.Assets) == 0 || there.Kind() != item.Object && Later("1.1.0", version) {
		return
	}
	if there.Kind() != item.Object {
		doc.Set("item_assets", item.NewObject())
		there = doc.Get("item_assets")
	}
	keys := make([]string, 0, len(s.Assets))
	for key := range s.Assets {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if there.Get(key) != nil {
			continue
		}
		if v, err := item.Parse([]byte(s.Assets[key])); err == nil {
			there.Set(key, v)
		}
	}
}

// Ranges are the numeric ranges in a Collection's summaries, which are gathered.
func Ranges(doc *item.Value) map[string][]float64 {
	var out map[string][]float64
	for key, v := range doc.Get("summaries").Members() {
		if v.Get("minimum").Kind() == item.Number && v.Get("maximum").Kind() == item.Number && len(out) < maxValues {
			if out == nil {
				out = map[string][]float64{}
			}
			out[key] = nil
		}
	}
	return out
}
