package scaffold

import "github.com/stepwell/stepwell/item"

const (
	mediaJSON    = "application/json"
	mediaGeoJSON = "application/geo+json"
)

// layout gives the hrefs of a catalogue: absolute with a base, else relative to the item's own file.
type hrefs struct{ root, collection, item string }

func (c *config) hrefs(collection, id string) hrefs {
	switch {
	case c.BaseURL == "" && collection == "":
		return hrefs{root: "./catalog.json"}
	case c.BaseURL == "":
		return hrefs{root: "../catalog.json", collection: "./collection.json"}
	case c.LinkLayout == "api":
		h := hrefs{root: c.BaseURL}
		if collection != "" {
			h.collection = c.BaseURL + "/collections/" + segment(collection)
			h.item = h.collection + "/items/" + segment(id)
		}
		return h
	case collection == "":
		return hrefs{root: c.BaseURL + "/catalog.json", item: c.BaseURL + "/" + segment(id) + ".json"}
	}
	dir := c.BaseURL + "/" + segment(collection)
	return hrefs{root: c.BaseURL + "/catalog.json", collection: dir + "/collection.json", item: dir + "/" + segment(id) + ".json"}
}

func link(rel, href, media string) *item.Value {
	l := item.NewObject()
	l.Set("rel", item.OfText(rel))
	l.Set("href", item.OfText(href))
	l.Set("type", item.OfText(media))
	return l
}

// links puts the links of the layout before the existing ones. Without a base_url, existing links are better than
// relative ones.
func (d *draft) links() {
	h := d.hrefs(d.collection, d.id)
	parent := h.collection
	if parent == "" {
		parent = h.root
	}
	ours := []struct{ rel, href, media string }{{"root", h.root, mediaJSON}, {"parent", parent, mediaJSON}, {"collection", h.collection, mediaJSON}, {"self", h.item, mediaGeoJSON}}
	have := map[string]bool{}
	old := d.out.Get("links")
	for _, l := range old.Elements() {
		have[textOf(l.Get("rel"))] = true
	}
	list, replaced := item.NewList(), map[string]bool{}
	for _, l := range ours {
		if l.href != "" && (d.BaseURL != "" || !have[l.rel]) {
			list.Append(link(l.rel, l.href, l.media))
			replaced[l.rel] = true
		}
	}
	for _, l := range old.Elements() {
		rel := textOf(l.Get("rel"))
		if replaced[rel] || rel == "collection" && d.collection == "" {
			continue
		}
		list.Append(l.Clone())
	}
	d.out.Set("links", list)
}
