package output

import (
	"context"
	"encoding/binary"
	"net/url"
	"path"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell/stream/durable"
)

// whereKey is the key of an item's name in tree.where.
func whereKey(u *unit, name string) uint64 {
	text := binary.AppendUvarint(nil, uint64(u.number))
	return xxh3.Hash(append(text, fold(name)...))
}

// adopt takes in the nodes of a unit that are at the place from runs that this one does not know of, with the items
// that they link to. It looks at the documents, not at the items.
func (t *tree) adopt(ctx context.Context, u *unit) error {
	if u.adopted || t.config.Format != "catalog" || t.policy.Mode == durable.Replace && !t.later {
		return nil
	}
	u.adopted = true
	return t.adoptNode(ctx, u, nil, u.Dir, collectionFile, 0)
}

func (t *tree) adoptNode(ctx context.Context, u *unit, parent *node, dir, file string, depth int) error {
	doc, _, err := t.existing(ctx, path.Join(dir, file))
	if doc == nil || err != nil || depth > 20 {
		return err
	}
	n := t.named[fold(dir)]
	if n == nil {
		if n, err = t.newNode(u, parent, dir); err != nil {
			return err
		}
		n.changed = false
	}
	links := 0
	for _, l := range doc.Get("links").Elements() {
		rel, _ := l.Get("rel").Str()
		href, _ := l.Get("href").Str()
		to, ours := t.relOf(dir, href)
		switch {
		case !ours:
		case rel == "item" && path.Dir(to) == dir:
			links++
			t.where[whereKey(u, strings.TrimSuffix(path.Base(to), ".json"))] = n.number
		case rel == "child" && path.Base(to) == catalogFile && path.Dir(path.Dir(to)) == dir:
			if err := t.adoptNode(ctx, u, n, path.Dir(to), catalogFile, depth+1); err != nil {
				return err
			}
		}
	}
	n.count = max(n.count, links)
	return nil
}

// relOf is the path in the output that an href of a document leads to.
func (t *tree) relOf(dir, href string) (rel string, ours bool) {
	if t.config.BaseURL != "" {
		if rest, ok := strings.CutPrefix(href, strings.TrimSuffix(t.config.BaseURL, "/")+"/"); ok {
			dir, href = "", rest
		}
	}
	name, err := url.PathUnescape(href)
	if err != nil || absolute(href) {
		return "", false
	}
	return path.Join(dir, name), true
}

// nodeOf is the node for an item: its current one, unless it belongs elsewhere now.
func (t *tree) nodeOf(a *admitted, name string, names []string) (*node, error) {
	if err := t.adopt(context.Background(), a.unit); err != nil {
		return nil, err
	}
	old := t.nodeAt(t.where[whereKey(a.unit, name)])
	if old == nil {
		return t.nodeFor(a.unit, names)
	}
	dir := path.Join(append([]string{a.unit.Dir}, names...)...)
	if old.dir == dir || path.Dir(old.dir) == dir && overflow.MatchString(path.Base(old.dir)) {
		return old, nil
	}
	t.dead[path.Join(old.dir, name+".json")] = true
	old.changed = true
	old.count--
	delete(t.where, whereKey(a.unit, name))
	return t.nodeFor(a.unit, names)
}
