package output

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
)

// maxKnown bounds the text of the Collections that are kept for the end.
const maxKnown = 64 << 20

// rememberCollection keeps a Collection that a source knows, unless their texts are beyond maxKnown.
func (b *base) rememberCollection(c *stream.Item) {
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
func (t *tree) TakeCollection(c *stream.Item) { t.rememberCollection(c) }

// TakeCollection implements stream.CollectionSink.
func (t *table) TakeCollection(c *stream.Item) { t.rememberCollection(c) }

// knownOf is the Collection that a source knows, as it is written here: without links of its old place, of an API or to
// items that are not here. nil when none does.
func (b *base) knownOf(id string) *item.Value {
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

// collectionOf is the Collection as its source describes it now, merged over the existing one (nil: none), with all
// required members. What its items say is not in it yet: that is summary.Merge's.
func (b *base) collectionOf(id string, s *summary.Summary, here *item.Value) *item.Value {
	known := b.knownOf(id)
	doc := here
	switch {
	case doc == nil && known != nil:
		doc = known
	case doc == nil:
		doc = item.NewObject()
	case known != nil:
		before := summary.Summary{}
		before.AddExtent(doc)
		for key, v := range known.Members() {
			if key != "links" && key != "id" {
				doc.Set(key, v.Clone())
			}
		}
		summary.Merge(doc, &before)
	}
	version := cmp.Or(s.Version, "1.1.0")
	if text, ok := doc.Get("stac_version").Str(); ok {
		version = text
	}
	license := "other"
	if summary.Later("1.1.0-beta.1", version) {
		license = "proprietary" // the placeholder of STAC 1.0
	}
	for _, member := range [][2]string{{"type", "Collection"}, {"stac_version", version}, {"id", id},
		{"description", "Items of collection " + id + "."}, {"license", license}} {
		if doc.Get(member[0]).IsNull() {
			doc.Set(member[0], item.OfText(member[1]))
		}
	}
	if doc.Get("extent").IsNull() {
		doc.Set("extent", item.NewObject())
	}
	if doc.Get("links").Kind() != item.List {
		doc.Set("links", item.NewList())
	}
	return doc
}
