package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// Mode says where schemas may come from.
type Mode string

// The modes.
const (
	Offline Mode = "offline" // the folder and the cache, never the network
	Cached  Mode = "cache"   // the folder, else the cache, else the network, which fills the cache
	Refresh Mode = "refresh" // the folder, else the network; the cache is only written
)

// Formats selects how `format` is checked, for example of times.
type Formats string

// The meanings.
const (
	Assert Formats = "assert" // a value that is not of the format is invalid
	Ignore Formats = "ignore"
)

// Options configure a Store.
type Options struct {
	// Dir is a folder laid out as <host>/<path>; an index.json in it may map URIs to files. Defaults to none.
	Dir string `json:"dir"`
	// Cache is a folder for downloaded schemas, laid out in the same way. Defaults to none: schemas are cached in
	// memory only.
	Cache string `json:"cache"`
	// Mode says where schemas may come from. Defaults to Cached.
	Mode Mode `json:"mode" enum:"offline,cache,refresh"`
	// HTTP fetches schemas. Defaults to none: there is no network.
	HTTP *outbound.Client
	// Map redirects schemas: from a URI, or a pattern with *, to a file or a URL. A * at the end of the target stands
	// for the match of the pattern's last *; a folder ending with / gets one if the pattern ends with one. The longest
	// matching pattern counts. Defaults to none.
	Map map[string]string `json:"map"`
	// Formats selects how `format` is checked. Defaults to Assert.
	Formats Formats
}

// Bounds of a Store.
const (
	maxSchemas   = 256 // kept: items may name any URI
	maxRefs      = 64  // documents that one schema refers to
	maxDocuments = 512 // in memory
	maxDerived   = 16
	// retryAfter is how long a schema that could not be had is not asked for again.
	retryAfter = time.Minute
)

// Store finds and compiles schemas, each once, for any number of goroutines.
type Store struct {
	o   Options
	key string // of o

	mu      sync.Mutex
	schemas map[string]*entry
	docs    map[string]any // by URI, shared by the schemas that refer to them
	index   map[string]string
	derived map[string]*Store
}

// entry is a schema that is there, or on its way until done is closed.
type entry struct {
	done   chan struct{}
	schema *Schema
	err    error
	failed time.Time
}

// New makes a Store. It does no I/O; Check verifies the folder.
func New(o Options) *Store {
	o.Mode, o.Formats = cmp.Or(o.Mode, Cached), cmp.Or(o.Formats, Assert)
	return &Store{o: o, key: o.key(), schemas: map[string]*entry{}, docs: map[string]any{}, derived: map[string]*Store{}}
}

// With is a Store that differs in the options that are not zero (HTTP stays). The same differences give the same Store,
// so that steps with the same settings share compiled schemas.
func (s *Store) With(o Options) *Store {
	merged := s.o
	merged.Dir, merged.Cache = cmp.Or(o.Dir, merged.Dir), cmp.Or(o.Cache, merged.Cache)
	merged.Mode, merged.Formats = cmp.Or(o.Mode, merged.Mode), cmp.Or(o.Formats, merged.Formats)
	if len(o.Map) > 0 {
		merged.Map = o.Map
	}
	key := merged.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == s.key {
		return s
	}
	if found, ok := s.derived[key]; ok {
		return found
	}
	if len(s.derived) >= maxDerived { // users of one keep it
		clear(s.derived)
	}
	s.derived[key] = New(merged)
	return s.derived[key]
}

// key identifies options.
func (o *Options) key() string {
	key := fmt.Sprintf("%q %q %q %q", o.Dir, o.Cache, o.Mode, o.Formats)
	for _, from := range slices.Sorted(maps.Keys(o.Map)) {
		key += fmt.Sprintf(" %q=%q", from, o.Map[from])
	}
	return key
}

// Load returns a compiled schema. The first caller finds and compiles it; the others wait. Errors are ErrUnavailable
// with the reason (kept for a minute), or the cause of ctx.
func (s *Store) Load(ctx context.Context, uri string) (*Schema, error) {
	uri = Normal(uri)
	for {
		e, mine := s.entry(uri)
		if mine {
			compiled, err := s.compile(ctx, uri)
			s.finishEntry(uri, e, compiled, err)
			return compiled, err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if e.err == nil || errors.Is(e.err, ErrUnavailable) {
			return e.schema, e.err
		} // the first caller has been cancelled: take over
	}
}

// entry is the one of a URI; mine when the caller has to fill it.
func (s *Store) entry(uri string) (e *entry, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.schemas[uri]; ok && (e.failed.IsZero() || time.Since(e.failed) < retryAfter) {
		return e, false
	}
	if len(s.schemas) >= maxSchemas { // make room: failures first, then any that is not loading
		maps.DeleteFunc(s.schemas, func(_ string, e *entry) bool { return !e.failed.IsZero() })
	}
	if len(s.schemas) >= maxSchemas {
		maps.DeleteFunc(s.schemas, func(_ string, e *entry) bool { return e.schema != nil })
	}
	e = &entry{done: make(chan struct{})}
	s.schemas[uri] = e
	return e, true
}

func (s *Store) finishEntry(uri string, e *entry, compiled *Schema, err error) {
	s.mu.Lock()
	e.schema, e.err = compiled, err
	switch {
	case err == nil:
	case errors.Is(err, ErrUnavailable):
		e.failed = time.Now()
	default: // cancelled: the next one tries again
		delete(s.schemas, uri)
	}
	s.mu.Unlock()
	close(e.done)
}

// compile makes a schema with a compiler of its own: a broken one affects no other.
func (s *Store) compile(ctx context.Context, uri string) (*Schema, error) {
	l := &loader{ctx: ctx, store: s}
	if _, err := l.Load(uri); err != nil {
		return nil, err // the reason as it is, without the compiler's words
	}
	c := s.compiler()
	c.UseLoader(l)
	compiled, err := c.Compile(uri)
	switch {
	case err == nil:
		return &Schema{URI: uri, compiled: compiled, fast: newRule(compiled)}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case l.err != nil:
		return nil, unavailable(uri, "it refers to one that cannot be had", l.err)
	}
	return nil, unavailable(uri, "it does not compile", err)
}

func (s *Store) compiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseRegexpEngine(compilePattern)
	if s.o.Formats == Ignore {
		for _, name := range formatNames {
			c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
		}
		return c
	}
	for _, format := range ownFormats {
		c.RegisterFormat(format)
	}
	c.AssertFormat()
	return c
}

// formatNames are the formats that the library knows and that can be overruled.
var formatNames = []string{"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email",
	"date", "time", "date-time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver"}

// Document is a schema as it is written, decoded; it is shared and must not be changed. Errors as of Load.
func (s *Store) Document(ctx context.Context, uri string) (any, error) {
	return (&loader{ctx: ctx, store: s}).Load(Normal(uri))
}

// unavailable is the error for a schema that cannot be had or used.
func unavailable(uri, why string, cause error) error {
	err := ErrUnavailable
	if cause != nil {
		if !errors.Is(cause, ErrUnavailable) {
			cause = fmt.Errorf("%w: %w", ErrUnavailable, cause)
		}
		err = cause
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "schema " + uri + ": " + why, Err: err,
		Hint: "give a schema_dir or a schema_cache that has it, allow the network, or choose another missing_schema policy for it"}
}
