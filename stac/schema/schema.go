// Package schema validates STAC objects against their JSON Schemas: it finds schemas, compiles each once
// and reports what is wrong in words that fit a failure record (specifications: stac-and-media §0, §1 and
// §3; JSON Schema draft-07 and later).
//
// A Store looks for a schema in a folder, then in a cache on disk, then in the network. A schema that cannot
// be had, or does not compile, is ErrUnavailable with the reason: never the same as valid. No schema comes
// with the package. Where the core schema of a STAC version cannot be had, Core checks the rules of the
// specification itself. Regular expressions are those of ECMAScript, look-ahead included, which nearly
// every extension schema needs. Stable.
package schema

import (
	"errors"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ErrUnavailable is in the chain of every error that says that there is no schema to validate against.
var ErrUnavailable = errors.New("schema unavailable")

// Problem is one thing that is wrong with an object.
type Problem struct {
	Schema  string // URI of the schema, or BuiltIn
	Pointer string // JSON pointer (RFC 6901) to where it is; "" is the object itself
	Keyword string // of JSON Schema
	Message string // up to 200 characters
}

// String is the problem in one line.
func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Message
	}
	return p.Pointer + ": " + p.Message
}

// Limits of reports.
const (
	MaxProblems = 20  // of one object and one schema
	MaxMessage  = 200 // characters
)

// Schema is a compiled schema, to be used by any number of goroutines.
type Schema struct {
	URI      string
	compiled *jsonschema.Schema
	fast     *rule // nil: the library alone
	doc      any   // of Core: as it is written, with its messages
}

// Check returns the problems of a value, nil when it is valid: at most MaxProblems, in an order that depends on the
// value and the schema alone. Of alternatives (oneOf, anyOf) the one most likely meant is reported, first of all the
// one for the object's type.
func (s *Schema) Check(d *Document) (problems []Problem) {
	defer s.recoverSlow(&problems)
	if s.fast != nil && s.fast.fits(d) {
		return nil
	}
	return s.Validate(d.Value())
}

// Validate is Check for a value made by Decode. It takes longer: errors are collected also for valid alternatives.
func (s *Schema) Validate(doc any) (problems []Problem) {
	defer s.recoverSlow(&problems)
	err := s.compiled.Validate(doc)
	if err == nil {
		return nil
	}
	return s.problems(err)
}

// recoverSlow makes a problem of a pattern that takes too long: the library's patterns can only answer yes or no, and
// that is neither.
func (s *Schema) recoverSlow(problems *[]Problem) {
	switch cause := recover().(type) {
	case nil:
	case tooSlow:
		*problems = []Problem{{Schema: s.URI, Keyword: "pattern", Message: clip("the pattern " + string(cause) + " takes too long")}}
	default:
		panic(cause)
	}
}

// Kind is the type of a STAC object.
type Kind string

// The kinds, as `type` has them.
const (
	Item       Kind = "Feature"
	Collection Kind = "Collection"
	Catalog    Kind = "Catalog"
)

var versionText = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// CoreURI is the URI of the core schema of a STAC version, and false when there cannot be one.
func CoreURI(kind Kind, version string) (string, bool) {
	file, ok := map[Kind]string{Item: "item-spec/json-schema/item.json",
		Collection: "collection-spec/json-schema/collection.json", Catalog: "catalog-spec/json-schema/catalog.json"}[kind]
	if !ok || len(version) > 32 || !versionText.MatchString(version) {
		return "", false
	}
	return "https://schemas.stacspec.org/v" + version + "/" + file, true
}

// Normal is a URI without the empty fragment that many schemas carry.
func Normal(uri string) string { return strings.TrimSuffix(strings.TrimSpace(uri), "#") }

// Match reports whether a URI fits a pattern, in which each * stands for any text.
func Match(pattern, uri string) bool {
	_, ok := match(pattern, uri)
	return ok
}

// match also returns the text matched by the last *.
func match(pattern, uri string) (tail string, ok bool) {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(uri, parts[0])
	if len(parts) == 1 {
		return "", ok && rest == ""
	}
	if !ok {
		return "", false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return "", false
		}
		rest = after
	}
	return strings.CutSuffix(rest, parts[len(parts)-1])
}
