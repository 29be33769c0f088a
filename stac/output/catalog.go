package output

import (
	"cmp"
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/summary"
)

// writeCatalog writes the documents that link to items: the deepest first, the root last.
func (t *tree) writeCatalog(ctx context.Context) error {
	changed := slices.DeleteFunc(slices.Clone(t.nodes), func(n *node) bool { return !n.changed })
	slices.SortStableFunc(changed, func(a, b *node) int { return cmp.Compare(depth(b.dir), depth(a.dir)) })
	for _, n := range changed {
		if err := t.writeNode(ctx, n); err != nil {
			return err
		}
	}
	if len(changed) == 0 && len(t.nodes) > 0 {
		return nil
	}
	return t.writeRoot(ctx)
}

func depth(dir string) int { return strings.Count(dir, "/") }

func (t *tree) writeNode(ctx context.Context, n *node) error {
	u, rel := t.units[n.unit], t.docOf(n)
	if err := t.place.lockUnit(u.Dir); err != nil {
		return err
	}
	defer t.place.turn(u.Dir)()
	doc, old, err := t.existing(ctx, rel)
	if err != nil {
		return err
	}
	links := t.headLinks(n)
	for _, kid := range n.kids {
		links = append(links, link{"child", t.href(n.dir, t.docOf(kid)), mediaJSON, path.Base(kid.dir)})
	}
	items, err := t.itemLinksOf(n)
	if err != nil {
		return err
	}
	links = append(links, items...)
	switch {
	case n.parent == 0:
		doc = t.collectionOf(u.ID, &u.Summary, doc)
		summary.Merge(doc, &u.Summary)
	case doc == nil:
		title := path.Base(n.dir)
		doc = newCatalog(u.ID+"-"+strings.ReplaceAll(strings.TrimPrefix(n.dir, u.Dir+"/"), "/", "-"), title,
			"Items of collection "+u.ID+", part "+title+".", u.Summary.Version)
	}
	t.dropDead(doc, n.dir, links, old != nil)
	relink(doc, links, true, asIs)
	return t.replace(ctx, u.Dir, rel, doc, old)
}

// headLinks are the links up from a node.
func (t *tree) headLinks(n *node) []link {
	links := []link{{rel: "root", href: t.href(n.dir, catalogFile), media: mediaJSON}}
	parent := catalogFile
	if up := t.nodeAt(n.parent); up != nil {
		parent = t.docOf(up)
	}
	links = append(links, link{rel: "parent", href: t.href(n.dir, parent), media: mediaJSON})
	if t.absolute() {
		links = append(links, link{rel: "self", href: t.url(t.docOf(n)), media: mediaJSON})
	}
	return links
}

// itemLinksOf are the links to a node's items, by name.
func (t *tree) itemLinksOf(n *node) ([]link, error) {
	var entries []entry
	for _, at := range n.offsets {
		r, err := t.ledger.at(at)
		if err != nil {
			return nil, err
		}
		if t.index.current(r.entry) {
			entries = append(entries, r.entry)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	links := make([]link, 0, len(entries))
	for _, e := range entries {
		links = append(links, link{"item", t.href(n.dir, path.Join(n.dir, e.name+".json")), mediaItem, e.title})
	}
	return links, nil
}

func newCatalog(id, title, description, version string) *item.Value {
	if version == "" {
		version = "1.1.0"
	}
	doc := item.NewObject()
	for _, member := range [][2]string{{"type", "Catalog"}, {"stac_version", version}, {"id", id}, {"title", title}, {"description", description}} {
		if member[1] != "" {
			doc.Set(member[0], item.OfText(member[1]))
		}
	}
	doc.Set("links", item.NewList())
	return doc
}

// writeRoot writes catalog.json, where children that others have put there stay.
func (t *tree) writeRoot(ctx context.Context) error {
	done, err := t.place.wait(ctx, "")
	if err != nil {
		return err
	}
	defer done()
	doc, old, err := t.existing(ctx, catalogFile)
	if err != nil {
		return err
	}
	links := []link{{rel: "root", href: t.href("", catalogFile), media: mediaJSON}}
	if t.config.BaseURL != "" && t.config.Layout != "self-contained" {
		links = append(links, link{rel: "self", href: t.url(catalogFile), media: mediaJSON})
	}
	version := ""
	for _, n := range t.nodes {
		if n.parent != 0 {
			continue
		}
		u := t.units[n.unit]
		if summary.Later(u.Summary.Version, version) {
			version = u.Summary.Version
		}
		title, err := t.titleOfCollection(ctx, u)
		if err != nil {
			return err
		}
		links = append(links, link{"child", t.href("", t.docOf(n)), mediaJSON, title})
	}
	c := &t.config
	if doc == nil {
		doc = newCatalog(cmp.Or(c.CatalogID, t.env.Workflow, "catalog"), c.Title, cmp.Or(c.Description, c.Title, "A catalog of STAC items."), version)
	} else {
		for key, text := range map[string]string{"id": c.CatalogID, "title": c.Title, "description": c.Description} {
			if text != "" {
				doc.Set(key, item.OfText(text))
			}
		}
	}
	t.dropDead(doc, "", links, old != nil)
	relink(doc, links, true, asIs)
	return t.replace(ctx, "", catalogFile, doc, old)
}

// titleOfCollection is the title in its collection.json, else its id.
func (t *tree) titleOfCollection(ctx context.Context, u *unit) (string, error) {
	doc, _, err := t.existing(ctx, path.Join(u.Dir, collectionFile))
	if err != nil {
		return "", err
	}
	title, _ := doc.Get("title").Str()
	return cmp.Or(title, u.ID), nil
}

// dropDead takes those links to children and items out of a document that are ours to write, or lead to
// nothing. In a document from elsewhere that is all of them.
func (t *tree) dropDead(doc *item.Value, dir string, ours []link, here bool) {
	known := map[string]bool{}
	for _, l := range ours {
		known[l.href] = true
	}
	kept := item.NewList()
	for _, l := range doc.Get("links").Elements() {
		rel, _ := l.Get("rel").Str()
		href, _ := l.Get("href").Str()
		if rel == "items" && !here {
			continue // of an API
		}
		if (rel == "child" || rel == "item") && (!here || known[href] || !t.leads(dir, href)) {
			continue
		}
		kept.Append(l.Clone())
	}
	doc.Set("links", kept)
}

// leads reports whether a link of ours leads to a file. Links to elsewhere do.
func (t *tree) leads(dir, href string) bool {
	rel, ours := t.relOf(dir, href)
	if !ours || !t.place.direct() {
		return absolute(href) || !t.place.direct()
	}
	_, err := os.Stat(t.place.at(rel))
	return err == nil && !t.dead[rel]
}
