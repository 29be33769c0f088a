package validate

import (
	"context"
	"strings"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// Modules are the stream modules of this package: stac.validate. Schemas are found in store, where the config does not say otherwise.
func Modules(store *schema.Store) []stream.Module {
	return []stream.Module{stream.Typed[config]{
		Spec: describe(),
		Check: func(c *config, given stream.Config) []error {
			if given.Pending() {
				return nil // Open looks again
			}
			_, problems := c.read(func(path string) string { return path })
			return problems
		},
		Open: func(ctx context.Context, env *stream.Env, c *config) (any, error) {
			v, problems := open(ctx, store, env, c)
			if len(problems) > 0 {
				return nil, &stream.Error{Type: stream.ConfigurationError, Err: problems[0]}
			}
			return v, nil
		},
		Try: func(ctx context.Context, env *stream.Env, c *config) []error {
			_, problems := open(ctx, store, env, c)
			return problems
		},
	}.Module()}
}

// config is the step's config.
type config struct {
	OtherObjects     string         `json:"other_objects" enum:"fail,skip" default:"fail" doc:"What happens to an object with neither type nor stac_version, such as a manifest.json beside items: it is invalid, or it is skipped and counted."`
	Strict           bool           `json:"strict" default:"false" doc:"Whether the first invalid object ends the run."`
	ExtensionSchemas any            `json:"extension_schemas" doc:"URIs or files of schemas that every object is checked against besides its own; or an object {URI or pattern: file or URL} that says where to have schemas instead."`
	MissingSchema    any            `json:"missing_schema" default:"\"warn\"" doc:"What to do when a schema is unavailable: warn, fail, skip, or builtin (warn, but silent where the built-in core rules stand in); or an object {pattern of URIs: policy}, in which the longest pattern that fits counts."`
	Formats          schema.Formats `json:"formats" enum:"assert,ignore" default:"assert" doc:"Whether the formats that schemas name, for example of times, must hold."`
	Lint             any            `json:"lint"`
	AllowPartial     bool           `json:"allow_partial" default:"false" doc:"Whether items that were fetched without geometry, properties or assets pass unchecked instead of failing."`
	schema.Sources
}

func open(ctx context.Context, store *schema.Store, env *stream.Env, c *config) (*validator, []error) {
	s, problems := c.read(env.Path)
	if len(problems) > 0 {
		return nil, problems
	}
	store = store.With(s.schemas)
	if err := store.Check(); err != nil {
		return nil, []error{err}
	}
	for _, uri := range s.files { // the user's own files must exist
		if _, err := store.Load(ctx, uri); err != nil {
			problems = append(problems, err)
		}
	}
	return newValidator(env, s, store), problems
}

// describe is the module's specification.
func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.validate", Aliases: []string{"ValidateModule"},
		Summary: "Checks items, collections and catalogs against the STAC schemas and those of their extensions.",
		Doc: `The core schema is that of the object's own stac_version and type; then come the schemas that stac_extensions
names. An invalid object is recorded as a failure, with the schema, the JSON pointer and the keyword, and is
not passed on.

Schemas come from schema_dir, else from schema_cache, else from the network. None comes with Stepwell. An object whose schema is unavailable or does not compile is never counted as valid: missing_schema says what happens,
and the outputs count such schemas. Where the core schema of STAC 1.0.0 or 1.1.0 cannot be had, the rules of
the specification that are built in are checked instead (unless the policy for it is fail or skip), which the
outputs and the log tell.

Schemas check members, not their meaning: a ring that is open, wound the wrong way, crosses itself or has a
spike, or a bbox that does not cover its geometry, is valid without lint.`,
		Stream: &spec.Stream{Role: spec.Modifier, Parallel: true},
		Params: []spec.Field{{Name: "lint", Type: spec.Any, Doc: "Checks beyond the schemas; none are made without it. A list (findings are warnings in log and outputs, and the objects pass) or an object {check: warn or fail} of " + strings.Join(checkNames(), ", ") + ", or all."}},
		Outputs: []spec.Field{
			{Name: "valid", Type: spec.Integer, Doc: "Objects that were checked and passed on."},
			{Name: "invalid", Type: spec.Integer, Doc: "Objects that failed."},
			{Name: "unchecked", Type: spec.Integer, Doc: "Objects that were passed on unchecked: no core schema, or partial."},
			{Name: "items_not_checked", Type: spec.Integer, Doc: "Objects that were passed on although not everything could be checked: those of unchecked, and those that lacked a schema; the core's not counted under policy builtin."},
			{Name: "skipped", Type: spec.Integer, Doc: "Objects that are not of STAC and were left out, with other_objects: skip."},
			{Name: "builtin_rules", Type: spec.Integer, Doc: "Objects whose core was checked by the built-in rules."},
			{Name: "missing_schemas", Type: spec.Object, Doc: "How many objects lacked a schema, by its URI."},
			{Name: "warnings", Type: spec.Integer, Doc: "Missing schemas of objects under policy warn, and findings of lint."},
			{Name: "lint", Type: spec.Object, Doc: "Findings by check."},
		},
		Examples: []spec.Example{
			{Title: "Check with what the folder has", YAML: "id: check\nmodule: stac.validate\nconfig:\n  schema_dir: ./schemas\n  mode: offline\n"},
			{Title: "Nothing unchecked, and no bad boxes", YAML: "id: check\nmodule: ValidateModule\nconfig:\n  strict: true\n  schema_cache: ./.schemas\n  missing_schema:\n    \"*\": fail\n    \"https://landsat.usgs.gov/*\": warn\n  lint: {bbox: fail, geometry: warn}\n"},
		},
	}
}
