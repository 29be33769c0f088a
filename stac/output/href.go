package output

import (
	"bytes"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// escapePath makes a path of file names a URL path (RFC 3986, and RFC 3987 for characters beyond ASCII).
func escapePath(p string) string {
	var b strings.Builder
	for _, c := range []byte(p) {
		if c <= ' ' || c == 0x7f || strings.IndexByte("%?#\"<>\\^`{|}[]:", c) >= 0 {
			escape(&b, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// relative is the href of a file as seen from a directory; both are slashed paths from the same root.
func relative(dir, file string) string {
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return escapePath(file)
	}
	if rel = filepath.ToSlash(rel); !strings.HasPrefix(rel, "../") {
		rel = "./" + rel
	}
	return escapePath(rel)
}

// absolute reports whether an href means the same everywhere.
func absolute[T string | []byte](href T) bool {
	if len(href) == 0 || href[0] == '/' || href[0] == '#' {
		return true
	}
	for i := range len(href) {
		switch href[i] {
		case ':':
			return i > 0
		case '/', '?', '#':
			return false
		}
	}
	return false
}

// hasRelative reports whether an item's text may hold an href that is not absolute. It does not parse: most
// items have none, and then nothing needs to be looked at.
func hasRelative(text []byte) bool {
	for {
		i := bytes.Index(text, []byte(`href"`)) // h is rarer than a quote
		if i < 0 {
			return false
		}
		member := i > 0 && text[i-1] == '"'
		if text = text[i+len(`href"`):]; !member {
			continue
		}
		text = bytes.TrimLeft(text, " \t\r\n:")
		if len(text) == 0 || text[0] != '"' {
			continue
		}
		end := bytes.IndexByte(text[1:], '"')
		if end < 0 {
			return true
		}
		if href := text[1 : 1+end]; bytes.IndexByte(href, '\\') >= 0 || !absolute(href) {
			return true
		}
	}
}

// origin is where an item's relative hrefs are meant from.
type origin struct {
	url  *url.URL
	file string // an absolute local path
}

// originOf finds out: its self link, else the place it was read from.
func originOf(env *stream.Env, it *stream.Item) origin {
	for _, link := range it.Get("links").Elements() {
		if rel, _ := link.Get("rel").Str(); rel != "self" {
			continue
		}
		href, _ := link.Get("href").Str()
		if u, err := url.Parse(href); err == nil && u.Scheme != "" && u.Host != "" {
			return origin{url: u}
		}
	}
	for _, place := range []string{it.Place.URL, it.Place.File} {
		if u, err := url.Parse(place); err == nil && u.Scheme != "" && u.Host != "" {
			return origin{url: u}
		}
	}
	if it.Place.File != "" {
		if file, err := filepath.Abs(env.Path(it.Place.File)); err == nil {
			return origin{file: file}
		}
	}
	return origin{}
}

// rebase makes a relative href mean the same from a directory of the output (local and absolute; "" when
// the output is not local). Without an origin it stays.
func (o origin) rebase(href, dir string) string {
	switch {
	case absolute(href):
		return href
	case o.url != nil:
		if ref, err := url.Parse(href); err == nil {
			return o.url.ResolveReference(ref).String()
		}
		return href
	case o.file == "":
		return href
	}
	tail := ""
	if i := strings.IndexAny(href, "?#"); i >= 0 {
		href, tail = href[:i], href[i:]
	}
	from := filepath.Dir(o.file)
	up, err := filepath.Rel(dir, from)
	if dir == "" || err != nil {
		return "file://" + path.Join(escapePath(filepath.ToSlash(from)), href) + tail
	}
	if href = path.Join(escapePath(filepath.ToSlash(up)), href); !strings.HasPrefix(href, "../") {
		href = "./" + href
	}
	return href + tail
}

// rebaseAssets rewrites the relative hrefs of an item's assets, and of their alternates.
func rebaseAssets(it *item.Value, rebase func(string) string) {
	one := func(holder *item.Value) {
		if href, ok := holder.Get("href").Str(); ok && !absolute(href) {
			holder.Set("href", item.OfText(rebase(href)))
		}
	}
	for _, asset := range it.Get("assets").Members() {
		one(asset)
		for _, alternate := range asset.Get("alternate").Members() {
			one(alternate)
		}
	}
}

// rebaseAll rewrites all relative hrefs of an item that stays one of a kind: its links, too.
func rebaseAll(it *item.Value, rebase func(string) string) {
	for _, l := range it.Get("links").Elements() {
		if href, ok := l.Get("href").Str(); ok && !absolute(href) {
			l.Set("href", item.OfText(rebase(href)))
		}
	}
	rebaseAssets(it, rebase)
}

// link is a link of ours.
type link struct{ rel, href, media, title string }

func (l link) value() *item.Value {
	v := item.NewObject()
	v.Set("rel", item.OfText(l.rel))
	v.Set("href", item.OfText(l.href))
	if l.media != "" {
		v.Set("type", item.OfText(l.media))
	}
	if l.title != "" {
		v.Set("title", item.OfText(l.title))
	}
	return v
}

// structural are the links that tell where an item is in a catalog, which changes when it moves.
func structural(rel string) bool {
	return rel == "self" || rel == "parent" || rel == "root" || rel == "collection"
}

// relink gives a document the links of its new place. A moved document loses the links about its old place; otherwise
// only self is removed. Links of other kinds stay, with hrefs adjusted by rebase.
func relink(doc *item.Value, own []link, moved bool, rebase func(string) string) {
	links := item.NewList()
	for _, l := range own {
		links.Append(l.value())
	}
	for _, old := range doc.Get("links").Elements() {
		rel, _ := old.Get("rel").Str()
		if rel == "self" || moved && structural(rel) {
			continue
		}
		kept := old.Clone()
		if href, ok := kept.Get("href").Str(); ok && !absolute(href) {
			kept.Set("href", item.OfText(rebase(href)))
		}
		links.Append(kept)
	}
	doc.Set("links", links)
}

// asIs leaves an href as it is.
func asIs(href string) string { return href }
