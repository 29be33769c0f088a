// Package transform is the stream module stac.transform: it makes items of the rows of tables, or puts values of rows
// into items that pass (specification: stac-manager, Transform; docs/stac §4).
//
// Without an input it is a source: every row of its files becomes an item. With an input it joins the items
// with the table, which it holds in memory up to a limit. In both roles a mapping assigns columns of a row
// to paths of an item. A row or an item that does not fit is a failure record with file and line; the stream
// goes on. Stable.
package transform

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Modules gives stac.transform; places reads the tables.
func Modules(places *files.Places) []stream.Module {
	m := modules{places}
	return []stream.Module{stream.Typed[config]{Spec: describe(), Check: (*config).check, Open: m.open, Try: m.try}.Module()}
}

type modules struct{ places *files.Places }

func (m modules) try(ctx context.Context, env *stream.Env, c *config) []error {
	t, err := m.prepare(ctx, env, c)
	if err == nil {
		_, err = t.list(ctx)
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// transformer is the component: a source when Read is called, a modifier when Modify is.
type transformer struct {
	*config
	env    *stream.Env
	places *files.Places
	source sourceCounts

	loading sync.Once
	table   *table
	failed  error
	join    joinCounts
}

// prepare reads the config and the schema file, not the tables.
func (m modules) prepare(ctx context.Context, env *stream.Env, c *config) (*transformer, error) {
	t := &transformer{config: c, env: env, places: m.places}
	if t.SchemaFile != "" {
		doc, err := convert.ReadFile(ctx, m.places, env.Dir, t.SchemaFile)
		if err == nil {
			t.mappings, err = t.schemaMappings(doc)
		}
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeOf(err), Message: "schema_file " + t.SchemaFile, Hint: stepwell.HintOf(err), Err: err}
		}
	}
	return t, nil
}

// open loads a table at once if it can only be for a join; a possible file of a source waits for its role.
func (m modules) open(ctx context.Context, env *stream.Env, c *config) (any, error) {
	t, err := m.prepare(ctx, env, c)
	if err != nil {
		return nil, err
	}
	if _, err := t.list(ctx); err != nil {
		return nil, err
	}
	if t.strategyChosen != "" {
		env.Log(slog.LevelInfo, "strategy "+t.Strategy+": "+t.strategyChosen)
	}
	if t.joinOnly {
		if err := t.load(ctx); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// list names the files, in the order in which they are read.
func (t *transformer) list(ctx context.Context) ([]string, error) {
	var all []string
	for _, pattern := range t.files {
		paths, err := t.places.List(ctx, t.env.Dir, pattern)
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeOf(err), Message: t.filesKey + " " + pattern, Hint: stepwell.HintOf(err), Err: err}
		}
		all = append(all, paths...)
	}
	return all, nil
}

// shown is a path as failure records name it.
func (t *transformer) shown(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, t.env.Dir), "/")
}

// Finish gives the counts of the role that was played.
func (t *transformer) Finish(failed error) (any, error) {
	rows, out := t.source.rows, map[string]any{}
	if t.table != nil {
		rows = t.table.rows
		t.join.outputs(t.table, out)
	} else {
		t.source.outputs(out)
	}
	unused := t.unused()
	if rows > 0 && failed == nil {
		for _, m := range unused {
			t.env.Log(slog.LevelWarn, "no row had a value for "+m.target.String(), slog.String("source", m.source), slog.String("reason", m.reason()))
		}
	}
	targets := make([]any, len(unused))
	for i, m := range unused {
		targets[i] = m.target.String()
	}
	out["without_value"] = targets
	return out, nil
}
