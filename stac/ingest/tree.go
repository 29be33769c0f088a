package ingest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
)

// collections are the files of items of the wanted collections, or of all, in the directories below dir that have a
// collection.json: the layout of stac.output with format json. some is false when no directory has one.
func (l *locator) collections(ctx context.Context, dir string) (all layout, some bool, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return layout{}, false, configured(err)
	}
	all.lone = true
	var ids []string
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if info, err := os.Stat(sub); e.Name()[0] == '.' || err != nil || !info.IsDir() {
			continue // a link into nowhere leads to no items
		}
		at := filepath.Join(sub, "collection.json")
		if !isFile(at) {
			all.left = append(all.left, e.Name())
			continue
		}
		id, paths, err := l.collection(ctx, at)
		if err != nil {
			return layout{}, true, err
		}
		ids, all.paths = append(ids, id), append(all.paths, paths...)
		if len(paths) > 0 {
			all.told = append(all.told, at)
		}
	}
	if len(ids) == 0 {
		return layout{}, false, nil
	}
	for _, id := range l.wanted {
		if !slices.Contains(ids, id) {
			return layout{}, true, wrongConfig(fmt.Sprintf("collection %s is not in %s", id, dir), "there are: "+strings.Join(ids[:min(len(ids), 10)], ", "))
		}
	}
	if len(all.paths) == 0 && !l.empty {
		return layout{}, true, &stream.Error{Type: stream.ConfigurationError,
			Err: &stepwell.Error{Code: stepwell.CodeNotFound, Message: dir + " holds no items: its collections are empty", Hint: "allow_empty: true accepts that"}}
	}
	return all, true, nil
}

// collection is the id of one collection among several, and its files of items: none if it is not wanted, or
// has none.
func (l *locator) collection(ctx context.Context, at string) (id string, paths []string, err error) {
	text, err := readAll(ctx, l.places, at)
	if err != nil {
		return "", nil, configured(err)
	}
	dir := filepath.Dir(at)
	if id, _ = apiclient.Key(text); id == "" {
		id = filepath.Base(dir)
	}
	if len(l.wanted) > 0 && !slices.Contains(l.wanted, id) {
		return id, nil, nil
	}
	inside, beside := &locator{places: l.places, env: l.env, empty: true}, filepath.Join(dir, "items")
	if info, err := os.Stat(beside); err == nil && info.IsDir() {
		dir = beside
	}
	found, err := inside.items(ctx, dir, false)
	if err != nil || len(found.paths) > 0 {
		return id, found.paths, err
	}
	if names, links := outline(text); links || slices.Contains(names, "features") {
		return id, nil, wrongConfig(at+" has its items in it or behind links, which is not read together with other collections", "give it as source, in a step of its own")
	}
	return id, nil, nil
}

// feature is an error unless a row is a GeoJSON Feature (RFC 7946, 3.2), as every STAC item is.
func feature(text []byte) error {
	v, err := item.Parse(text)
	kind := v.Get("type")
	switch {
	case err != nil:
		return stepwell.Invalid("", "no item: %v", err)
	case kind == nil:
		return stepwell.Invalid("", "no item: it has no type, and an item's is Feature")
	case string(kind.Bytes()) != `"Feature"`:
		return stepwell.Invalid("", "no item: its type is %.40s, not Feature", kind.Bytes())
	}
	return nil
}
