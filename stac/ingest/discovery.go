package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// maxCollections limits the collections of a discovery: its outputs hold all of them.
const maxCollections = 10_000

// find are the config of stac.discovery.
type find struct {
	CatalogURL  string    `json:"catalog_url" doc:"URL of an API, or URL or path of a static catalog."`
	Source      string    `json:"source" doc:"The same as catalog_url."`
	Collections []string  `json:"collection_ids" doc:"Ids of the collections, with * and ? for any characters; all when absent."`
	Bbox        []float64 `json:"bbox" doc:"Box that a collection's extent must intersect."`
	Datetime    any       `json:"datetime" doc:"Time: an instant, a year, month or day, an interval a/b with .. for an open end, [a, b], or {start, end}."`
	Filters     filters   `json:"filters" doc:"The conditions in one place; each may be given here or beside it."`
	Max         int       `json:"max_collections" minimum:"1" maximum:"10000" doc:"Collections after which to stop."`
	connection

	where apiclient.Filter
}

func checkDiscovery(c *find, config stream.Config) []error {
	e := &either{config: config.Values}
	e.one("source", "catalog_url")
	e.one("bbox", "filters.spatial", "filters.bbox")
	e.one("datetime", "filters.temporal", "filters.datetime")
	if len(config.Given("source", "catalog_url")) == 0 {
		e.wrong = append(e.wrong, wrongConfig("catalog_url is missing", "the URL of an API, or URL or path of a static catalog"))
	}
	if config.Pending() {
		return e.wrong
	}
	if err := c.conditions(); err != nil {
		e.wrong = append(e.wrong, err)
	}
	return e.wrong
}

func (c *find) conditions() error {
	s := settings{Bbox: c.Bbox, Datetime: c.Datetime, Filters: c.Filters}
	if len(c.Filters.IDs) > 0 || len(c.Filters.Query) > 0 {
		return wrongConfig("filters.ids and filters.query are for items, not for collections", "collection_ids names collections")
	}
	if err := s.conditions(); err != nil {
		return err
	}
	c.where = apiclient.Filter{Bbox: s.search.Bbox, Datetime: s.search.Datetime}
	if c.CatalogURL == "" {
		c.CatalogURL = c.Source
	}
	if c.Max == 0 {
		c.Max = maxCollections
	}
	return nil
}

// discovery finds collections.
type discovery struct {
	c      *find
	env    *stream.Env
	places *files.Places
	client *apiclient.Client // nil: a catalog of files
	root   string
	api    bool

	found  []any
	ids    map[string]bool
	failed int

	first error
}

func (o Options) openDiscovery(ctx context.Context, env *stream.Env, c *find) (any, error) {
	var err error
	d := &discovery{ids: map[string]bool{}, c: c, env: env, places: o.Places, root: c.CatalogURL}
	if isWeb(d.root) {
		if d.client, err = c.open(o.HTTP, d.root); err != nil {
			return nil, err
		}
		l, err := d.client.Landing(ctx)
		if err != nil {
			return nil, networkError(err)
		}
		d.api = d.client.IsAPI(l)
		return d, nil
	}
	if strings.Contains(d.root, "://") {
		return d, nil
	}
	d.root = env.Path(d.root)
	if info, err := os.Stat(d.root); err == nil && info.IsDir() {
		for _, name := range []string{"catalog.json", "collection.json"} {
			if isFile(filepath.Join(d.root, name)) {
				d.root = filepath.Join(d.root, name)
				return d, nil
			}
		}
		return nil, wrongConfig(c.CatalogURL+" is a directory without catalog.json or collection.json", "")
	} else if err != nil {
		return nil, wrongConfig(fmt.Sprintf("%s does not exist (it would be %s)", c.CatalogURL, d.root), "relative paths are meant against "+env.Dir)
	}
	return d, nil
}

// Read implements stream.Source: the collections are its items.
func (d *discovery) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	for c, err := range d.collections(ctx) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = d.addCollection(c, out)
			if errors.Is(err, errEnough) {
				break
			}
			if err != nil {
				return err
			}
			continue
		}
		if d.failed++; d.first == nil {
			d.first = err
		}
		f := failureOf(err, c.ID)
		f.Item = c.ID
		if err := out.Fail(f); err != nil {
			return err
		}
	}
	switch {
	case len(d.found) > 0:
	case d.first != nil:
		return &stream.Error{Type: stream.ModuleException, Context: failureOf(d.first, "").Context, Err: fmt.Errorf("no collection could be read from %s: %w", shown(d.c.CatalogURL), d.first)}
	default:
		d.env.Log(slog.LevelWarn, "no collection was found", slog.String("catalog", shown(d.c.CatalogURL)), slog.Any("collection_ids", d.c.Collections))
	}
	return nil
}

// collections are all collections, or those asked for by name.
func (d *discovery) collections(ctx context.Context) iter.Seq2[apiclient.Collection, error] {
	if !d.api {
		return d.static(ctx)
	}
	if len(d.c.Collections) == 0 || slices.ContainsFunc(d.c.Collections, func(id string) bool { return strings.ContainsAny(id, "*?") }) {
		return d.client.Collections(ctx, d.c.where)
	}
	return func(yield func(apiclient.Collection, error) bool) {
		for _, id := range d.c.Collections {
			c, err := d.client.Collection(ctx, id)
			if apiclient.StatusOf(err) == http.StatusNotFound {
				err = &stepwell.Error{Code: stepwell.CodeNotFound, Message: "collection " + id + " does not exist at " + d.client.URL()}
			}
			if err != nil {
				c = apiclient.Collection{ID: id}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// static walks a catalog of documents.
func (d *discovery) static(ctx context.Context) iter.Seq2[apiclient.Collection, error] {
	return func(yield func(apiclient.Collection, error) bool) {
		for doc, err := range (apiclient.Crawl{Fetch: fetcher{d.places, d.client}.fetch}).All(ctx, d.root) {
			var found apiclient.Collection
			switch {
			case err != nil && doc.Ref != "":
				err = fmt.Errorf("%s: %w", shown(doc.Ref), err)
			case err != nil:
			case doc.Kind != apiclient.KindCollection:
				continue
			default:
				var about struct{ Title string }
				_ = json.Unmarshal(doc.Text, &about) // a title of another type is none
				found = apiclient.Collection{ID: doc.ID, Title: about.Title, Text: doc.Text, URL: doc.Ref}
			}
			if !yield(found, err) {
				return
			}
		}
	}
}

// addCollection passes a collection on if it is wanted.
func (d *discovery) addCollection(c apiclient.Collection, out stream.Out) error {
	if c.ID == "" {
		d.failed++
		return out.Fail(stream.Failure{Err: stepwell.Invalid("", "a collection has no id"), Context: stream.Context{URL: shown(c.URL)}})
	}
	if !d.named(c.ID) || !d.where(c.Text) {
		return nil
	}
	if d.ids[c.ID] {
		d.failed++
		return out.Fail(stream.Failure{Item: c.ID, Err: stepwell.Invalid("", "collection %s is there twice; the second, at %s, is left out", c.ID, shown(c.URL)), Context: stream.Context{URL: shown(c.URL)}})
	}
	if len(d.found) == d.c.Max {
		if d.c.Max < maxCollections {
			return errEnough
		}
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("there are more than %d collections", maxCollections), Hint: "narrow them with collection_ids"}
	}
	title := c.Title
	if r := []rune(title); len(r) > 200 {
		title = string(r[:200]) + " …"
	}
	entry := map[string]any{"id": c.ID, "title": title, "catalog_url": d.c.CatalogURL, "href": c.URL}
	if !d.api {
		entry["static"] = true
	}
	if err := shareCollection(d.env, c); err != nil {
		return err
	}
	d.found = append(d.found, entry)
	d.ids[c.ID] = true
	return out.Item(stream.Lazy(c.Text, stream.Place{URL: shown(c.URL)}))
}

func (d *discovery) named(id string) bool {
	return len(d.c.Collections) == 0 || slices.ContainsFunc(d.c.Collections, func(pattern string) bool { return glob(pattern, id) })
}

var globSigns = strings.NewReplacer(`\*`, ".*", `\?`, ".")

// glob matches * and ?, and nothing else.
func glob(pattern, text string) bool {
	ok, err := regexp.MatchString("(?s)^"+globSigns.Replace(regexp.QuoteMeta(pattern))+"$", text)
	return ok && err == nil
}

// where reports whether a collection's extent meets the filters; one without an extent does.
func (d *discovery) where(text []byte) bool {
	if len(d.c.where.Bbox) == 0 && d.c.where.Datetime == "" {
		return true
	}
	v, err := item.Parse(text)
	if err != nil {
		return true // the steps behind report its errors
	}
	filter := newItemFilter(apiclient.Search{Bbox: d.c.where.Bbox, Datetime: d.c.where.Datetime})
	e := v.Get("extent")
	if box := summary.Box(e.Get("spatial").Get("bbox").At(0)); box != nil && len(filter.bbox) > 0 && !boxesMeet(box, filter.bbox) {
		return false
	}
	times := e.Get("temporal").Get("interval").At(0)
	if !filter.timed || times.Len() != 2 {
		return true
	}
	begin, _ := times.At(0).Str() // null is open
	last, _ := times.At(1).Str()  // likewise
	from, hasFrom := apiclient.Instant(begin, false)
	to, hasTo := apiclient.Instant(last, true)
	return (!hasFrom || filter.to.IsZero() || !from.After(filter.to)) && (!hasTo || !to.Before(filter.from))
}

// Finish implements stream.Finisher.
func (d *discovery) Finish(error) (any, error) {
	found := d.found
	if found == nil {
		found = []any{}
	}
	return map[string]any{"collections": found, "count": len(found), "failed": d.failed}, nil
}
