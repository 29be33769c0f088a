package extension

import (
	"context"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// Modules are the stream modules of this package: stac.extension. Schemas are found in store, where the config does not say otherwise.
func Modules(store *schema.Store) []stream.Module {
	return []stream.Module{stream.Typed[config]{
		Spec: describe(),
		Check: func(c *config, given stream.Config) []error {
			if len(given.Given("validate", "validate_extension")) == 2 {
				return []error{bad("validate_extension", "is another name of validate", "give one of the two")}
			} else if given.Pending() {
				return nil // Open looks again
			}
			_, problems := c.read(func(path string) string { return path })
			return problems
		},
		Open: func(ctx context.Context, env *stream.Env, c *config) (any, error) { return open(ctx, store, env, c) },
		Pure: true,
	}.Module()}
}

// config is the step's config.
type config struct {
	Extension         string         `json:"extension" doc:"Name of a known extension (eo, projection, alternate-assets, dgeo …), with a version if need be: eo/v1.1.0."`
	SchemaURI         string         `json:"schema_uri" doc:"URI of the extension's schema, instead of extension."`
	Config            map[string]any `json:"config" doc:"Values of the extension's fields by their names without prefix, at the place where they belong: properties or every asset."`
	Defaults          map[string]any `json:"defaults" doc:"Values by path (properties.x, assets.*.x, assets.B4.x) or as nested objects."`
	Overwrite         overwrite      `json:"overwrite" enum:"never,null_only,always" doc:"What happens to values that are there: never, null_only (null is filled in) or always. Defaults to always for dotted and wildcard keys and config, else to null_only."`
	Validate          bool           `json:"validate" doc:"Whether the result must be valid against the extension's schema and have every value that the config sets. Defaults to false."`
	ValidateExtension bool           `json:"validate_extension" doc:"Another name of validate."`
	Required          []string       `json:"required" doc:"Paths that must have a value in every item, such as assets.*.alternate.s3.href."`
	RequiredOnly      bool           `json:"required_fields_only" doc:"Whether fields that the schema requires and that are absent are added, as null or the schema's default. Defaults to false."`
	ReplaceVersion    bool           `json:"replace_version" doc:"Whether older versions of the extension, and its old short name, are taken from stac_extensions. Defaults to false."`
	MissingSchema     missing        `json:"missing_schema" enum:"fail,warn,skip" doc:"What to do when the schema is needed and unavailable. Defaults to fail with validate, else to warn."`
	schema.Sources
}

func open(ctx context.Context, store *schema.Store, env *stream.Env, c *config) (*extender, error) {
	s, problems := c.read(env.Path)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	store = store.With(s.schemas)
	err := store.Check()
	var e *extender
	if err == nil {
		e, err = newExtender(ctx, s, store, env)
	}
	if err != nil {
		return nil, &stream.Error{Type: stream.ConfigurationError, Err: err}
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
the kind of the value. A * in a path stands for every asset that is there. Assets are never invented: a default
for an asset that an item does not have is counted in the outputs and left out.

overwrite decides what happens to existing values. Without it, dotted and wildcard keys and config
overwrite, while nested objects and single names fill in only what is absent or null.

In collections, values for properties are added to the lists in summaries, and values for assets go to assets
and item_assets, without href there; values that name {item_id} or {properties.x} are left out.

A schema may check too little: that of alternate-assets 1.2.0 does not check the assets of items.
With validate, every path that the config sets must have a value, and the alternates of assets an href.`,
		Stream: &spec.Stream{Role: spec.Modifier, Parallel: true, Sets: []spec.Sets{{Keys: "defaults", Nested: true}, {Path: "stac_extensions"}}},
		Outputs: []spec.Field{
			{Name: "changed", Type: spec.Integer, Doc: "Objects that were changed."},
			{Name: "unchanged", Type: spec.Integer, Doc: "Objects that needed no change."},
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
