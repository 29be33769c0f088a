package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/stepwell/stepwell/item"
)

// maxDocument bounds the collection and catalog files that are read.
const maxDocument = 64 << 20

// writeCollections writes the document of every collection that got items: format json.
func (t *tree) writeCollections(ctx context.Context) error {
	for _, u := range t.units {
		if !u.touched || !u.Filled || u.ID == "" && !t.perUnit {
			continue
		}
		if err := t.place.take(u.Dir); err != nil { // all its items came before the run was cut off
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
	if doc, err = t.collectionOf(u.ID, &u.Summary, doc); err != nil {
		return err
	}
	if old == nil {
		links := []link{{rel: "root", href: t.href(path.Dir(rel), rel), media: mediaJSON}}
		if t.absolute() {
			links = append(links, link{rel: "self", href: t.url(rel), media: mediaJSON})
		}
		relink(doc, links, true, asIs)
	}
	merge(doc, &u.Summary)
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
		return nil, nil, wrong(fmt.Sprintf("%s is there, but not what it should be: %v", t.place.shown(rel), err), "move it away, or repair it")
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

// summaries lists the values of some properties.
func (s *summary) summaries() *item.Value {
	out := item.NewObject()
	for _, key := range summarised {
		list := item.NewList()
		for _, text := range s.Values[key] {
			v, err := item.Parse([]byte(text))
			if err != nil {
				continue // cannot be: it comes from an item
			}
			list.Append(v)
		}
		if list.Len() > 0 {
			out.Set(key, list)
		}
	}
	return out
}

// merge makes a Collection cover a summary: its extent, its summaries and its item_assets. What covers that already
// stays as it is.
func merge(doc *item.Value, s *summary) {
	if doc.Get("extent").Kind() != item.Object {
		doc.Set("extent", item.NewObject())
	}
	widenSpace(doc.Get("extent"), s)
	widenTime(doc.Get("extent"), s)
	mergeSummaries(doc, s)
	mergeAssets(doc, s)
}

func widenSpace(extent *item.Value, s *summary) {
	all := *s
	all.Box, all.Crosses = slices.Clone(s.Box), slices.Clone(s.Crosses)
	spatial := extent.Get("spatial")
	var before []float64
	if first := spatial.Get("bbox").At(0); first != nil {
		holder := item.NewObject()
		holder.Set("bbox", first.Clone())
		if before = boxOf(holder); before != nil {
			all.addBox(before)
		}
	}
	box := all.box()
	switch {
	case box == nil && before == nil:
		box = []float64{-180, -90, 180, 90}
	case slices.Equal(box, before) || box == nil:
		return
	}
	list := item.NewList()
	for _, n := range box {
		list.Append(number(n))
	}
	if before != nil {
		spatial.Get("bbox").At(0).Replace(list)
		return
	}
	if spatial.Kind() != item.Object {
		extent.Set("spatial", item.NewObject())
		spatial = extent.Get("spatial")
	}
	spatial.Set("bbox", item.NewList(list))
}

func number(n float64) *item.Value {
	v, err := item.Parse(strconv.AppendFloat(nil, n, 'f', -1, 64))
	if err != nil {
		return item.NewObject() // cannot be: positions are finite
	}
	return v
}

func widenTime(extent *item.Value, s *summary) {
	temporal := extent.Get("temporal")
	first := temporal.Get("interval").At(0)
	if first.Len() == 2 {
		if s.Start.IsZero() {
			return
		}
		if text, ok := first.At(0).Str(); ok {
			if t, err := parseTime(text); err == nil && s.Start.Before(t) {
				first.At(0).Replace(instant(s.Start))
			}
		}
		if text, ok := first.At(1).Str(); ok {
			if t, err := parseTime(text); err == nil && s.End.After(t) {
				first.At(1).Replace(instant(s.End))
			}
		}
		return // an end that is null is open and stays so
	}
	if temporal.Kind() != item.Object {
		extent.Set("temporal", item.NewObject())
		temporal = extent.Get("temporal")
	}
	temporal.Set("interval", item.NewList(item.NewList(instant(s.Start), instant(s.End))))
}

func instant(t time.Time) *item.Value {
	if t.IsZero() {
		return &item.Value{}
	}
	return item.OfText(t.UTC().Format(time.RFC3339Nano))
}
