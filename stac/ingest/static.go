package ingest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/url"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// fetcher reads documents of a catalog wherever they are.
type fetcher struct {
	places *files.Places
	client *apiclient.Client // of a catalog on the web
}

func (f fetcher) fetch(ctx context.Context, ref string) ([]byte, error) {
	if f.client != nil && isWeb(ref) {
		text, _, err := f.client.Document(ctx, ref)
		return text, err
	}
	return readAll(ctx, f.places, ref)
}

// itemRef is an item that a link leads to.
type itemRef struct {
	ref  string
	text []byte // when it is here already
}

type fetched struct {
	text []byte
	err  error
}

// walk reads the items of a static catalog. There are no marks: a resumed run reads everything again and skips done
// items behind, since a catalog may have changed anywhere.
func (f *fileSource) walk(ctx context.Context, out stream.Out) error {
	get := fetcher{f.places, f.client}
	wanted := map[string]bool{} // collections, and whether they were there
	for _, id := range f.s.search.Collections {
		wanted[id] = false
	}
	refs := f.refs(ctx, get, wanted, out)
	err := ordered(ctx, max(1, f.s.Concurrency), true, refs, func(ctx context.Context, r itemRef, give func(fetched) bool) {
		text, err := r.text, error(nil)
		if text == nil {
			text, err = get.fetch(ctx, r.ref)
		}
		give(fetched{text, err})
	}, func(r itemRef, got fetched) error { return f.passItem(ctx, r, got, out) })
	if err != nil || f.stop != nil {
		return err
	}
	for id, found := range wanted {
		if !found {
			return wrongConfig(fmt.Sprintf("collection %s is not in %s", id, f.source), "stac.discovery lists those that are")
		}
	}
	return nil
}

// refs goes over the items that the catalog's links lead to, of the wanted collections or of all.
func (f *fileSource) refs(ctx context.Context, get fetcher, wanted map[string]bool, out stream.Out) iter.Seq[itemRef] {
	return func(yield func(itemRef) bool) {
		for d, err := range (apiclient.Crawl{Fetch: get.fetch}).All(ctx, f.layout.catalog) {
			if _, known := wanted[d.ID]; known && d.Kind == apiclient.KindCollection {
				wanted[d.ID] = true
			}
			switch {
			case err != nil && d.Ref != "":
				err = f.failDocument(d.Ref, err, out)
			case err == nil:
				err = f.sendMet(ctx, d, wanted)
			}
			if err != nil {
				f.stop = err
				return
			}
			if len(wanted) > 0 && !wanted[d.Parent] {
				continue
			}
			if d.Kind == apiclient.KindItem && !yield(itemRef{d.Ref, d.Text}) {
				return
			}
			for _, ref := range d.Items {
				if !yield(itemRef{ref: ref}) {
					return
				}
			}
		}
	}
}

// sendMet hands on a Collection that the walk has come to, if it is one of the wanted.
func (f *fileSource) sendMet(ctx context.Context, d apiclient.Document, of map[string]bool) error {
	if _, known := of[d.ID]; d.Kind != apiclient.KindCollection || len(of) > 0 && !known || !wanted(f.env) {
		return nil
	}
	place := stream.Place{File: d.Ref}
	if isWeb(d.Ref) {
		place = stream.Place{URL: shown(d.Ref)}
	}
	return sendCollection(ctx, f.env, d.Text, place, f.layout.catalog)
}

func (f *fileSource) failDocument(ref string, err error, out stream.Out) error {
	failure := failureOf(err, "")
	if !isWeb(ref) {
		failure.Type, failure.Context = stream.DataProcessing, stream.Context{File: ref}
	}
	return f.fail(failure, out)
}

func (f *fileSource) passItem(ctx context.Context, r itemRef, got fetched, out stream.Out) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if got.err != nil {
		return f.failDocument(r.ref, got.err, out)
	}
	place := stream.Place{File: r.ref}
	if isWeb(r.ref) {
		place = stream.Place{URL: shown(r.ref)}
	}
	it, err := f.filter.item(bytes.TrimSpace(got.text), "", place)
	if err == nil && it != nil {
		if err = it.Parse(); err == nil {
			if kind, _ := it.Get("type").Str(); kind != "" && kind != apiclient.KindItem {
				err = stepwell.Invalid("", "%s is a %s, not an item", shown(r.ref), kind)
			}
		}
	}
	if err != nil {
		return f.failDocument(r.ref, err, out)
	}
	f.rows++
	return f.pass(entry{item: it}, out)
}

// shown is a place without the secrets that a URL may hold.
func shown(ref string) string {
	if !isWeb(ref) {
		return ref
	}
	u, err := url.Parse(ref)
	if err != nil {
		return "the URL"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
