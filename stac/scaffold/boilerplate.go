package scaffold

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// boilerplate is the component of mode template: items pass, and an example is written at the end.
type boilerplate struct {
	*config
	env    *stream.Env
	places *files.Places
}

// Modify lets items pass.
func (b *boilerplate) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	return it, nil
}

// Read makes no items: the example is all there is.
func (b *boilerplate) Read(context.Context, iter.Seq[*stream.Item], stream.Out) error { return nil }

// Finish writes the example.
func (b *boilerplate) Finish(failed error) (any, error) {
	if failed != nil {
		return nil, nil //nolint:nilerr // the segment has its error already
	}
	docs, err := b.documents()
	if err != nil {
		return nil, err
	}
	written := []any{}
	for _, d := range docs {
		there, err := b.there(d.path, d.doc)
		if err != nil {
			return nil, err
		}
		if !there {
			if err := publish(b.places, b.env, d.path, d.doc); err != nil {
				return nil, err
			}
		}
		written = append(written, d.path)
	}
	return map[string]any{"files": written}, nil
}

// there reports whether the file is there as it would be written. With other content it is an error.
func (b *boilerplate) there(path string, doc map[string]any) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), publishDeadline)
	defer cancel()
	in, _, err := b.places.Open(ctx, resolve(b.env, path))
	switch {
	case errors.Is(err, fs.ErrNotExist), stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	defer in.Close()
	const most = 1 << 20
	have, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return false, err
	}
	want, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return false, err
	}
	if !bytes.Equal(bytes.TrimSpace(have), want) {
		return false, &stepwell.Error{Code: stepwell.CodeConflict, Message: path + " is there already, with other content", Hint: "move it away, or take the step out: an example is written once"}
	}
	return true, nil
}

type document struct {
	path string
	doc  map[string]any
}

// documents are the files to write; linked files come first.
func (b *boilerplate) documents() ([]document, error) {
	kind, target := b.Template.Type, b.Template.OutputPath
	if !strings.HasSuffix(strings.ToLower(target), ".json") {
		target = strings.TrimSuffix(target, "/") + "/" + kind + ".json"
	}
	collection := b.CollectionID
	if collection == "" && kind != "catalog" {
		collection = "example-collection"
	}
	var docs []document
	if kind == "item" || b.Template.Sample {
		name := target
		if kind != "item" {
			name = path.Join(path.Dir(target), "sample-item.json")
			if strings.Contains(target, "://") {
				name = target[:strings.LastIndexByte(target, '/')] + "/sample-item.json"
			}
		}
		sample, err := b.sample(collection, kind, path.Base(target))
		if err != nil {
			return nil, err
		}
		docs = append(docs, document{name, sample})
	}
	switch kind {
	case "item":
		return docs, nil
	case "catalog":
		docs = append(docs, document{target, b.catalogOf(nil)})
	default:
		docs = append(docs, document{target, b.collectionOf(collection, extent{})})
	}
	if b.Template.Sample {
		doc := docs[1].doc
		links, _ := doc["links"].([]any)
		doc["links"] = append(links, linkMap("item", "./sample-item.json", mediaGeoJSON))
	}
	return docs, nil
}

// sample is an item made like any other, linked to the document next to it.
func (b *boilerplate) sample(collection, kind, beside string) (map[string]any, error) {
	c := *b.config
	if c.CollectionID = collection; kind == "catalog" {
		c.CollectionID = ""
	}
	from, err := item.Parse([]byte(`{"id":"sample-item","geometry":{"type":"Point","coordinates":[0,0]},"datetime":"2020-01-01T00:00:00Z","properties":{},"assets":{"data":{"href":"./sample.tif","title":"Replace this"}}}`))
	if err != nil {
		return nil, err
	}
	made, err := (&builder{config: &c}).build(from)
	if err != nil {
		return nil, err
	}
	for _, l := range made.Get("links").Elements() {
		rel := textOf(l.Get("rel"))
		if b.BaseURL == "" && (rel == "parent" || rel == "collection" || rel == "root" && kind == "catalog") {
			l.Set("href", item.OfText("./"+beside))
		}
	}
	v, err := made.Any()
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any)
	return out, nil
}
