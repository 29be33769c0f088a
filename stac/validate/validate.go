// Package validate is the stream module stac.validate: it lets valid STAC objects pass and records the others
// as failures (specifications: stac-manager, ValidateModule; stac-and-media §0 and §3).
//
// Objects that cannot be checked are neither valid nor invalid. Verdicts are the same within one run: a schema
// is asked for once. Stable.
package validate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// Limits of the checks of one object, of the report on it, and of the cache.
const (
	maxShown      = 5    // findings of one check
	maxExtensions = 100  // schemas of one object
	maxCounted    = 1000 // different missing schemas
	others        = "others"
)

// validator is the component of one step.
type validator struct {
	env   *stream.Env
	set   *settings
	store *schema.Store
	lint  *linter

	valid, invalid, unchecked, partly, builtins, warnings, skipped atomic.Int64

	mu      sync.Mutex
	known   map[string]verdict // by URI, for the whole run
	missing map[string]int64
}

// errOther is an object that is not of STAC.
var errOther = errors.New("no object of STAC")

// verdict is a schema, or why there is none.
type verdict struct {
	schema *schema.Schema
	err    error
}

func newValidator(env *stream.Env, s *settings, store *schema.Store) *validator {
	v := &validator{env: env, set: s, store: store, known: map[string]verdict{}, missing: map[string]int64{}}
	v.lint = newLinter(s.lint, env)
	return v
}

// Modify implements stream.Modifier.
func (v *validator) Modify(ctx context.Context, it *stream.Item) (*stream.Item, error) {
	problems, checked, whole, err := v.validateObject(ctx, it)
	if err == nil && len(problems) == 0 && !whole {
		v.partly.Add(1)
	}
	switch {
	case errors.Is(err, errOther):
		v.skipped.Add(1)
		return nil, nil
	case err != nil:
		return nil, err
	case len(problems) == 0 && checked:
		v.valid.Add(1)
		return it, nil
	case len(problems) == 0:
		v.unchecked.Add(1)
		return it, nil
	}
	v.invalid.Add(1)
	first := problems[0]
	failure := &stream.Error{Type: stream.ValidationError, Err: schema.Summarize(problems),
		Context: stream.Context{File: it.Place.File, Line: it.Place.Line, URL: it.Place.URL, Schema: first.Schema, Pointer: first.Pointer, Keyword: first.Keyword}}
	if v.set.Strict {
		return nil, stream.Abort(fmt.Errorf("strict: item %s is invalid (schema %s): %w", it.ID(), first.Schema, failure)) // with the place
	}
	return nil, failure
}

// validateObject checks an object. checked is false when no rules apply, whole when no schema was missing, nor a part
// of the object.
func (v *validator) validateObject(ctx context.Context, it *stream.Item) (problems []schema.Problem, checked, whole bool, err error) {
	doc, err := schema.Parse(it.Bytes())
	if err != nil {
		return []schema.Problem{{Keyword: "type", Message: err.Error()}}, true, true, nil
	}
	defer doc.Release()
	if v.set.OtherObjects == "skip" && it.Get("type").IsNull() && it.Get("stac_version").IsNull() {
		return nil, false, false, errOther
	}
	kind, wrong := kindOf(it)
	if wrong != nil {
		return []schema.Problem{*wrong}, true, true, nil
	}
	if gone := partial(kind, it); gone != "" {
		if v.set.AllowPartial {
			return nil, false, false, nil
		}
		return []schema.Problem{{Keyword: "required", Message: "the item is partial: " + gone + " missing (fetched with `fields`? allow_partial lets it pass)"}}, true, true, nil
	}
	problems, checked, whole, err = v.core(ctx, kind, it, doc)
	if err != nil {
		return nil, false, false, err
	}
	more, all, err := v.extensions(ctx, it, doc)
	if err != nil {
		return nil, false, false, err
	}
	problems = append(problems, more...)
	if len(v.set.lint) > 0 {
		obj, _ := doc.Value().(map[string]any)
		found := v.lint.lintObject(it, kind, obj)
		v.warnings.Add(found.warnings)
		problems = append(problems, found.problems...)
	}
	return problems[:min(len(problems), schema.MaxProblems)], checked || len(problems) > 0, whole && all, nil
}

// extensions checks against the schemas that an object names, and those of the config. all is false when one of them
// was unavailable.
func (v *validator) extensions(ctx context.Context, it *stream.Item, doc *schema.Document) (problems []schema.Problem, all bool, err error) {
	all = true
	uris := named(it)
	if len(uris) > maxExtensions {
		problems = append(problems, schema.Problem{Pointer: "/stac_extensions", Keyword: "maxItems", Message: fmt.Sprintf("names more than %d schemas", maxExtensions)})
		uris = nil
	}
	for _, uri := range slices.Concat(uris, v.set.extra) {
		compiled, err := v.resolve(ctx, uri)
		switch {
		case compiled != nil:
			problems = append(problems, compiled.Check(doc)...)
		case !errors.Is(err, schema.ErrUnavailable):
			return nil, false, err
		default:
			all = false
			problems = append(problems, v.absent(uri, err)...)
		}
	}
	return problems, all, nil
}

// core checks against the core schema, or the rules that stand in for it.
func (v *validator) core(ctx context.Context, kind schema.Kind, it *stream.Item, doc *schema.Document) (problems []schema.Problem, checked, whole bool, err error) {
	version, ok := it.Get("stac_version").Str()
	if !ok {
		return []schema.Problem{{Schema: schema.BuiltIn, Keyword: "required", Message: "missing 'stac_version', a text"}}, true, true, nil
	}
	uri, ok := schema.CoreURI(kind, version)
	var compiled *schema.Schema
	if ok {
		compiled, err = v.resolve(ctx, uri)
	} else {
		uri = "STAC " + version[:min(len(version), 32)]
		err = fmt.Errorf("%w: no such version of STAC", schema.ErrUnavailable)
	}
	switch {
	case compiled != nil:
		return compiled.Check(doc), true, true, nil
	case !errors.Is(err, schema.ErrUnavailable):
		return nil, false, false, err
	}
	policy := v.set.policyFor(uri)
	if compiled = schema.Core(version); compiled == nil || policy != warn && policy != builtin {
		return v.absent(uri, err), false, false, nil
	}
	v.builtins.Add(1)
	v.absentCore(uri, policy, err)
	return compiled.Check(doc), true, policy == builtin, nil
}

// resolve is the schema of a URI, the same for the whole run; an error that is not ErrUnavailable is the end
// of ctx.
func (v *validator) resolve(ctx context.Context, uri string) (*schema.Schema, error) {
	v.mu.Lock()
	known, ok := v.known[uri]
	full := len(v.known) >= maxCounted
	v.mu.Unlock()
	switch {
	case ok:
		return known.schema, known.err
	case full:
		return nil, fmt.Errorf("%w: more than %d different schemas", schema.ErrUnavailable, maxCounted)
	}
	compiled, err := v.store.Load(ctx, uri)
	if err != nil && !errors.Is(err, schema.ErrUnavailable) {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.known[uri]; ok { // the first verdict is the run's
		return known.schema, known.err
	}
	v.known[uri] = verdict{compiled, err}
	return compiled, err
}

// absent counts a schema that cannot be had, and applies the policy for it.
func (v *validator) absent(uri string, reason error) []schema.Problem {
	first := v.count(uri)
	switch v.set.policyFor(uri) {
	case fail:
		return []schema.Problem{{Schema: uri, Keyword: "schema", Message: "the schema " + uri + " is missing (policy missing_schema: fail)"}}
	case skip:
	default:
		v.warnings.Add(1)
		if first {
			v.env.Log(slog.LevelWarn, "schema missing: not checked against it", slog.String("schema", uri), slog.String("reason", reason.Error()))
		}
	}
	return nil
}

// absentCore is absent where the built-in rules stand in.
func (v *validator) absentCore(uri string, p policy, reason error) {
	first := v.count(uri)
	if p == warn {
		v.warnings.Add(1)
	}
	if first && p == warn {
		v.env.Log(slog.LevelWarn, "core schema missing: checked by the built-in rules", slog.String("schema", uri), slog.String("reason", reason.Error()))
	}
}

// count notes a missing schema and reports whether it is the first time.
func (v *validator) count(uri string) (first bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.missing[uri]; !ok && len(v.missing) >= maxCounted {
		uri = others
	}
	v.missing[uri]++
	return v.missing[uri] == 1
}

// Finish implements stream.Finisher.
func (v *validator) Finish(error) (any, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	missing := make(map[string]any, len(v.missing))
	for uri, n := range v.missing {
		missing[uri] = n
	}
	return map[string]any{"valid": v.valid.Load(), "invalid": v.invalid.Load(), "unchecked": v.unchecked.Load(), "items_not_checked": v.partly.Load(), "skipped": v.skipped.Load(),
		"builtin_rules": v.builtins.Load(), "missing_schemas": missing, "warnings": v.warnings.Load(), "lint": v.lint.counts()}, nil
}

// kindOf is the declared kind of an object. Old collections and catalogs have no type.
func kindOf(it *stream.Item) (schema.Kind, *schema.Problem) {
	text, _ := it.Get("type").Str()
	switch kind := schema.Kind(text); kind {
	case schema.Item, schema.Collection, schema.Catalog:
		return kind, nil
	}
	switch {
	case text == "FeatureCollection":
		return "", &schema.Problem{Pointer: "/type", Keyword: "const", Message: "is a FeatureCollection: read its features one by one"}
	case it.Get("type").IsNull() && !it.Get("extent").IsNull():
		return schema.Collection, nil
	case it.Get("type").IsNull() && !it.Get("description").IsNull() && it.Get("properties").IsNull():
		return schema.Catalog, nil
	}
	return schema.Item, nil // its schema reports the errors
}

// partial names the members that an item lacks because only some fields were requested.
func partial(kind schema.Kind, it *stream.Item) string {
	if kind != schema.Item {
		return ""
	}
	var gone []string
	for _, name := range []string{"geometry", "properties", "assets"} {
		if it.Get(name) == nil {
			gone = append(gone, "'"+name+"'")
		}
	}
	return strings.Join(gone, ", ")
}

// named are the schemas that an object names, each once. The core reports entries other than texts.
func named(it *stream.Item) (uris []string) {
	for _, e := range it.Get("stac_extensions").Elements() {
		text, ok := e.Str()
		if uris = addNamed(uris, text, ok); len(uris) > maxExtensions {
			break
		}
	}
	return uris
}

// declared is named for a value that is decoded.
func declared(obj map[string]any) (uris []string) {
	list, _ := obj["stac_extensions"].([]any)
	for _, e := range list {
		text, ok := e.(string)
		if uris = addNamed(uris, text, ok); len(uris) > maxExtensions {
			break
		}
	}
	return uris
}

func addNamed(uris []string, text string, ok bool) []string {
	if uri := schema.Normal(text); ok && !slices.Contains(uris, uri) {
		return append(uris, uri)
	}
	return uris
}
