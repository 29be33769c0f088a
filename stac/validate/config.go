package validate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/schema"
)

// policy decides about an item whose schema is unavailable.
type policy string

const (
	fail    policy = "fail"
	warn    policy = "warn"
	skip    policy = "skip"
	builtin policy = "builtin"
)

var policies = []policy{warn, fail, skip, builtin}

// settings are a config with the fields that hold values of several types, read.
type settings struct {
	*config
	schemas schema.Options
	extra   []string // URIs that every object is checked against
	files   []string // those of extra that are files: they must be there
	missing []rule
	lint    map[string]policy // warn or fail
}

// rule is a policy for the URIs that fit a pattern.
type rule struct {
	pattern string
	policy  policy
}

// policyFor is that of the longest pattern that fits.
func (s *settings) policyFor(uri string) policy {
	found, longest := warn, -1
	for _, r := range s.missing {
		if len(r.pattern) > longest && schema.Match(r.pattern, uri) {
			found, longest = r.policy, len(r.pattern)
		}
	}
	return found
}

func bad(key, what, hint string) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: key + ": " + what, Hint: hint}
}

// read makes settings of a config. path resolves paths.
func (c *config) read(path func(string) string) (*settings, []error) {
	s := &settings{config: c}
	var err error
	s.schemas, err = c.Options(path)
	s.schemas.Formats = c.Formats
	problems := []error{err, s.extensionSchemas(c.ExtensionSchemas, path), s.missingSchema(c.MissingSchema), s.lintChecks(c.Lint)}
	return s, slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// extensionSchemas are URIs and files that every object is checked against, or a map that says where to
// have a schema instead.
func (s *settings) extensionSchemas(v any, path func(string) string) error {
	const hint = "write a list of URIs or files, or an object {URI or pattern: file or URL}"
	s.schemas.Map = map[string]string{}
	switch v := v.(type) {
	case nil:
	case []any:
		for _, e := range v {
			text, ok := e.(string)
			if !ok || text == "" {
				return bad("extension_schemas", fmt.Sprintf("%v is not a URI", e), hint)
			}
			if !strings.Contains(text, "://") {
				file := path(text)
				dir := filepath.Dir(file)
				s.schemas.Map["file://"+dir+"/*"] = dir + "/*"
				text = "file://" + file
				s.files = append(s.files, text)
			}
			s.extra = append(s.extra, schema.Normal(text))
		}
	case map[string]any:
		for from, to := range v {
			text, ok := to.(string)
			if !ok || text == "" {
				return bad("extension_schemas."+from, fmt.Sprintf("%v is neither a file nor a URL", to), hint)
			}
			if folder := strings.HasSuffix(text, "/"); !strings.Contains(text, "://") {
				if text = path(text); folder && !strings.HasSuffix(text, "/") {
					text += "/"
				}
			}
			s.schemas.Map[from] = text
		}
	default:
		return bad("extension_schemas", "is neither a list nor an object", hint)
	}
	return nil
}

func (s *settings) missingSchema(v any) error {
	const hint = `write warn, fail, skip or builtin, or an object such as {"*": fail, "https://landsat.usgs.gov/*": warn}`
	one := func(pattern string, v any) error {
		text, _ := v.(string)
		if !slices.Contains(policies, policy(text)) {
			return bad("missing_schema", fmt.Sprintf("unknown policy %v", v), hint)
		}
		s.missing = append(s.missing, rule{pattern, policy(text)})
		return nil
	}
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		for pattern, p := range v {
			if err := one(pattern, p); err != nil {
				return err
			}
		}
		return nil
	default:
		return one("*", v)
	}
}

func (s *settings) lintChecks(v any) error {
	s.lint = map[string]policy{}
	levels, ok := v.(map[string]any)
	switch list, isList := v.([]any); {
	case v == nil, ok:
	case !isList:
		return bad("lint", "is neither a list nor an object", lintHint())
	default:
		levels = map[string]any{}
		for _, name := range list {
			text, _ := name.(string)
			levels[text] = string(warn)
		}
	}
	for name, v := range levels {
		level, _ := v.(string)
		switch {
		case policy(level) != warn && policy(level) != fail:
			return bad("lint."+name, fmt.Sprintf("%v is neither warn nor fail", v), lintHint())
		case slices.Contains(checkNames(), name):
			s.lint[name] = policy(level)
		case name != "all":
			return bad("lint", fmt.Sprintf("unknown check %q", name), lintHint())
		}
	}
	if level, ok := levels["all"].(string); ok {
		for _, name := range checkNames() {
			if _, single := s.lint[name]; !single {
				s.lint[name] = policy(level)
			}
		}
	}
	return nil
}

func lintHint() string {
	return "known checks are " + strings.Join(checkNames(), ", ") + " and all; write a list, or an object {check: warn or fail}"
}
