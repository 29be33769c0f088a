// Package spec describes actions, modules, settings and documents as data: names, types, defaults, outputs and examples.
// Validation, JSON Schema, `stepwell actions`, the reference documentation, hints and forms are all derived from it
// (specifications: budpipeline §3.3, stac-manager modules).
//
// # One struct is the description
//
// A configuration is one Go struct. Its tags are the description; FieldsOf reads them:
//
//	type config struct {
//		Path   string        `json:"path" required:"true" doc:"The file to write."`
//		Format string        `json:"format" enum:"json,csv" default:"json" doc:"How rows are written."`
//		Rows   int           `json:"rows" minimum:"1" maximum:"10000" default:"500" doc:"Rows in one file."`
//		Every  time.Duration `json:"every" minimum:"1" doc:"Time between two files."`
//		When   string        `json:"when" spec:"raw" doc:"Expression that picks rows."`
//		Auth   struct {
//			Token string `json:"token" writeOnly:"true" doc:"A bearer token."`
//		} `json:"auth" doc:"Credentials."`
//	}
//
// The words are those of JSON Schema as package huma writes them, so that a body of the API and a configuration are
// described alike:
//
//	json       the name; text after a comma is ignored. "-" and no name: not a field
//	key        another name than json's, where the stored form differs
//	doc        one sentence for people; ´ stands for `, which a tag cannot hold
//	required   "true": it must be given. Fields are optional otherwise
//	default    its value when it is not given: a text as it is, all else as JSON
//	enum       the texts that are allowed, separated by commas; of a list, those of its elements
//	minimum, maximum, exclusiveMinimum       bounds of a number, or of a duration in seconds
//	minLength, maxLength, pattern            of a text, or of the elements of a list
//	minItems, maxItems                       of a list
//	unit       of a number, for messages: " seconds"
//	writeOnly  "true": a secret, never shown
//	names      names for a raw field's templates besides the usual ones
//	spec       words separated by commas: a type (ref, duration, time, any), secret, raw (the handler renders the
//	           templates inside), bare (raw, and a text without {{ }} is an expression too)
//
// Embedded structs stand in their place, so that modules share fields by sharing a struct. A type that reads texts
// (encoding.TextUnmarshaler) is a text.
//
// # From the struct
//
//	spec.FieldsOf[config]()                for Spec.Params: documentation, JSON Schema, hints, completion
//	spec.Bind(values, &c)                  sets the struct from checked values, as Open and Run get them
//	spec.BindTemplated(values, &c)         the same before templates are rendered, as a module's Check gets them
//
// # From a document
//
// Documents and settings files keep their places: definition.Nodes reads YAML and JSON into nodes, a Decoder reads nodes
// into a struct by its Shape, and reports every problem with its line, column and hint. It calls back for keys that no
// field can describe. A variable of the environment is a node too (NodeAt).
//
//	var shape = spec.NewShape(config{}, []spec.Keys{{Of: config{}, What: "the writer"}})
//	(&spec.Decoder{Report: report}).Struct(node, "", shape, &c, nil)
//
// The values of a running step were checked against its Spec and have their defaults: a handler checks only rules
// that fields cannot express, such as two that exclude each other.
//
// The package is pure: it never performs I/O, keeps no cache, and all its values are immutable once registered.
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
	Name     string   `json:"name"`
	Type     Type     `json:"type" enum:"string,integer,number,boolean,array,object,duration,time,ref,any"`
	Doc      string   `json:"description,omitempty"` // one sentence
	Required bool     `json:"required,omitempty"`
	Default  any      `json:"default,omitempty"`                             // a value of the field's type, nil for none
	Enum     []string `json:"options,omitempty" key:"enum" nullable:"false"` // allowed values of a String
	Min      *float64 `json:"min,omitempty" doc:"Of a number, or of the length of a string or list."`
	Max      *float64 `json:"max,omitempty"`
	Above    bool     `json:"-"`                                 // Min itself is too small
	Unit     string   `json:"-"`                                 // of a number, for messages: " seconds"
	Pattern  string   `json:"pattern,omitempty"`                 // RE2 expression that a String must match
	Items    *Field   `json:"items,omitempty"`                   // the elements of an Array; nil: anything
	Fields   []Field  `json:"fields,omitempty" nullable:"false"` // the members of an Object; nil: anything goes
	Secret   bool     `json:"secret,omitempty"`                  // never shown
	Raw      bool     `json:"-"`                                 // templates inside are left for the handler to render
	Bare     bool     `json:"-"`                                 // of a Raw field: a text without {{ }} is an expression too
	Limit    bool     `json:"-"`                                 // a time that must be shorter than the step's timeout
	Names    []string `json:"-"`                                 // of a Raw field: names that the handler adds to those of every template; nil: unknown ones
}

// Example shows an action in use; a test runs or validates each.
type Example struct {
	Title string `json:"title"`
	YAML  string `json:"yaml" doc:"One step as it stands under steps."`
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
	KeyParam      string          // the parameter whose value is in a spawned step's key: "name:value"
	Timeout       time.Duration   // of one attempt. Defaults to 5 minutes
	Retry         *stepwell.Retry // when neither step nor pipeline has one
	NotIdempotent bool            // never run again after its worker died
	Cancels       bool            // its handler can stop work outside (action.Canceler); set by action.Registry
	Reserved      bool            // only for steps that an admin wrote, unless the policy of another role names it
	Stream        *Stream         // of a stream module; nil: an action
	Effect        Effect          // outside of the execution
	Places        []string        // the parameters that name where it writes; those that name a place together are joined by +
	Internal      bool            // used by Stepwell itself: neither listed nor to be named in documents
	Stays         bool            // it needs the database: no worker in another process runs it
}

// Effect is what an action does outside of its execution, and so what it may do there when it runs again.
type Effect string

// The effects.
const (
	AnyEffect  Effect = ""     // whatever it does may be done twice
	NoEffect   Effect = "none" // nothing: tests run it instead of a mock
	OnceEffect Effect = "once" // another attempt of the step continues what the one before began, or finds it done
)

// Role is a stream module's way of handling items (stac-manager §7.3).
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
	// FansOut: of a source behind which the stream runs once for each element of one of its outputs. Defaults to nil:
	// the stream runs once.
	FansOut *FansOut
	// Report is the action that ends a pipeline with such steps, with the params workflow, failures, summary and steps
	// (how many). Defaults to none.
	Report string
	// AlsoSource: a modifier that makes items itself when it has no input; its component is a source too.
	AlsoSource bool
	// Remembers: a modifier for which all items before an item count. A resumed stream is read from its beginning,
	// and finished items are left out only before the sinks.
	Remembers bool
	// Parallel: a modifier that several goroutines may call at once, for different items.
	Parallel bool
	// Sets: the paths that a modifier may set or remove, for warnings about branches of a join that set the same
	// ones.
	Sets []Sets
	// Writes: of a sink whose destination two steps must not share, the parameters that name it. Defaults to none.
	Writes *Writes
}

// FansOut names the elements that a source finds.
type FansOut struct {
	Output string // the output with the list: "collections"
	As     string // the name of an element in templates: "collection"
}

// Writes names the parameters of a sink's destination, and whether it replaces existing data.
type Writes struct {
	Places  []string // the first that is given is the place
	Mode    string   // how it is written
	Default string   // the Mode when it is not given
	Alone   string   // the Mode that excludes other writers of the execution
	Apart   string   // steps with different values of it share no place; "": there is no such parameter
	Each    string   // loops over elements of this name give Apart different values
}

// Sets names paths of items, written as in configs: properties.title, assets.*.href.
type Sets struct {
	Path   string // a path that the module always sets
	Keys   string // the parameter, an object from paths to their values
	Values string // the parameter, a list or an object, with paths as elements or values
	Member string // the member of each element of Values that is the path, when they are objects
	Nested bool   // objects among the values of Keys are members in depth, not values
}

// Element describes the elements of a list; nil: nothing is known. A Bare field without a description of its own
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
