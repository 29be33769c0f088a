package extension

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/schema"
)

// overwrite decides about an existing value.
type overwrite string

const (
	never    overwrite = "never"
	nullOnly overwrite = "null_only"
	always   overwrite = "always"
)

// missing decides about an unavailable schema.
type missing string

const (
	fail missing = "fail"
	warn missing = "warn"
	skip missing = "skip"
)

// settings are a config with its paths and values, read.
type settings struct {
	*config
	uri      string
	known    schema.Extension // zero when it is not one of the table
	fills    []fill
	sums     []propertyValue
	required []item.Path
	schemas  schema.Options
}

// fill is one value to be put at one path of items.
type fill struct {
	path  item.Path
	value *pattern.Tree
	over  overwrite
	null  bool // the value is null: it need not be more
}

// propertyValue is the value of a property, for the summaries of collections.
type propertyValue struct {
	name  string
	value *pattern.Tree
}

func bad(key, what, hint string) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: key + ": " + what, Hint: hint}
}

// read makes settings of a config. path resolves paths.
func (c *config) read(path func(string) string) (*settings, []error) {
	c.Validate = c.Validate || c.ValidateExtension
	s := &settings{config: c}
	var problems []error
	add := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				problems = append(problems, err)
			}
		}
	}
	add(s.which(c.Extension, c.SchemaURI))
	var err error
	s.schemas, err = c.Options(path)
	add(err)
	if len(problems) == 0 {
		add(s.configured(c.Config))
		add(s.defaults(c.Defaults)...)
		add(s.requires(c.Required)...)
	}
	return s, problems
}

// which finds the extension.
func (s *settings) which(name, uri string) error {
	switch {
	case name != "" && uri != "":
		return bad("schema_uri", "stands beside extension", "give one of the two")
	case strings.Contains(name, "://"):
		uri = name
	case name != "":
		e, ok := schema.Named(name)
		if !ok {
			var names []string
			for _, e := range schema.Extensions() {
				names = append(names, e.Name)
			}
			return bad("extension", fmt.Sprintf("unknown extension %q", name), "known are "+strings.Join(names, ", ")+`, each also with a version ("eo/v1.1.0"); for any other give schema_uri and defaults`)
		}
		s.known, s.uri = e, e.URI
		return nil
	}
	if !strings.Contains(uri, "://") {
		return bad("schema_uri", fmt.Sprintf("%q is not a URI", uri), "give the URI of the extension's schema, or the extension's name")
	}
	s.uri = schema.Normal(uri)
	s.known, _ = schema.Describing(s.uri)
	return nil
}

// configured are the values of `config`: fields of the extension, without its prefix.
func (s *settings) configured(fields map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path := item.Path{{Key: "properties"}}
		if s.known.Assets {
			path = item.Path{{Key: "assets"}, {Any: true}}
		}
		switch {
		case s.known.Name == "alternate-assets" && !strings.Contains(name, ":"):
			path = append(path, item.Step{Key: "alternate"}, item.Step{Key: name})
		case strings.Contains(name, ":"):
			path = append(path, item.Step{Key: name})
		case s.known.Prefix == "":
			return bad("config."+name, "the prefix of the extension is not known", `write the whole name ("`+"prefix:"+name+`"), or use defaults`)
		default:
			path = append(path, item.Step{Key: s.known.Prefix + ":" + name})
		}
		if err := s.fill("config."+name, path, fields[name], cmp.Or(s.Overwrite, always)); err != nil {
			return err
		}
		if err := s.summary(path, fields[name]); err != nil {
			return err
		}
	}
	return nil
}

// defaults are values by paths: "properties.eo:snow_cover", "assets.*.roles", or nested objects.
func (s *settings) defaults(values map[string]any) (problems []error) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path, err := item.ParsePath(key)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		over := always
		if len(path) == 1 {
			over = nullOnly
			path = placed(path[0].Key)
		}
		if err := s.fill("defaults."+key, path, values[key], cmp.Or(s.Overwrite, over)); err != nil {
			problems = append(problems, err)
			continue
		}
		if err := s.summary(path, values[key]); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// placed is the path of a key that stands alone: a field with a prefix belongs to properties or assets.
func placed(key string) item.Path {
	prefix, _, ok := strings.Cut(key, ":")
	if !ok {
		return item.Path{{Key: key}}
	}
	if e, known := schema.Named(prefix); known && e.Assets {
		return item.Path{{Key: "assets"}, {Any: true}, {Key: key}}
	}
	return item.Path{{Key: "properties"}, {Key: key}}
}

// fill records a value, objects member by member, so that their other members stay.
func (s *settings) fill(key string, path item.Path, v any, over overwrite) error {
	if fields, ok := v.(map[string]any); ok && len(fields) > 0 && len(path) < item.MaxPath {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			step := item.Step{Key: name}
			if name == "*" && len(path) == 1 && inAssets(path) {
				step = item.Step{Any: true}
			}
			if err := s.fill(key, append(slices.Clone(path), step), fields[name], over); err != nil {
				return err
			}
		}
		return nil
	}
	value, err := pattern.ParseTree(v)
	if err != nil {
		return err
	}
	const hint = `values go into members: "properties.x", "assets.*.x", "assets.B4.x"`
	switch root := path[0].Key; {
	case path[0].Any || path[0].IsIndex || root == "stac_extensions" || root == "id" || root == "type":
		return bad(key, path.String()+" cannot be set", hint)
	case len(path) == 1 && (root == "properties" || root == "summaries" || inAssets(path)), len(path) == 2 && inAssets(path):
		return bad(key, path.String()+" cannot be set as a whole", hint)
	case value.UsesAsset() && !inAssets(path):
		return bad(key, "{asset_key} has no value outside of assets", "use it below assets.*")
	}
	s.fills = append(s.fills, fill{path, value, over, v == nil})
	return nil
}

func inAssets(path item.Path) bool { return path[0].Key == "assets" || path[0].Key == "item_assets" }

// summary notes values of properties, for the summaries of collections.
func (s *settings) summary(path item.Path, v any) error {
	if path[0].Key != "properties" {
		return nil
	}
	if len(path) == 1 {
		fields, _ := v.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if err := s.summary(append(slices.Clone(path), item.Step{Key: name}), fields[name]); err != nil {
				return err
			}
		}
		return nil
	}
	value, err := pattern.ParseTree(v)
	if err == nil && len(path) == 2 && !path[1].Any && !value.UsesItem() && v != nil {
		s.sums = append(s.sums, propertyValue{path[1].Key, value})
	}
	return err
}

// requires are the paths that must have a value in the end. With validate they are those of the config.
func (s *settings) requires(list []string) (problems []error) {
	for _, text := range list {
		path, err := item.ParsePath(text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if len(path) == 1 && !path[0].Any {
			path = placed(path[0].Key)
		}
		s.required = append(s.required, path)
	}
	return problems
}
