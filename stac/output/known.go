package output

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// maxKnown bounds the text of the Collections that are kept for the end.
const maxKnown = 64 << 20

// take keeps a Collection that a source knows.
func (b *book) take(c *stream.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := c.ID()
	if b.knownBytes += len(c.Bytes()); id == "" || b.knownBytes > maxKnown {
		return
	}
	if b.known == nil {
		b.known = map[string]*stream.Item{}
	}
	b.known[id] = c
}

// TakeCollection implements stream.CollectionSink.
func (t *tree) TakeCollection(c *stream.Item) { t.take(c) }

// TakeCollection implements stream.CollectionSink.
func (t *table) TakeCollection(c *stream.Item) { t.take(c) }

// knownOf is the Collection that a source knows, as it is written here: without links of its old place, of an API or to
// items that are not here. nil when none does.
func (b *book) knownOf(id string) *item.Value {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.known[id]
	if c == nil {
		return nil
	}
	doc := c.Value.Clone()
	from := originOf(b.env, stream.New(doc, c.Place))
	links := item.NewList()
	for _, l := range doc.Get("links").Elements() {
		rel, _ := l.Get("rel").Str()
		if !structural(rel) && !slices.Contains(elsewhere, rel) && !strings.HasPrefix(rel, "http://www.opengis.net/") && !strings.HasPrefix(rel, "https://api.stacspec.org/") {
			links.Append(l.Clone())
		}
	}
	doc.Set("links", links)
	rebase := func(href string) string { return from.rebase(href, "") }
	relink(doc, nil, true, rebase)
	rebaseAssets(doc, rebase)
	return doc
}

// elsewhere are the links of a Collection that lead to parts of where it was.
var elsewhere = []string{"item", "items", "child", "data", "search", "aggregate", "aggregations", "queryables", "next", "prev"}

// ranges are the summaries of a Collection that are a range of numbers: what is gathered for them.
func ranges(doc *item.Value) map[string][]float64 {
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

// collectionOf is the Collection as its source describes it now, over what is here already (nil: nothing), with all that
// a Collection must have.
func (b *book) collectionOf(id string, s *summary, here *item.Value) (*item.Value, error) {
	known := b.knownOf(id)
	doc := here
	switch {
	case doc == nil && known != nil:
		doc = known
	case doc == nil:
		doc = item.NewObject()
	case known != nil:
		before := summary{}
		before.addExtent(doc)
		for key, v := range known.Members() {
			if key != "links" && key != "id" {
				doc.Set(key, v.Clone())
			}
		}
		merge(doc, &before)
	}
	version := cmp.Or(s.Version, "1.1.0")
	if text, ok := doc.Get("stac_version").Str(); ok {
		version = text
	}
	license := "other"
	if later("1.1.0-beta.1", version) {
		license = "proprietary" // what 1.0 has for it
	}
	for _, member := range [][2]string{{"type", "Collection"}, {"stac_version", version}, {"id", id},
		{"description", "Items of collection " + id + "."}, {"license", license}} {
		if doc.Get(member[0]).IsNull() {
			doc.Set(member[0], item.OfText(member[1]))
		}
	}
	for _, member := range []string{"extent", "links"} {
		if doc.Get(member).IsNull() {
			doc.Set(member, item.NewObject())
		}
	}
	if doc.Get("links").Kind() != item.List {
		doc.Set("links", item.NewList())
	}
	return doc, nil
}

// addExtent takes in what a Collection says about its extent.
func (s *summary) addExtent(doc *item.Value) {
	holder := item.NewObject()
	if first := doc.Get("extent").Get("spatial").Get("bbox").At(0); first != nil {
		holder.Set("bbox", first.Clone())
		if box := boxOf(holder); box != nil {
			s.addBox(box)
		}
	}
	interval := doc.Get("extent").Get("temporal").Get("interval").At(0)
	for i := range 2 {
		if text, ok := interval.At(i).Str(); ok {
			s.addTime(text)
		}
	}
}

// mergeSummaries adds the values that the items have to lists, and widens ranges.
func mergeSummaries(doc *item.Value, s *summary) {
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

// mergeAssets adds the assets that the items have and the Collection does not tell of, from STAC 1.1 on, which has
// item_assets, or where it tells of some.
func mergeAssets(doc *item.Value, s *summary) {
	there := doc.Get("item_assets")
	version, _ := doc.Get("stac_version").Str()
	if len(s.Assets) == 0 || there.Kind() != item.Object && later("1.1.0", version) {
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

// maxAssets bounds the item_assets that are gathered.
const maxAssets = 100

// addAssets takes in the keys of an item's assets, each with what it says there first.
func (s *summary) addAssets(it *item.Value) (changed bool) {
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
func (s *summary) addRanges(properties *item.Value) (changed bool) {
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
