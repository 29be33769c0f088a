// Package scaffold is the stream module stac.scaffold: it makes valid STAC of incomplete items
// (specification: stac-manager, Scaffold; docs/stac §1).
//
// Missing members are added: a bounding box from the geometry or the other way round, date-times, links, media
// types, the URIs of the extensions they use. Collections and catalogues are made of the items that pass, and
// written when the stream is complete. An item that cannot be made valid is a failure record; the stream goes
// on. Stable.
package scaffold

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Modules gives stac.scaffold; places reads templates, and writes collections and catalogues.
func Modules(places *files.Places) []stream.Module {
	m := modules{places}
	return []stream.Module{stream.Typed[config]{Spec: describe(), Check: (*config).check, Open: m.open, Try: m.try}.Module()}
}

type modules struct{ places *files.Places }

func (m modules) open(ctx context.Context, env *stream.Env, c *config) (any, error) {
	if err := m.prepare(ctx, env, c); err != nil {
		return nil, err
	}
	switch c.Mode {
	case "items", "item":
		return &builder{config: c}, nil
	case "template":
		return &boilerplate{config: c, env: env, places: m.places}, nil
	}
	return newGatherer(c, env, m.places)
}

func (m modules) try(ctx context.Context, env *stream.Env, c *config) []error {
	if err := m.prepare(ctx, env, c); err != nil {
		return []error{err}
	}
	return nil
}

// prepare reads the template file, and takes the collection of a discovery.
func (m modules) prepare(ctx context.Context, env *stream.Env, c *config) error {
	if id, ok := env.Collection["id"].(string); ok && c.CollectionID == "" {
		c.CollectionID = id
	}
	if c.TemplateFile == "" {
		return nil
	}
	doc, err := convert.ReadFile(ctx, m.places, env.Dir, c.TemplateFile)
	if err == nil {
		c.template, err = pattern.ParseTree(doc)
	}
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeOf(err), Message: "template_file " + c.TemplateFile, Hint: stepwell.HintOf(err), Err: err}
	}
	return nil
}

// resolve is a path to write to: relative ones are meant against the pipeline's directory.
func resolve(env *stream.Env, path string) string {
	if strings.Contains(path, "://") || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(env.Dir, path)
}

// segment writes an id as one segment of a URL or path.
func segment(id string) string {
	switch escaped := url.PathEscape(id); escaped {
	case ".", "..":
		return strings.ReplaceAll(escaped, ".", "%2E")
	default:
		return escaped
	}
}
