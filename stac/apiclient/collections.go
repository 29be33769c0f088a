package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/stepwell/stepwell"
)

// Collection is one collection of an API or a catalog.
type Collection struct {
	ID, Title string
	Text      []byte // the document
	URL       string // where it is
}

// Filter narrows a list of collections, on servers that can (collection search).
type Filter struct {
	Bbox     []float64
	Datetime string
}

// Collections lists the collections of an API, page by page. An error ends the list; the collections before it have
// been given. An API without /collections is walked by its child links.
func (c *Client) Collections(ctx context.Context, f Filter) iter.Seq2[Collection, error] {
	return func(yield func(Collection, error) bool) {
		l, err := c.Landing(ctx)
		if err != nil {
			yield(Collection{}, err)
			return
		}
		at := c.listAt(l)
		if at == "" {
			c.children(ctx, yield)
			return
		}
		c.listed(ctx, l, at, f, yield)
	}
}

// CanList reports whether the API has its collections under /collections, as far as it says.
func (c *Client) CanList(ctx context.Context) (bool, error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return false, err
	}
	return c.listAt(l) != "", nil
}

// listAt is where the collections are listed, "" when the API does not say that they are.
func (c *Client) listAt(l *Landing) string {
	at := c.data(l)
	if at == "" && (c.Conforms(l, "collections") || c.Conforms(l, "ogcapi-features") || c.Conforms(l, "conf/core")) {
		at = c.below("collections")
	}
	return at
}

// listed gives the collections of a list with pages.
func (c *Client) listed(ctx context.Context, l *Landing, at string, f Filter, yield func(Collection, error) bool) {
	first := Request{Method: "GET", URL: at}
	if c.Conforms(l, "collection-search") && (len(f.Bbox) > 0 || f.Datetime != "") {
		body, err := Search{Bbox: f.Bbox, Datetime: f.Datetime}.Body()
		if err == nil {
			first, err = byGET(Request{URL: at, Body: body})
		}
		if err != nil {
			yield(Collection{}, err)
			return
		}
	}
	p := c.pager("collections", &first)
	for number := 1; ; number++ {
		page, err := p.Next(ctx)
		if number == 1 && StatusOf(err) == http.StatusNotFound { // a link or a class that promised too much
			c.children(ctx, yield)
			return
		}
		if err != nil {
			yield(Collection{}, err)
			return
		}
		if page == nil {
			return
		}
		for _, each := range page.Features {
			if !yield(collectionOf(each.Text, extend(at, each.ID)), nil) {
				return
			}
		}
	}
}

// collectionOf reads the needed members of a collection. Its self link is its location.
func collectionOf(text []byte, at string) Collection {
	var doc struct {
		ID    string          `json:"id"`
		Title string          `json:"title"`
		Links json.RawMessage `json:"links"`
	}
	out := Collection{Text: text, URL: at}
	if json.Unmarshal(text, &doc) != nil {
		return out
	}
	out.ID, out.Title = doc.ID, doc.Title
	for _, link := range parseLinks(doc.Links) {
		if u, err := url.Parse(link.Href); link.Rel == "self" && err == nil && u.IsAbs() && strings.HasPrefix(u.Scheme, "http") {
			out.URL = link.Href
			break
		}
	}
	return out
}

// children gives the collections that child links lead to.
func (c *Client) children(ctx context.Context, yield func(Collection, error) bool) {
	crawl := Crawl{Fetch: func(ctx context.Context, ref string) ([]byte, error) {
		text, _, err := c.Document(ctx, ref)
		return text, err
	}}
	for d, err := range crawl.All(ctx, c.root.String()) {
		if err == nil && d.Kind != KindCollection {
			continue
		}
		var found Collection
		if err == nil {
			found = collectionOf(d.Text, d.Ref)
		}
		if !yield(found, err) {
			return
		}
	}
}

// Collection reads one collection. A missing one is a *Error with the status 404.
func (c *Client) Collection(ctx context.Context, id string) (Collection, error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return Collection{}, err
	}
	at := extend(c.collections(l), id)
	text, _, err := c.Document(ctx, at)
	if err != nil {
		return Collection{}, err
	}
	got := collectionOf(text, at)
	if got.ID != id {
		return Collection{}, &Error{Kind: "content", URL: c.shown(at), Attempts: 1, Err: &stepwell.Error{Code: stepwell.CodeFailed,
			Message: fmt.Sprintf("%s is not the collection %s but has the id %q", c.shown(at), id, got.ID)}}
	}
	return got, nil
}

// Item reads one item with its ETag, "" if the server has none.
func (c *Client) Item(ctx context.Context, collection, id string) (text []byte, etag string, err error) {
	l, err := c.Landing(ctx)
	if err != nil {
		return nil, "", err
	}
	x := &exchange{Request: Request{URL: extend(c.collections(l), collection, "items", id)}, repeat: true}
	_, err = c.send(ctx, x, func(r *reply) error {
		var raw json.RawMessage
		if err := json.NewDecoder(r.body).Decode(&raw); err != nil {
			return r.broken(err)
		}
		text, etag = bytes.TrimSpace(raw), r.Header.Get("ETag")
		return nil
	})
	return text, etag, err
}
