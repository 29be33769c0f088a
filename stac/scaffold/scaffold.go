// Package scaffold is the stream module stac.scaffold: it makes valid STAC of what is only half of it
// (specification: stac-manager, Scaffold; docs/stac §1).
//
// Items get what they miss: a bounding box from the geometry or the other way round, date-times, links, media
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
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Modules gives stac.scaffold; places reads templates, and writes collections and catalogues.
func Modules(places *files.Places) []stream.Module {
	return []stream.Module{stream.Typed[config]{Spec: describe(), Check: (*config).check,
		Open: func(ctx context.Context, env *stream.Env, c *config) (any, error) {
			return open(ctx, places, env, c)
		},
		Try: func(ctx context.Context, env *stream.Env, c *config) []error {
			if _, err := prepare(ctx, places, env, c); err != nil {
				return []error{err}
			}
			return nil
		}}.Module()}
}

func open(ctx context.Context, places *files.Places, env *stream.Env, c *config) (any, error) {
	s, err := prepare(ctx, places, env, c)
	if err != nil {
		return nil, err
	}
	switch s.mode {
	case "items", "item":
		return &builder{settings: s}, nil
	case "template":
		return &boilerplate{settings: s, env: env, places: places}, nil
	}
	return newGatherer(s, env, places)
}

// prepare reads the config and the template file.
func prepare(ctx context.Context, places *files.Places, env *stream.Env, c *config) (*settings, error) {
	s := &c.settings
	if id, ok := env.Collection["id"].(string); ok && s.collection == "" {
		s.collection = id
	}
	if s.templateFile == "" {
		return s, nil
	}
	doc, err := readDocument(ctx, places, env.Dir, s.templateFile)
	if err == nil {
		s.template, err = parseTemplate(doc)
	}
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeOf(err), Message: "template_file " + s.templateFile, Hint: stepwell.HintOf(err), Err: err}
	}
	return s, nil
}

// readDocument reads one JSON or YAML file.
func readDocument(ctx context.Context, places *files.Places, dir, pattern string) (*item.Value, error) {
	paths, err := places.List(ctx, dir, pattern)
	if err != nil {
		return nil, err
	}
	if len(paths) != 1 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "it is not one file"}
	}
	in, _, err := places.Open(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return convert.ReadDocument(in)
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
