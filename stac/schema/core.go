package schema

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// BuiltIn stands for the URI of a schema that Core returns.
const BuiltIn = "built-in rules"

// coreText is our own schema of the STAC specification. Compared with the published ones it has messages of its own
// (`says`), looks at no schema inside of a Collection, and is one document.
//
//go:embed core.json
var coreText []byte

var cores = map[string]func() *Schema{"1.0.0": sync.OnceValue(func() *Schema { return newCore("1.0.0") }), "1.1.0": sync.OnceValue(func() *Schema { return newCore("1.1.0") })}

// Core returns the rules of the specification of a STAC version, 1.0.0 or 1.1.0, as a schema for Items, Collections and
// Catalogs; nil for other versions. It is for where the core schema cannot be had, and agrees with it. Extensions are not
// looked at.
func Core(version string) *Schema {
	if compile := cores[version]; compile != nil {
		return compile()
	}
	return nil
}

// newCore compiles the rules, which takes some milliseconds. It panics where they do not compile: they are part of the program.
func newCore(version string) *Schema {
	doc, err := Decode(coreText)
	if err != nil {
		panic(err)
	}
	root := doc.(map[string]any)
	later, _ := root[version].(map[string]any) // the definitions of 1.0.0 are those that others replace
	maps.Copy(root["definitions"].(map[string]any), later)
	c := New(Options{}).compiler()
	if err := c.AddResource("stepwell:core", doc); err != nil {
		panic(err)
	}
	compiled := c.MustCompile("stepwell:core")
	return &Schema{URI: BuiltIn, compiled: compiled, fast: newRule(compiled), doc: doc}
}

// explainCore is the message of our own schema: the text of `says`, for one keyword or for all but required; else one for
// the keyword.
func (s *Schema) explainCore(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return explain(e)
	case *kind.MinLength:
		return "is empty"
	case *kind.MinItems:
		return cmp.Or(s.says(e), fmt.Sprintf("has fewer than %d elements", k.Want))
	case *kind.Type:
		return cmp.Or(s.says(e), "is not "+typeWords[k.Want[0]])
	case *kind.Format:
		return cmp.Or(s.says(e), k.Err.Error())
	}
	return cmp.Or(s.says(e), explain(e))
}

var typeWords = map[string]string{"string": "a text", "array": "a list", "object": "an object", "number": "a number", "integer": "a whole number"}

func (s *Schema) says(e *jsonschema.ValidationError) string {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return ""
	}
	at, _ := Find(s.doc, fragment).(map[string]any)
	switch says := at["says"].(type) {
	case string:
		return says
	case map[string]any:
		text, _ := says[keyword(e)].(string)
		return text
	}
	return ""
}

// Find returns the value of a decoded document that a JSON pointer (RFC 6901) leads to, nil when there is none.
func Find(doc any, pointer string) any {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch in := doc.(type) {
		case map[string]any:
			doc = in[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(in) {
				return nil
			}
			doc = in[n]
		default:
			return nil
		}
	}
	return doc
}
