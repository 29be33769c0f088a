package extension

import (
	"context"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// Options configure the module.
type Options struct {
	// Schemas finds schemas where the config does not say otherwise. Defaults to a Store without a folder and
	// without a network.
	Schemas *schema.Store
}

// Modules are the stream modules of this package: stac.extension.
func Modules(o Options) []stream.Module {
	if o.Schemas == nil {
		o.Schemas = schema.New(schema.Options{})
	}
	return []stream.Module{{
		Spec:  describe(),
		Check: check,
		Open: func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
			e, problems := open(ctx, o, env, config)
			if len(problems) > 0 {
				return nil, &stream.Error{Type: stream.ConfigurationError, Err: problems[0]}
			}
			return e, nil
		},
		Try: func(ctx context.Context, env *stream.Env, config map[string]any) []error {
			_, problems := open(ctx, o, env, config)
			return problems
		},
	}}
}

func check(config map[string]any) []error {
	if pattern.Pending(config) {
		return nil // Open looks again
	}
	_, problems := read(config, func(path string) string { return path })
	return problems
}

func open(ctx context.Context, o Options, env *stream.Env, config map[string]any) (*extender, []error) {
	s, problems := read(config, env.Path)
	if len(problems) > 0 {
		return nil, problems
	}
	store := o.Schemas.With(s.schemas)
	if err := store.Check(); err != nil {
		return nil, []error{err}
	}
	e, err := newExtender(ctx, s, store, logWarning(env, s.uri))
	if err != nil {
		return nil, []error{err}
	}
	return e, nil
}

// describe is the module's specification.
func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.extension", Aliases: []string{"ExtensionModule"},
		Summary: "Declares a STAC extension on items and collections, fills in its fields and checks them.",
		Doc: `The schema's URI is added to stac_extensions, once. Values come from defaults and config: their texts may name
{item_id}, {collection_id}, {asset_key} (below assets) and {properties.x}; a text that is exactly one name keeps
the kind of the value. A * in a path stands for every asset that is there. Assets are never made up: a default
for an asset that an item does not have is counted in the outputs and left out.

What becomes of values that are there already says overwrite. Without it, dotted and wildcard keys and config
overwrite, while nested objects and single names fill in only what is absent or null.

In collections, values for properties are added to the lists in summaries, and values for assets go to assets
and item_assets, without href there; values that name {item_id} or {properties.x} are left out.

A schema that passes may prove nothing: that of alternate-assets 1.2.0 does not look at the assets of items.
With validate, every path that the config sets must have a value, and the alternates of assets an href.`,
		Stream: &spec.Stream{Role: spec.Modifier, Parallel: true, Sets: []spec.Sets{{Keys: "defaults", Nested: true}, {Path: "stac_extensions"}}},
		Params: append([]spec.Field{
			{Name: "extension", Type: spec.String, Doc: "Name of a known extension (eo, projection, alternate-assets, dgeo …), with a version if need be: eo/v1.1.0."},
			{Name: "schema_uri", Type: spec.String, Doc: "URI of the extension's schema, instead of extension."},
			{Name: "config", Type: spec.Object, Doc: "Values of the extension's fields by their names without prefix, at the place where they belong: properties or every asset."},
			{Name: "defaults", Type: spec.Object, Doc: "Values by path (properties.x, assets.*.x, assets.B4.x) or as nested objects."},
			{Name: "overwrite", Type: spec.String, Enum: []string{string(never), string(nullOnly), string(always)}, Doc: "What happens to values that are there: never, null_only (null is filled in) or always. Defaults to always for dotted and wildcard keys and config, else to null_only."},
			{Name: "validate", Type: spec.Boolean, Doc: "Whether the result must be valid against the extension's schema and have every value that the config sets. Defaults to false."},
			{Name: "validate_extension", Type: spec.Boolean, Doc: "Another name of validate."},
			{Name: "required", Type: spec.Array, Items: &spec.Field{Type: spec.String}, Doc: "Paths that must have a value in every item, such as assets.*.alternate.s3.href."},
			{Name: "required_fields_only", Type: spec.Boolean, Doc: "Whether fields that the schema requires and that are absent are added, as null or the schema's default. Defaults to false."},
			{Name: "replace_version", Type: spec.Boolean, Doc: "Whether older versions of the extension, and its old short name, are taken from stac_extensions. Defaults to false."},
			{Name: "missing_schema", Type: spec.String, Enum: []string{string(fail), string(warn), string(skip)}, Doc: "What to do when the schema is needed and cannot be had. Defaults to fail with validate, else to warn."},
		}, schema.Fields()...),
		Outputs: []spec.Field{
			{Name: "changed", Type: spec.Integer, Doc: "Objects that were changed."},
			{Name: "unchanged", Type: spec.Integer, Doc: "Objects that had everything already."},
			{Name: "failed", Type: spec.Integer, Doc: "Objects that failed."},
			{Name: "assets_changed", Type: spec.Integer, Doc: "Assets that were changed."},
			{Name: "absent_assets", Type: spec.Object, Doc: "How many objects lacked an asset that a default is for, by its key."},
			{Name: "validated", Type: spec.Boolean, Doc: "Whether the objects were validated against the schema."},
		},
		Examples: []spec.Example{
			{Title: "Where else the files are", YAML: "id: alternates\nmodule: stac.extension\nconfig:\n  extension: alternate-assets\n  defaults:\n    assets.*.alternate.s3.href: \"s3://bucket/{collection_id}/{item_id}/{asset_key}\"\n    assets.*.alternate:name: HTTPS\n"},
			{Title: "A schema of one's own, checked", YAML: "id: gauge\nmodule: ExtensionModule\nconfig:\n  schema_uri: https://example.com/gauge/v1.0.0/schema.json\n  defaults:\n    properties: {\"gauge:kind\": staff}\n  validate: true\n  schema_dir: ./schemas\n"},
		},
	}
}
