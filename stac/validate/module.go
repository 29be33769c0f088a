package validate

import (
	"context"
	"strings"

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

// Modules are the stream modules of this package: stac.validate.
func Modules(o Options) []stream.Module {
	if o.Schemas == nil {
		o.Schemas = schema.New(schema.Options{})
	}
	return []stream.Module{{
		Spec:  describe(),
		Check: check,
		Open: func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
			v, problems := open(ctx, o, env, config)
			if len(problems) > 0 {
				return nil, &stream.Error{Type: stream.ConfigurationError, Err: problems[0]}
			}
			return v, nil
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

func open(ctx context.Context, o Options, env *stream.Env, config map[string]any) (*validator, []error) {
	s, problems := read(config, env.Path)
	if len(problems) > 0 {
		return nil, problems
	}
	store := o.Schemas.With(s.schemas)
	if err := store.Check(); err != nil {
		return nil, []error{err}
	}
	for _, uri := range s.files { // what the user has laid down here must be there
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

Schemas come from schema_dir, else from schema_cache, else from the network. None comes with Stepwell. A
schema that cannot be had, or does not compile, is never the same as valid: missing_schema says what happens,
and the outputs count such schemas. Where the core schema of STAC 1.0.0 or 1.1.0 cannot be had, the rules of
the specification that are built in are checked instead (unless the policy for it is fail or skip), which the
outputs and the log tell.

Schemas look at members, not at what they mean: a ring that is open, wound the wrong way, crosses itself or has a
spike, or a bbox that does not cover its geometry, is valid without lint.`,
		Stream: &spec.Stream{Role: spec.Modifier, Parallel: true},
		Params: append([]spec.Field{
			{Name: "other_objects", Type: spec.String, Enum: []string{"fail", "skip"}, Default: "fail", Doc: "What becomes of an object with neither type nor stac_version, such as a manifest.json beside items: it is invalid, or it is left out and counted."},
			{Name: "strict", Type: spec.Boolean, Default: false, Doc: "Whether the first invalid object ends the run."},
			{Name: "extension_schemas", Type: spec.Any, Doc: "URIs or files of schemas that every object is checked against besides its own; or an object {URI or pattern: file or URL} that says where to have schemas instead."},
			{Name: "missing_schema", Type: spec.Any, Default: string(warn), Doc: "What to do when a schema cannot be had: warn, fail, skip, or builtin (warn, but silent where the built-in core rules stand in); or an object {pattern of URIs: policy}, in which the longest pattern that fits counts."},
			{Name: "formats", Type: spec.String, Enum: []string{string(schema.Assert), string(schema.Ignore)}, Default: string(schema.Assert), Doc: "Whether the formats that schemas name, for example of times, must hold."},
			{Name: "lint", Type: spec.Any, Doc: "Checks beyond the schemas; none are made without it. A list (findings are warnings in log and outputs, and the objects pass) or an object {check: warn or fail} of " + strings.Join(checkNames(), ", ") + ", or all."},
			{Name: "allow_partial", Type: spec.Boolean, Default: false, Doc: "Whether items that were fetched without geometry, properties or assets pass unchecked instead of failing."},
		}, schema.Fields()...),
		Outputs: []spec.Field{
			{Name: "valid", Type: spec.Integer, Doc: "Objects that were checked and passed on."},
			{Name: "invalid", Type: spec.Integer, Doc: "Objects that failed."},
			{Name: "unchecked", Type: spec.Integer, Doc: "Objects that were passed on though nothing could be said: no core schema, or partial."},
			{Name: "items_not_checked", Type: spec.Integer, Doc: "Objects that were passed on though not all of them could be checked: those of unchecked, and those that lacked a schema; the core's not counted under policy builtin."},
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
