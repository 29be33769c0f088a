package output

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/summary"
)

// maxDocument bounds the collection and catalog files that are read.
const maxDocument = 64 << 20

// writeCollections writes the document of every collection that got items: format json.
func (t *tree) writeCollections(ctx context.Context) error {
	for _, u := range t.units {
		if !u.touched || !u.Filled || u.ID == "" && !t.perUnit {
			continue
		}
		if err := t.place.lockUnit(u.Dir); err != nil { // all its items came before the run was cut off
			return err
		}
		if err := t.writeCollection(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) writeCollection(ctx context.Context, u *unit) error {
	defer t.place.turn(u.Dir)()
	rel := t.collectionPath(u, u.ID)
	doc, old, err := t.existing(ctx, rel)
	if err != nil {
		return err
	}
	doc = t.collectionOf(u.ID, &u.Summary, doc)
	if old == nil {
		links := []link{{rel: "root", href: t.href(path.Dir(rel), rel), media: mediaJSON}}
		if t.absolute() {
			links = append(links, link{rel: "self", href: t.url(rel), media: mediaJSON})
		}
		relink(doc, links, true, asIs)
	}
	summary.Merge(doc, &u.Summary)
	return t.replace(ctx, u.Dir, rel, doc, old)
}

// existing is a document of the output that is there already; nil when there is none.
func (t *tree) existing(ctx context.Context, rel string) (doc *item.Value, text []byte, err error) {
	text, err = t.place.read(ctx, rel, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	doc, err = item.Parse(text)
	if err == nil && doc.Kind() != item.Object {
		err = errors.New("it is " + doc.Kind().String())
	}
	if err != nil {
		return nil, nil, stepwell.Invalid("move it away, or repair it", "%s is there, but not what it should be: %v", t.place.shown(rel), err)
	}
	return doc, text, nil
}

// replace writes a document when it is not the same as before.
func (t *tree) replace(ctx context.Context, unit, rel string, doc *item.Value, old []byte) error {
	text := append(doc.AppendTo(nil), '\n')
	if old != nil && bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(old)) {
		return nil
	}
	return t.place.write(ctx, unit, rel, text)
}
