package apiclient

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Landing is the landing page of an API, or any other catalog document.
type Landing struct {
	ID, Title string
	Type      string // Catalog or Collection, as far as it says
	Classes   []string
	Links     []Link
	URL       string // where it was found
}

// Landing reads the landing page, once.
func (c *Client) Landing(ctx context.Context) (*Landing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.landing != nil {
		return c.landing, nil
	}
	raw, from, err := c.Document(ctx, c.root.String())
	if err != nil {
		return nil, err
	}
	var doc struct {
		ID      string          `json:"id"`
		Title   string          `json:"title"`
		Type    string          `json:"type"`
		Classes []string        `json:"conformsTo"`
		Links   json.RawMessage `json:"links"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, &Error{Kind: "content", URL: c.shown(c.root.String()), Attempts: 1, Err: err}
	}
	l := &Landing{ID: doc.ID, Title: doc.Title, Type: doc.Type, Classes: doc.Classes, Links: parseLinks(doc.Links), URL: from}
	if len(l.Classes) == 0 {
		if err := c.conformance(ctx, l); err != nil {
			return nil, err
		}
	}
	c.landing = l
	return l, nil
}

// conformance requests the page where older servers declare their classes.
func (c *Client) conformance(ctx context.Context, l *Landing) error {
	at := c.link(l, func(link Link) bool { return link.Rel == "conformance" })
	if at == "" {
		return nil
	}
	raw, _, err := c.Document(ctx, at)
	if StatusOf(err) == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	var doc struct {
		Classes []string `json:"conformsTo"`
	}
	if json.Unmarshal(raw, &doc) == nil {
		l.Classes = doc.Classes
	}
	return nil
}

var stacClass = regexp.MustCompile(`^https://api\.stacspec\.org/v1\.\d+\.\d+[^/]*/(.+)$`)

// Conforms reports whether the API has a class: "item-search", "ogcapi-features", "collections", "item-search#filter";
// any 1.x release counts, candidates too, and so do the options.
func (c *Client) Conforms(l *Landing, class string) bool {
	matches := func(declared string) bool {
		if m := stacClass.FindStringSubmatch(declared); m != nil {
			declared = m[1]
		}
		return declared == class || strings.HasSuffix(declared, "/"+class)
	}
	return !slices.ContainsFunc(c.o.RemoveConformance, matches) && (slices.ContainsFunc(c.o.AddConformance, matches) || slices.ContainsFunc(l.Classes, matches))
}

// IsAPI reports whether there is anything to ask: a static catalog has documents only.
func (c *Client) IsAPI(l *Landing) bool {
	return len(l.Classes) > 0 || len(c.o.AddConformance) > 0 || c.search(l, "") != "" || c.data(l) != ""
}

// search is where searches by a method go, "" for none; without a method, by any.
func (c *Client) search(l *Landing, method string) string {
	return c.link(l, func(link Link) bool {
		return link.Rel == "search" && (method == "" || method == cmp.Or(strings.ToUpper(link.Method), "GET"))
	})
}

// data is where the collections are listed, "" when no link says so.
func (c *Client) data(l *Landing) string {
	return cmp.Or(c.link(l, func(link Link) bool { return link.Rel == "data" }), c.link(l, func(link Link) bool { return link.Rel == "collections" }))
}

// link is the URL of the first link to JSON that fits, "" for none.
func (c *Client) link(l *Landing, fits func(Link) bool) string {
	for _, link := range l.Links {
		if !link.isJSON() || !fits(link) {
			continue
		}
		if href, err := c.resolve(l.URL, link.Href); err == nil {
			return href
		}
	}
	return ""
}

// below is a URL below the landing page, where no link exists.
func (c *Client) below(parts ...string) string {
	return extend(c.root.String(), parts...)
}

// extend adds path segments to a URL, and keeps its query.
func extend(text string, parts ...string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	out, err := url.Parse(path)
	if err != nil {
		return text
	}
	u.Path, u.RawPath = out.Path, out.RawPath
	return u.String()
}

// collections is where the collections are, by link if there is one.
func (c *Client) collections(l *Landing) string {
	if at := c.data(l); at != "" {
		return at
	}
	return c.below("collections")
}

// Document fetches one JSON document of at most MaxPage, and says where it was found in the end.
func (c *Client) Document(ctx context.Context, href string) (text []byte, from string, err error) {
	x := &exchange{Request: Request{URL: href}, repeat: true}
	_, err = c.send(ctx, x, func(r *reply) error {
		raw, err := io.ReadAll(r.body)
		if err != nil {
			return err
		}
		if !json.Valid(raw) {
			return r.broken(io.ErrUnexpectedEOF)
		}
		text, from = raw, r.URL.String()
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if u, perr := url.Parse(from); perr == nil {
		c.strip(u)
		from = u.String()
	}
	return text, from, nil
}
