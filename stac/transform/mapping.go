package transform

import (
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jmespath-community/go-jmespath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
)

// mapping maps fields of a row to places in an item. It is safe for concurrent use.
type mapping struct {
	target   item.Path
	source   string
	from     lookup
	named    bool   // names of the item stand in source
	asset    bool   // {asset_key} among them
	kind     string // "" and any: as it is
	clock    convert.Clock
	decimal  string
	required bool
	fallback string // JSON text, "" for none

	hit      atomic.Bool // there was a value once
	mu       sync.Mutex
	compiled map[string]lookup // of sources with names
}

// maxCompiled bounds the expressions kept per mapping.
const maxCompiled = 1000

var names = regexp.MustCompile(`\{(?:item_id|collection_id|asset_key)\}`)

func newMapping(target, source, kind string, clock convert.Clock, decimal string) (*mapping, error) {
	path, err := item.ParsePath(target)
	if err != nil {
		return nil, err
	}
	m := &mapping{target: path, source: source, kind: kind, clock: clock, decimal: decimal}
	if kind == "" {
		m.kind = kindOf(path)
	}
	if clock.Format != "" && m.kind != "datetime" {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "format has no meaning for the type " + kind, Hint: "write type: datetime"}
	}
	if err := convert.CheckFormat(clock.Format); err != nil {
		return nil, err
	}
	if m.named = names.MatchString(source); !m.named {
		m.from = lookFor(source)
		return m, nil
	}
	m.asset = strings.Contains(source, "{asset_key}")
	if m.asset && (len(path) < 2 || path[0].Key != "assets") {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "{asset_key} stands for nothing", Hint: "it has a meaning in targets that begin with assets.*"}
	}
	m.compiled = map[string]lookup{}
	return m, nil
}

// kindOf is the type of a target that STAC knows.
func kindOf(target item.Path) string {
	switch target.String() {
	case "id", "collection":
		return "string"
	case "geometry", "bbox", "datetime":
		return target.String()
	case "properties.datetime", "properties.start_datetime", "properties.end_datetime", "properties.created", "properties.updated", "start_datetime", "end_datetime":
		return "datetime"
	}
	return ""
}

// value is a row's value for the target, nil for none. it is the item with the names, nil for none.
func (m *mapping) value(row, it *item.Value, asset string) (*item.Value, error) {
	from := m.from
	if m.named {
		from = m.lookupFor(it, asset)
	}
	v, err := from.in(row)
	if err != nil {
		return nil, m.wrong(err)
	}
	if v.IsNull() {
		if m.fallback == "" {
			if m.required {
				return nil, m.wrong(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "there is no value"})
			}
			return nil, nil
		}
		if v, err = item.Parse([]byte(m.fallback)); err != nil {
			return nil, m.wrong(err)
		}
	} else if !m.hit.Load() {
		m.hit.Store(true)
	}
	if v, err = m.convert(v); err != nil {
		return nil, m.wrong(err)
	}
	return v, nil
}

func (m *mapping) wrong(err error) error {
	message := m.target.String()
	if m.source != message {
		message += " (from " + m.source + ")"
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: message, Hint: stepwell.HintOf(err), Err: err}
}

func (m *mapping) convert(v *item.Value) (*item.Value, error) {
	switch m.kind {
	case "string":
		return convert.Text(v)
	case "int", "integer":
		return convert.Integer(v, m.decimal)
	case "float", "number":
		return convert.Number(v, m.decimal)
	case "bool", "boolean":
		return convert.Boolean(v)
	case "datetime":
		return m.clock.DateTime(v)
	case "geometry":
		return convert.Geometry(v)
	case "bbox":
		return convert.BBox(v)
	}
	return v.Clone(), nil
}

// lookupFor is the source with the item's names in it.
func (m *mapping) lookupFor(it *item.Value, asset string) lookup {
	id, _ := it.Get("id").Str()
	collection, _ := it.Get("collection").Str()
	text := strings.NewReplacer("{item_id}", id, "{collection_id}", collection, "{asset_key}", asset).Replace(m.source)
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.compiled[text]
	if !ok {
		if len(m.compiled) >= maxCompiled {
			clear(m.compiled)
		}
		l = lookFor(text)
		m.compiled[text] = l
	}
	return l
}

// reason is why there may never have been a value.
func (m *mapping) reason() string {
	if m.from.err != nil {
		return "no column of that name, and no JMESPath expression: " + m.from.err.Error()
	}
	return "always null or not there"
}

func (c *config) unused() []*mapping {
	var out []*mapping
	for _, m := range c.mappings {
		if !m.hit.Load() {
			out = append(out, m)
		}
	}
	return out
}

// lookup finds a value in a row: by the name of a member, else by a path, else by JMESPath.
type lookup struct {
	key  string
	path item.Path
	expr jmespath.JMESPath
	err  error // the key is no expression: it can only be a name
}

func lookFor(source string) lookup {
	l := lookup{key: source}
	if plain.MatchString(source) {
		if path, err := item.ParsePath(source); err == nil {
			l.path = path
			return l
		}
	}
	l.expr, l.err = compile(source)
	return l
}

// in is nil when there is nothing.
func (l *lookup) in(row *item.Value) (*item.Value, error) {
	if v := row.Get(l.key); v != nil {
		return v, nil
	}
	switch {
	case len(l.path) == 1: // the key again
		return nil, nil
	case l.path != nil:
		return row.Find(l.path), nil
	case l.expr == nil:
		return nil, nil
	}
	return search(l.expr, row)
}
