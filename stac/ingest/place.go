package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// layout is the detected form of a source in file mode: files of items, or a catalog to walk.
type layout struct {
	paths   []string
	at      string   // path to the list in them
	catalog string   // a URL or a path, "" for none
	lone    bool     // paths were found in a directory: only Features there are items
	left    []string // directories that are not of collections
	told    []string // files of the collections
}

// The values of source_type.
const (
	typeFile       = "file"
	typeDirectory  = "items_directory"
	typeCollection = "collection"
	typeCatalog    = "catalog"
)

// locator detects the form of a source.
type locator struct {
	places *files.Places
	client *apiclient.Client // of a source on the web
	env    *stream.Env
	want   string   // source_type, "" for auto
	wanted []string // ids of collections, none for all
	empty  bool     // whether a place for items without any is fine
}

func (l *locator) find(ctx context.Context, source string) (layout, error) {
	switch {
	case isWeb(source):
		return l.web(ctx, source)
	case strings.Contains(source, "://"):
		return l.bucket(ctx, source)
	}
	at := l.env.Path(source)
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.absent(ctx, source, at)
	case err != nil:
		return layout{}, configured(err)
	case info.IsDir():
		return l.directory(ctx, at)
	case l.want == typeDirectory:
		return layout{}, l.contradiction(source, "it is a file")
	}
	return l.file(ctx, at)
}

func (l *locator) contradiction(source, is string) error {
	return wrongConfig(fmt.Sprintf("source_type is %s, but %s: %s", l.want, source, is), "leave source_type out to have it found out")
}

// absent is a glob, or a file that is not there.
func (l *locator) absent(ctx context.Context, source, at string) (layout, error) {
	found, err := l.places.List(ctx, l.env.Dir, source)
	if err == nil {
		return layout{paths: found}, nil
	}
	if strings.ContainsAny(source, "*?[") {
		return layout{}, configured(err)
	}
	hint := "relative paths are meant against " + l.env.Dir
	if filepath.IsAbs(source) {
		hint = ""
	}
	return layout{}, wrongConfig(fmt.Sprintf("%s does not exist (it would be %s)", source, at), hint)
}

// web detects the target of a URL: a document of a catalog, or items.
func (l *locator) web(ctx context.Context, source string) (layout, error) {
	if l.want == typeFile || isData(source) {
		return layout{paths: []string{source}}, nil
	}
	doc, err := l.client.Landing(ctx)
	if e, ok := errors.AsType[*apiclient.Error](err); ok && (e.Kind == "content" || e.Kind == "limit") {
		return layout{paths: []string{source}}, nil // a list, say
	}
	if err != nil {
		return layout{}, networkError(err)
	}
	if doc.Type == apiclient.KindCatalog || doc.Type == apiclient.KindCollection || doc.Type == "" && len(doc.Links) > 0 {
		return layout{catalog: source}, nil
	}
	if l.want == typeCatalog || l.want == typeCollection {
		return layout{}, l.contradiction(source, "its type is "+doc.Type)
	}
	return layout{paths: []string{source}}, nil
}

// bucket is a place that only files.Places knows.
func (l *locator) bucket(ctx context.Context, source string) (layout, error) {
	if name := path.Base(source); name == "catalog.json" || name == "collection.json" {
		return layout{catalog: source}, nil
	}
	found, err := l.places.List(ctx, l.env.Dir, source)
	return layout{paths: found}, configured(err)
}

func (l *locator) directory(ctx context.Context, dir string) (layout, error) {
	if l.want == typeFile {
		return layout{}, l.contradiction(dir, "it is a directory")
	}
	for _, c := range []struct{ name, want string }{{"collection.json", typeCollection}, {"catalog.json", typeCatalog}} {
		if l.want != "" && l.want != c.want {
			continue
		}
		if at := filepath.Join(dir, c.name); isFile(at) {
			return l.document(ctx, at, apiclient.KindCollection)
		}
		if l.want != "" {
			return layout{}, l.contradiction(dir, "there is no "+c.name+" in it")
		}
	}
	return l.items(ctx, dir, true)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// items are the files of items in a directory; else those of the collections below it, where it may have
// them; else those in the directories below it, where each has its own.
func (l *locator) items(ctx context.Context, dir string, collections bool) (layout, error) {
	for _, pattern := range []string{"*.json", "*.geojson", "*/*.json"} {
		if collections && pattern == "*/*.json" {
			if found, any, err := l.collections(ctx, dir); any || err != nil {
				return found, err
			}
		}
		found, err := l.places.List(ctx, dir, pattern)
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			return layout{}, configured(err)
		}
		if found = slices.DeleteFunc(found, describes); len(found) > 0 {
			return layout{paths: found, lone: true}, nil
		}
	}
	found, err := l.rows(ctx, dir)
	if err != nil || len(found) > 0 {
		return layout{paths: found}, err
	}
	if l.empty {
		return layout{lone: true}, nil
	}
	return layout{}, wrongConfig(dir+" holds no files of items", "files of items end in .json, .geojson, .ndjson, .jsonl (also with .gz and .zst) or .parquet")
}

// rowFiles are the names of files with many items, of which a directory has one kind.
var rowFiles = [][]string{{".ndjson", ".ndjson.gz", ".ndjson.zst", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".geojsonl"}, {".parquet", ".geoparquet"}}

// rows are the files with many items in a directory, in its directory items, or in those of the collections below it:
// the layout of stac.output with the formats ndjson and parquet.
func (l *locator) rows(ctx context.Context, dir string) ([]string, error) {
	for _, below := range []string{"", "items/", "*/", "*/items/"} {
		for _, kinds := range rowFiles {
			var all []string
			for _, kind := range kinds {
				found, err := l.places.List(ctx, dir, below+"*"+kind)
				if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
					return nil, configured(err)
				}
				all = append(all, found...)
			}
			if len(all) > 0 {
				slices.Sort(all)
				return all, nil
			}
		}
	}
	return nil, nil
}

// describes reports whether a file in a directory is about its items, by its name.
func describes(path string) bool {
	name := filepath.Base(path)
	return name == "collection.json" || name == "catalog.json" || name == "manifest.json" || strings.HasSuffix(name, ".manifest.json") || filepath.Base(filepath.Dir(path)) == "collections"
}

// file looks into a single file.
func (l *locator) file(ctx context.Context, at string) (layout, error) {
	kind := ""
	switch strings.ToLower(filepath.Ext(at)) {
	case ".json", "":
		var err error
		if kind, err = l.sniff(ctx, at); err != nil {
			return layout{}, err
		}
	}
	if kind == apiclient.KindCatalog || kind == apiclient.KindCollection {
		if l.want == typeFile {
			return layout{}, l.contradiction(at, "it is a "+kind)
		}
		return l.document(ctx, at, kind)
	}
	if l.want == typeCollection || l.want == typeCatalog {
		return layout{}, l.contradiction(at, "it is neither a catalog nor a collection")
	}
	return layout{paths: []string{at}}, nil
}

// document is a collection with its items next to it, in it or behind links; or a catalog.
func (l *locator) document(ctx context.Context, at, kind string) (layout, error) {
	text, err := readAll(ctx, l.places, at)
	if err != nil {
		return layout{}, configured(err)
	}
	beside := filepath.Join(filepath.Dir(at), "items")
	if info, err := os.Stat(beside); err == nil && info.IsDir() && kind == apiclient.KindCollection {
		found, err := l.items(ctx, beside, false)
		found.told = []string{at}
		return found, err
	}
	names, links := outline(text)
	switch {
	case slices.Contains(names, "features"):
		return layout{paths: []string{at}, at: "features", told: []string{at}}, nil
	case links:
		return layout{catalog: at}, nil
	case l.empty:
		return layout{}, nil
	}
	return layout{}, wrongConfig(at+" has no items: there is no directory items beside it, and in it neither features nor links to items or children", "")
}

// outline returns the members of a document, and whether it has links to follow.
func outline(text []byte) (names []string, links bool) {
	v, err := item.Parse(text)
	if err != nil || v.Kind() != item.Object {
		return nil, false
	}
	if list := v.Get("links"); list != nil {
		links = apiclient.Leads(list.Bytes())
	}
	return v.Keys(), links
}

// sniff finds the type of a JSON document in its beginning, "" when that does not tell.
func (l *locator) sniff(ctx context.Context, at string) (kind string, err error) {
	in, _, err := l.places.Open(ctx, at)
	if err != nil {
		return "", configured(err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	dec := jsontext.NewDecoder(io.LimitReader(in, 1<<20), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return "", nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return "", nil // nolint:nilerr // reading it reports the error
	}
	extent, links := false, false
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return "", nil //nolint:nilerr // as above
		}
		switch text := name.String(); text {
		case "type":
			value, err := dec.ReadToken()
			if err != nil || value.Kind() != '"' {
				return "", nil //nolint:nilerr // as above
			}
			return value.String(), nil
		case "extent", "links":
			extent, links = extent || text == "extent", links || text == "links"
		}
		if dec.SkipValue() != nil {
			return "", nil
		}
	}
	switch { // before 1.0.0-rc.1 there was no type
	case extent && links:
		return apiclient.KindCollection, nil
	case links:
		return apiclient.KindCatalog, nil
	}
	return "", nil
}

// maxDocument bounds a catalog or a collection.
const maxDocument = 64 << 20

func readAll(ctx context.Context, places *files.Places, at string) (text []byte, err error) {
	in, _, err := places.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	text, err = io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s is larger than %d MiB", at, maxDocument>>20)}
	}
	return text, err
}
