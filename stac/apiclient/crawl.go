package apiclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell"
)

// Kinds of documents of a catalog.
const (
	KindCatalog    = "Catalog"
	KindCollection = "Collection"
	KindItem       = "Feature"
)

// Document is a document that a Crawl has come to.
type Document struct {
	Ref    string // a URL or a path
	Kind   string
	ID     string
	Text   []byte
	Items  []string // where its item links lead, in their order
	Parent string   // the id of the collection above, "" for none
}

// Crawl walks a catalog by its child links, depth first and in their order. Documents may be files or
// anywhere else: Fetch knows.
type Crawl struct {
	Fetch func(ctx context.Context, ref string) ([]byte, error)
	// MaxDepth bounds how deep catalogs lie in each other. Defaults to 64.
	MaxDepth int
	// MaxDocuments bounds the catalogs and collections. Defaults to 1,000,000.
	MaxDocuments int
}

// All gives every catalog and collection from root on once, in depth first. A document that cannot be read comes as its
// error with its Ref, and the walk goes on; the error of the root, or the end of ctx, comes without a Ref and ends it.
func (c Crawl) All(ctx context.Context, root string) iter.Seq2[Document, error] {
	c.MaxDepth, c.MaxDocuments = cmp.Or(c.MaxDepth, 64), cmp.Or(c.MaxDocuments, 1_000_000)
	return func(yield func(Document, error) bool) {
		w := &crawling{Crawl: c, seen: map[xxh3.Uint128]struct{}{}, yield: yield}
		w.walk(ctx, root, "", 0)
	}
}

type crawling struct {
	Crawl
	seen  map[xxh3.Uint128]struct{} // a link back to a visited page is skipped
	yield func(Document, error) bool
}

// walk reports whether the walk goes on.
func (w *crawling) walk(ctx context.Context, ref, parent string, depth int) bool {
	key := xxh3.HashString128(ref)
	if _, again := w.seen[key]; again {
		return true
	}
	if depth > w.MaxDepth || len(w.seen) >= w.MaxDocuments {
		return w.yield(Document{Ref: ref}, stepwell.Errorf(stepwell.CodeLimit, "", "%s lies deeper than %d catalogs, or is beyond the first %d", ref, w.MaxDepth, w.MaxDocuments))
	}
	w.seen[key] = struct{}{}
	text, err := w.Fetch(ctx, ref)
	var d Document
	var children []string
	if err == nil {
		d, children, err = parseDocument(ref, text)
	}
	switch {
	case ctx.Err() != nil:
		w.yield(Document{}, context.Cause(ctx))
		return false
	case err != nil && depth == 0:
		w.yield(Document{}, err)
		return false
	case err != nil:
		return w.yield(Document{Ref: ref}, err)
	}
	if d.Parent = parent; d.Kind == KindCollection {
		d.Parent = d.ID
	}
	if !w.yield(d, nil) {
		return false
	}
	for _, child := range children {
		if !w.walk(ctx, child, d.Parent, depth+1) {
			return false
		}
	}
	return true
}

// parseDocument reads a catalog or a collection and where its links lead.
func parseDocument(ref string, text []byte) (d Document, children []string, err error) {
	var doc struct {
		Type   string          `json:"type"`
		ID     string          `json:"id"`
		Extent json.RawMessage `json:"extent"`
		Links  json.RawMessage `json:"links"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return d, nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: ref + " is not valid JSON", Err: err}
	}
	d = Document{Ref: ref, Kind: doc.Type, ID: doc.ID, Text: text}
	switch doc.Type {
	case KindCatalog, KindCollection, KindItem:
	case "": // before 1.0.0-rc.1 there was no type
		if d.Kind = KindCatalog; len(doc.Extent) > 0 {
			d.Kind = KindCollection
		}
		if doc.Links == nil {
			return d, nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: ref + " is no STAC document: it has neither type nor links"}
		}
	default:
		return d, nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%s is a %q and no catalog or collection", ref, doc.Type)}
	}
	for _, l := range parseLinks(doc.Links) {
		if l.Rel != "child" && l.Rel != "item" {
			continue
		}
		to, err := Resolve(ref, l.Href)
		switch {
		case err != nil:
			return d, nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%s has the link %q", ref, l.Href), Err: err}
		case l.Rel == "child":
			children = append(children, to)
		default:
			d.Items = append(d.Items, to)
		}
	}
	return d, children, nil
}

// Resolve makes a link of a document at ref, a URL or a path, whole.
func Resolve(ref, href string) (string, error) {
	if strings.HasPrefix(href, "file://") {
		u, err := url.Parse(href)
		if err != nil {
			return "", err
		}
		return filepath.FromSlash(u.Path), nil
	}
	if strings.Contains(href, "://") {
		return href, nil
	}
	if strings.Contains(ref, "://") {
		at, err := url.Parse(ref)
		if err != nil {
			return "", err
		}
		to, err := at.Parse(href)
		if err != nil {
			return "", err
		}
		to.Fragment = ""
		return to.String(), nil
	}
	if href == "" {
		return "", errors.New("an empty link")
	}
	if filepath.IsAbs(href) {
		return filepath.Clean(href), nil
	}
	plain := href
	if unescaped, err := url.PathUnescape(href); err == nil {
		plain = unescaped
	}
	return filepath.Join(filepath.Dir(ref), filepath.FromSlash(plain)), nil
}
