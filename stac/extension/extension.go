// Package extension is the stream module stac.extension: it declares a STAC extension on items, collections and
// catalogs, fills in its fields and checks the result (specifications: stac-manager, ExtensionModule;
// stac-and-media §0.6 and §3).
//
// Running it twice changes nothing; equal values are left as they are, byte for byte. It never makes
// assets up. Stable.
package extension

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

const (
	loadTime  = 30 * time.Second // for the schema, before the first item
	maxAbsent = 1000             // different assets counted
)

// extender is the component of one step.
type extender struct {
	set      *settings
	schema   *schema.Schema // nil: not validated
	scaffold []fill

	changed, unchanged, failed, assets atomic.Int64

	mu     sync.Mutex
	absent map[string]int64
}

// newExtender loads the parts of the schema that the settings need. An unavailable schema is an error or a warning.
func newExtender(ctx context.Context, s *settings, store *schema.Store, env *stream.Env) (*extender, error) {
	e := &extender{set: s, absent: map[string]int64{}}
	if !s.Validate && !s.RequiredOnly {
		return e, nil
	}
	loading, cancel := context.WithTimeoutCause(ctx, loadTime, fmt.Errorf("%w: it takes longer than %s", schema.ErrUnavailable, loadTime))
	defer cancel()
	compiled, err := store.Load(loading, s.uri)
	var doc any
	if err == nil {
		doc, err = store.Document(loading, s.uri)
	}
	switch {
	case err == nil:
	case !errors.Is(err, schema.ErrUnavailable):
		return nil, err
	case s.MissingSchema == fail, s.MissingSchema == "" && s.Validate:
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the extension's schema is needed", Err: err,
			Hint: "give a schema_dir or a schema_cache that has it, allow the network, or set missing_schema: warn"}
	default:
		if s.MissingSchema != skip {
			env.Log(slog.LevelWarn, "schema missing: nothing is validated against it or scaffolded from it", slog.String("schema", s.uri), slog.String("reason", err.Error()))
		}
		return e, nil
	}
	if s.Validate {
		e.schema = compiled
	}
	if s.RequiredOnly {
		e.scaffold, err = scaffold(doc)
	}
	return e, err
}

// Modify implements stream.Modifier.
func (e *extender) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	if kind, _ := it.Get("type").Str(); kind == "FeatureCollection" {
		e.failed.Add(1)
		return nil, failure(nil, errors.New("is a FeatureCollection: read its features one by one"))
	}
	c, err := e.set.apply(it, e.scaffold)
	if err == nil {
		err = e.set.check(it)
	}
	if err == nil && e.schema != nil {
		err = e.validate(it)
	}
	if err != nil {
		e.failed.Add(1)
		return nil, err
	}
	e.assets.Add(int64(len(c.assets)))
	e.countAbsent(c.absent)
	if c.any {
		e.changed.Add(1)
	} else {
		e.unchanged.Add(1)
	}
	return it, nil
}

// validate checks the object against the extension's schema.
func (e *extender) validate(it *stream.Item) error {
	doc, err := schema.Decode(it.Bytes())
	if err != nil {
		return failure(nil, err)
	}
	problems := e.schema.Validate(doc)
	if len(problems) == 0 {
		return nil
	}
	first := problems[0]
	return &stream.Error{Type: stream.ExtensionError, Err: schema.Summarize(problems),
		Context: stream.Context{Schema: first.Schema, Pointer: first.Pointer, Keyword: first.Keyword}}
}

// countAbsent counts the assets that a default is for and that an item does not have.
func (e *extender) countAbsent(keys []string) {
	if len(keys) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	once := map[string]bool{}
	for _, key := range keys {
		if _, known := e.absent[key]; !once[key] && (known || len(e.absent) < maxAbsent) {
			e.absent[key]++
		}
		once[key] = true
	}
}

// Finish implements stream.Finisher.
func (e *extender) Finish(error) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	absent := map[string]any{}
	for key, n := range e.absent {
		absent[key] = n
	}
	return map[string]any{"changed": e.changed.Load(), "unchanged": e.unchanged.Load(), "failed": e.failed.Load(),
		"assets_changed": e.assets.Load(), "absent_assets": absent, "validated": e.schema != nil}, nil
}
