// Package spec describes actions and parameters as data: names, types, defaults, outputs and
// examples. Validation, JSON Schema, `stepwell actions`, the documentation and forms are all derived
// from it (specifications: budpipeline §3.3, stac-manager modules).
//
// It is pure: it never performs I/O and all its values are immutable once registered.
package spec

import (
	"time"

	"github.com/stepwell/stepwell"
)

// Type is the type of a field's value.
type Type string

// The types. A Template field takes any value and is not rendered before the handler runs. The
// *_ref kinds of budpipeline (cluster_ref, model_ref …) are Ref: non-empty strings.
const (
	String   Type = "string"
	Integer  Type = "integer"
	Number   Type = "number"
	Boolean  Type = "boolean"
	Array    Type = "array"
	Object   Type = "object"
	Duration Type = "duration" // a number of seconds, or a string such as "1h30m"
	Time     Type = "time"     // RFC 3339
	Ref      Type = "ref"
	Any      Type = "any"
)

// Field describes one parameter or output.
type Field struct {
	Name     string
	Type     Type
	Doc      string // one sentence
	Required bool
	Default  any      // a value of the field's type, nil for none
	Enum     []string // allowed values of a String
	Min, Max *float64 // bounds of a number, of a string's or a list's length
	Pattern  string   // RE2 expression that a String must match
	Items    *Field   // the elements of an Array; nil: anything
	Fields   []Field  // the members of an Object; nil: anything goes
	Secret   bool     // never shown
	Raw      bool     // templates inside are left for the handler to render
	Bare     bool     // of what is Raw: a text without {{ }} is an expression too
	Names    []string // of what is Raw: the names that the handler adds to those that every template sees; nil: unknown ones
}

// Example shows an action in use; a test runs or validates each.
type Example struct {
	Title string
	YAML  string // one step, as it would stand under `steps:`
}

// Spec is an action's description of itself.
type Spec struct {
	Name          string   // "util.exec"
	Aliases       []string // other names it answers to
	Summary       string   // one line
	Doc           string   // more, in Markdown
	Params        []Field
	OpenParams    bool // parameters beyond Params are allowed
	Outputs       []Field
	OpenOutputs   bool // outputs beyond Outputs are given
	Examples      []Example
	DependsOn     []string        // step names that instances depend on when a step or a spawn names none (pipeline-steps, BaseStep)
	Spawns        []string        // names of the steps it may spawn; other steps may depend on these names
	KeyParam      string          // the parameter whose value makes a spawned step's key: "name:value"
	Timeout       time.Duration   // of one attempt. Defaults to 5 minutes
	Retry         *stepwell.Retry // when neither step nor pipeline has one
	NotIdempotent bool            // never run again after its worker died
	Reserved      bool            // only for steps that an admin wrote, unless the policy of another role names it
	Stream        *Stream         // of a stream module; nil: an action
	Internal      bool            // used by Stepwell itself: neither listed nor to be named in documents
}

// Role is what a stream module does with items (stac-manager §7.3).
type Role string

// The roles.
const (
	Source   Role = "source"   // makes items (Fetcher)
	Modifier Role = "modifier" // changes or drops items (Modifier)
	Sink     Role = "sink"     // takes items and ends with a manifest (Bundler)
)

// Stream describes a stream module.
type Stream struct {
	Role Role
	// TakesItems: a source that may be given another's items (hand-off).
	TakesItems bool
	// FansOut: a source whose outputs hold a list `collections`, for each of which what comes after it
	// runs on its own.
	FansOut bool
	// AlsoSource: a modifier that makes items itself when it has no input; its component is a source too.
	AlsoSource bool
	// Remembers: a modifier for which all items before an item count. A stream that goes on after it was cut off
	// is read from its beginning, and what is done already is left out only before the sinks.
	Remembers bool
	// Parallel: a modifier that several goroutines may call at once, for different items.
	Parallel bool
	// Sets: the paths that a modifier may set or remove, for warnings about branches of a join that set the same
	// ones.
	Sets []Sets
	// Writes: of a sink that writes to a place of the user's, how steps are told apart that must not share one. Defaults
	// to nothing, for sinks that may share.
	Writes *Writes
}

// Writes names the parameters that say where a sink writes, and whether it replaces what is there.
type Writes struct {
	Places  []string // the first that is given is the place
	Mode    string   // how it is written
	Default string   // the Mode when it is not given
	Alone   string   // the Mode in which nobody else of the execution may write there
	Apart   string   // steps with different values of it share no place; "": there is no such parameter
}

// Sets names paths of items, written as in configs: properties.title, assets.*.href.
type Sets struct {
	Path   string // a path that the module sets whatever its config says
	Keys   string // the parameter, an object, whose keys are paths and whose values they are set to
	Values string // the parameter, a list or an object, whose elements or values are paths
	Member string // the member of each element of Values that is the path, when they are objects
	Nested bool   // objects among the values of Keys are members in depth, not values
}

// Element describes the elements of a list; nil: nothing is known. What is Bare without a description of its own
// passes that on.
func (f *Field) Element() *Field {
	switch {
	case f == nil:
		return nil
	case f.Items == nil && f.Bare:
		return f
	}
	return f.Items
}

// Member describes a member of an object, as Element does an element.
func (f *Field) Member(name string) *Field {
	if f == nil {
		return nil
	}
	if f.Fields == nil && f.Bare {
		return f
	}
	m, _ := FieldNamed(f.Fields, name)
	return m
}

// FieldNamed finds a field.
func FieldNamed(fields []Field, name string) (*Field, bool) {
	for i := range fields {
		if fields[i].Name == name {
			return &fields[i], true
		}
	}
	return nil, false
}
