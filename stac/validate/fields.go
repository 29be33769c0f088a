package validate

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/stac/schema"
)

// prefixes are those of all members that an object has anywhere, but for its links.
func prefixes(v any, depth int, to map[string]bool) {
	if depth == 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if prefix, rest, ok := strings.Cut(name, ":"); ok && rest != "" && !strings.HasPrefix(rest, "//") {
				to[prefix] = true
			} else if name == "alternate" { // the one extension with a member without a prefix
				to[name] = true
			}
			if name != "links" {
				prefixes(inner, depth-1, to)
			}
		}
	case []any:
		for _, inner := range v {
			prefixes(inner, depth-1, to)
		}
	}
}

const fieldDepth = 12

// checkUndeclared: a field of a known extension whose schema is not declared.
func checkUndeclared(_ schema.Kind, obj map[string]any) (found []schema.Problem) {
	used := map[string]bool{}
	prefixes(obj, fieldDepth, used)
	uris := declared(obj)
	for _, e := range schema.Extensions() {
		if used[e.Prefix] && !slices.ContainsFunc(uris, func(uri string) bool { return isFor(uri, e) }) {
			found = append(found, problem("/stac_extensions", "fields %s:… are used, the %s extension is not declared", e.Prefix, e.Name)...)
		}
	}
	return found
}

// isFor reports whether a URI is that of an extension; one published elsewhere is recognised by its name.
func isFor(uri string, e schema.Extension) bool {
	if known, ok := schema.Describing(uri); ok {
		return known.Name == e.Name
	}
	return strings.Contains(uri, e.Name) || strings.Contains(uri, "/"+e.Prefix)
}

// checkUnused: a known extension that is declared, of which no field is used.
func checkUnused(_ schema.Kind, obj map[string]any) (found []schema.Problem) {
	used := map[string]bool{}
	prefixes(obj, fieldDepth, used)
	for _, uri := range declared(obj) {
		if e, ok := schema.Describing(uri); ok && !used[e.Prefix] {
			found = append(found, problem("/stac_extensions", "the %s extension is declared, no field %s:… is used", e.Name, e.Prefix)...)
		}
	}
	return found
}
