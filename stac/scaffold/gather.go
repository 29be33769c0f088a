package scaffold

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

const (
	maxCollections  = 10_000 // in one stream
	shownInOutputs  = 100
	publishDeadline = 10 * time.Minute
)

// gatherer is the component of the modes collection and catalog: items pass unchanged, and their extents are stored,
// also across a crash.
type gatherer struct {
	*config
	env    *stream.Env
	places *files.Places

	mu      sync.Mutex
	items   int64
	covered map[string]*extent // by collection
	journal *journal
}

func newGatherer(c *config, env *stream.Env, places *files.Places) (*gatherer, error) {
	g := &gatherer{config: c, env: env, places: places, covered: map[string]*extent{}}
	var err error
	if env.Data != "" {
		g.journal, err = openJournal(filepath.Join(env.Data, "scaffold-"+segment(env.Step)+".ndjson"), g.covered)
	}
	return g, err
}

// Modify adds the extent of an item.
func (g *gatherer) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	id := g.CollectionID
	if id == "" {
		id = it.Collection()
	}
	if id == "" && g.Mode == "collection" {
		return nil, stream.At("collection", stepwell.Invalid("write collection_id", "the item is of no collection"))
	}
	var e extent
	if g.Mode == "collection" {
		e = extentOf(it.Value)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items++
	have, known := g.covered[id]
	if !known {
		if len(g.covered) == maxCollections {
			return nil, stream.Abort(&stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the items are of more than %d collections", maxCollections), Hint: "write collection_id"})
		}
		have = &extent{}
		g.covered[id] = have
	}
	if (have.add(e) || !known) && g.journal != nil {
		if err := g.journal.recordExtent(id, e, g.covered); err != nil {
			return nil, stream.Abort(err)
		}
	}
	return it, nil
}

// Read is of no use.
func (g *gatherer) Read(context.Context, iter.Seq[*stream.Item], stream.Out) error {
	return &stream.Error{Type: stream.ConfigurationError, Err: stepwell.Invalid("write depends_on, or mode: template for an example", "no items come to make a %s of", g.Mode)}
}

// Finish makes and writes the collections or the catalogue.
func (g *gatherer) Finish(failed error) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.journal != nil {
		if err := g.journal.close(); err != nil && failed == nil {
			return nil, err
		}
	}
	if failed != nil {
		return nil, nil //nolint:nilerr // the segment has its error already
	}
	if g.Mode == "catalog" {
		return g.finishCatalog()
	}
	return g.finishCollections()
}

func (g *gatherer) finishCatalog() (any, error) {
	catalog, written := g.catalogOf(slices.Sorted(maps.Keys(g.covered))), []any{}
	if g.OutputPath != "" {
		if err := publish(g.places, g.env, g.OutputPath, catalog); err != nil {
			return nil, err
		}
		written = append(written, g.OutputPath)
	}
	return map[string]any{"items": g.items, "catalog": catalog, "files": written}, nil
}

func (g *gatherer) finishCollections() (any, error) {
	if len(g.covered) == 0 && g.CollectionID != "" {
		g.covered[g.CollectionID] = &extent{}
	}
	if len(g.covered) > 1 && g.OutputPath != "" && !strings.Contains(g.OutputPath, "{collection_id}") {
		return nil, stepwell.Invalid("write {collection_id} in output_path, or collection_id", "output_path is one file, but the items are of %d collections", len(g.covered))
	}
	collections, written := []any{}, []any{}
	for _, id := range slices.Sorted(maps.Keys(g.covered)) {
		collection := g.collectionOf(id, *g.covered[id])
		if len(collections) < shownInOutputs {
			collections = append(collections, collection)
		}
		if g.OutputPath == "" {
			continue
		}
		path := strings.ReplaceAll(g.OutputPath, "{collection_id}", segment(id))
		if err := publish(g.places, g.env, path, collection); err != nil {
			return nil, err
		}
		if len(written) < shownInOutputs {
			written = append(written, path)
		}
	}
	return map[string]any{"items": g.items, "collections": collections, "files": written}, nil
}

// publish writes a document in its place atomically.
func publish(places *files.Places, env *stream.Env, path string, doc map[string]any) error {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(env.Data, "scaffold-*.json")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when it was published
	if _, err = tmp.Write(append(text, '\n')); err == nil {
		err = tmp.Chmod(0o644) // published files are readable by all
	}
	if closing := tmp.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishDeadline)
	defer cancel()
	return places.Publish(ctx, tmp.Name(), resolve(env, path))
}

// collectionOf makes a Collection.
func (c *config) collectionOf(id string, e extent) map[string]any {
	h := c.hrefs(id, "")
	links := []any{linkMap("root", h.root, mediaJSON), linkMap("parent", h.root, mediaJSON)}
	if c.BaseURL != "" {
		links = append(links, linkMap("self", h.collection, mediaJSON))
		if c.LinkLayout == "api" {
			links = append(links, linkMap("items", h.collection+"/items", mediaGeoJSON))
		}
	}
	license := "other"
	if c.Version == "1.0.0" {
		license = "proprietary"
	}
	out := map[string]any{"type": "Collection", "stac_version": c.Version, "stac_extensions": []any{}, "id": id, "description": "Items of " + id + ".", "license": license,
		"extent": e.json(), "links": links}
	maps.Copy(out, c.defaults.described)
	return out
}

// catalogOf makes a Catalog of collections.
func (c *config) catalogOf(collections []string) map[string]any {
	root := "./catalog.json"
	links := []any{}
	if c.BaseURL != "" {
		root = c.hrefs("", "").root
		links = append(links, linkMap("self", root, mediaJSON))
	}
	links = append(links, linkMap("root", root, mediaJSON))
	for _, id := range collections {
		if id == "" {
			continue
		}
		href := "./" + segment(id) + "/collection.json"
		if c.BaseURL != "" {
			href = c.hrefs(id, "").collection
		}
		child := linkMap("child", href, mediaJSON)
		child["title"] = id
		links = append(links, child)
	}
	out := map[string]any{"type": "Catalog", "stac_version": c.Version, "stac_extensions": []any{}, "id": cmp.Or(c.CatalogID, "catalog"), "description": "A catalogue of collections.", "links": links}
	for _, key := range []string{"title", "description"} {
		if v, ok := c.defaults.described[key]; ok {
			out[key] = v
		}
	}
	return out
}

func linkMap(rel, href, media string) map[string]any {
	return map[string]any{"rel": rel, "href": href, "type": media}
}
