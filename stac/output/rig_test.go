package output

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// bench runs the sink several times over the same output, as a segment does.
type bench struct {
	t      testing.TB
	rig    *streamtest.Rig
	config map[string]any
	module stream.Module
}

func newBench(t testing.TB, config map[string]any) *bench {
	return &bench{t: t, rig: streamtest.New(t), config: config, module: Modules(Options{})[0]}
}

func (b *bench) open(state any) (stream.Sink, error) {
	b.rig.Env.State = nil
	if state != nil {
		raw, err := json.Marshal(state)
		if err != nil {
			b.t.Fatal(err)
		}
		b.rig.Env.State = raw
	}
	c, err := b.rig.Open(b.module, b.config)
	if err != nil {
		return nil, err
	}
	return c.(stream.Sink), nil
}

func (b *bench) mustOpen(state any) stream.Sink {
	b.t.Helper()
	sink, err := b.open(state)
	if err != nil {
		b.t.Fatal(err)
	}
	return sink
}

func (b *bench) write(sink stream.Sink, items ...*stream.Item) {
	b.t.Helper()
	if err := sink.Write(context.Background(), items); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) commit(sink stream.Sink, want int64) (state any) {
	b.t.Helper()
	n, state, err := sink.Commit(context.Background())
	if err != nil || n != want {
		b.t.Fatalf("%d items are durable (%v), want %d", n, err, want)
	}
	return state
}

func (b *bench) close(sink stream.Sink) (state any, outputs map[string]any) {
	b.t.Helper()
	state, out, err := sink.Close(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return state, out.(map[string]any)
}

// run writes items in one go.
func (b *bench) run(state any, items ...*stream.Item) (any, map[string]any) {
	b.t.Helper()
	sink := b.mustOpen(state)
	b.write(sink, items...)
	return b.close(sink)
}

func (b *bench) path(rel string) string { return filepath.Join(b.rig.Env.Dir, rel) }

func (b *bench) doc(rel string) *item.Value {
	b.t.Helper()
	text, err := os.ReadFile(b.path(rel))
	if err != nil {
		b.t.Fatal(err)
	}
	v, err := item.Parse(text)
	if err != nil {
		b.t.Fatalf("%s: %v", rel, err)
	}
	return v
}

// files lists what is under a directory, without what is hidden.
func (b *bench) files(rel string) (names []string) {
	b.t.Helper()
	root := b.path(rel)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && !strings.HasPrefix(d.Name(), "."):
			name, err = filepath.Rel(root, name)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return names
}

// stacItem is a small item: version 1.0.0, around a point, on a day of 2024.
func stacItem(collection, id string, n int) *stream.Item {
	text := fmt.Sprintf(`{"type":"Feature","stac_version":"1.0.0","id":%s,"collection":%q,"geometry":{"type":"Point","coordinates":[%d,%d]},`+
		`"bbox":[%d,%d,%d,%d],"properties":{"datetime":"2024-01-%02dT00:00:00Z","platform":"p%d","n":%d,"big":1234567890123.10},"assets":{"data":{"href":"https://x.example/d.tif"}},`+
		`"links":[{"rel":"self","href":"https://api.example/collections/c/items/i"},{"rel":"collection","href":"https://api.example/collections/c"},{"rel":"license","href":"../license"}]}`,
		item.OfText(id).Bytes(), collection, n%170, n%80, n%170, n%80, n%170+1, n%80+1, n%28+1, n%3, n)
	v, err := item.Parse([]byte(text))
	if err != nil {
		panic(err)
	}
	return stream.New(v, stream.Place{})
}

func stacItems(collection string, from, to int) (items []*stream.Item) {
	for n := from; n < to; n++ {
		items = append(items, stacItem(collection, fmt.Sprintf("item-%05d", n), n))
	}
	return items
}

// crawl follows every link between documents from one on, and returns the items found, by path.
func (b *bench) crawl(root, start string) map[string]*item.Value {
	b.t.Helper()
	seen, items := map[string]bool{}, map[string]*item.Value{}
	for queue := []string{start}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		doc := b.doc(path.Join(root, at))
		if kind, _ := doc.Get("type").Str(); kind == "Feature" {
			items[at] = doc
		}
		for _, l := range doc.Get("links").Elements() {
			rel, _ := l.Get("rel").Str()
			href, _ := l.Get("href").Str()
			switch rel {
			case "item", "child", "parent", "root", "collection":
			default:
				continue
			}
			u, err := url.Parse(href)
			if err != nil || u.IsAbs() || strings.HasPrefix(href, "/") {
				b.t.Fatalf("%s: link %s to %s is not relative (%v)", at, rel, href, err)
			}
			to := path.Join(path.Dir(at), u.Path)
			target := b.doc(path.Join(root, to))
			if title, ok := l.Get("title").Str(); ok && rel == "child" {
				if want, has := target.Get("title").Str(); has && want != title {
					b.t.Errorf("%s: the link to %s is called %q, and that %q", at, to, title, want)
				}
			}
			queue = append(queue, to)
		}
	}
	return items
}
