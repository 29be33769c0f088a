package transform

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jmespath-community/go-jmespath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream/files"
)

// settings are a config, read.
type settings struct {
	files    []string
	filesKey string // what they were called
	joinOnly bool   // the files cannot be a source
	shape    files.Shape
	rowsAt   jmespath.JMESPath // nil: shape.At does
	zone     *time.Location
	most     int64

	mappings   []*mapping
	schemaFile string

	joinKey        lookup
	keyGiven       bool // else the names in an object keyed by id are the keys
	itemKey        item.Path
	strategy       string
	strategyChosen string // why, when nobody said
	missing        string
}

// reading collects what is wrong.
type reading struct {
	config    map[string]any
	templates bool // texts may hold templates
	problems  []error
}

func (r *reading) fail(where, what, hint string) {
	r.add(where, &stepwell.Error{Code: stepwell.CodeInvalid, Message: what, Hint: hint})
}

func (r *reading) add(where string, err error) {
	if err != nil {
		r.problems = append(r.problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: where, Hint: stepwell.HintOf(err), Err: err})
	}
}

// text is a field's text; of one with a template in it there is nothing to say yet.
func (r *reading) text(name string) string {
	text, _ := r.config[name].(string)
	if r.templates && strings.Contains(text, "{{") {
		return ""
	}
	return text
}

// plain is the config without texts that hold templates.
func (r *reading) plain() map[string]any {
	out := maps.Clone(r.config)
	for name, v := range out {
		if _, isText := v.(string); isText {
			out[name] = r.text(name)
		}
	}
	return out
}

func (r *reading) given(names ...string) []string {
	var out []string
	for _, name := range names {
		if r.config[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

// exactly reports names of which not one alone is given.
func (r *reading) exactly(names ...string) string {
	switch given := r.given(names...); len(given) {
	case 1:
		return given[0]
	case 0:
		r.fail("config", "one of "+strings.Join(names, ", ")+" is missing", "")
	default:
		r.fail("config", strings.Join(given, " and ")+" say the same", "keep one of them")
	}
	return ""
}

func check(config map[string]any) []error {
	_, problems := parse(config, true)
	return problems
}

func parse(config map[string]any, templates bool) (*settings, []error) {
	r := &reading{config: config, templates: templates}
	s := &settings{missing: r.text("handle_missing"), strategy: r.text("strategy"), schemaFile: r.text("schema_file")}
	s.most, _ = config["max_table_bytes"].(int64)
	r.files(s)
	r.join(s)
	zone, err := time.LoadLocation(r.text("timezone"))
	r.add("timezone", err)
	s.zone = zone
	switch r.exactly("field_mapping", "mappings", "schema", "schema_file") {
	case "field_mapping":
		s.mappings = r.fieldMapping(s)
	case "mappings":
		s.mappings = r.list(s, config["mappings"])
	case "schema":
		schema, _ := config["schema"].(map[string]any)
		if s.mappings = r.list(s, schema["mappings"]); len(s.mappings) == 0 && len(r.problems) == 0 {
			r.fail("schema", "mappings is missing", "")
		}
	}
	return s, r.problems
}

func (r *reading) files(s *settings) {
	s.filesKey = r.exactly("source_file", "source_files", "input_file")
	switch s.filesKey {
	case "source_files":
		list, _ := r.config["source_files"].([]any)
		for _, one := range list {
			if text, ok := one.(string); ok {
				s.files = append(s.files, text)
			}
		}
	case "":
	default:
		s.files = []string{r.text(s.filesKey)}
	}
	s.joinOnly = s.filesKey == "input_file"
	s.shape = files.ShapeOf(r.plain())
	if len(r.given("at", "data_path")) == 2 {
		r.fail("config", "at and data_path say the same", "keep one of them")
	}
	if at := r.text("data_path"); at != "" && plain.MatchString(at) {
		s.shape.At = at
	} else if at != "" {
		var err error
		s.rowsAt, err = compile(at)
		r.add("data_path", err)
	}
	r.add("config", s.shape.Check())
}

func (r *reading) join(s *settings) {
	names := r.given("input_join_key", "input_key")
	key := "id"
	switch len(names) {
	case 1:
		key, s.keyGiven = r.text(names[0]), true
	case 2:
		r.fail("config", "input_join_key and input_key say the same", "keep one of them")
	}
	s.joinKey = lookFor(key)
	var err error
	if key := r.text("item_key"); key != "" {
		s.itemKey, err = item.ParsePath(key)
		r.add("item_key", err)
	} else {
		s.itemKey = item.Path{{Key: "id"}}
	}
	switch {
	case s.strategy == "update":
		s.strategy = "update_existing"
	case s.strategy == "" && s.joinOnly:
		s.strategy, s.strategyChosen = "update_existing", "the default with input_file; write strategy: merge to make what is not there"
	case s.strategy == "":
		s.strategy = "merge"
	}
	if s.missing == "fail" {
		s.missing = "error"
	}
}

func (r *reading) fieldMapping(s *settings) []*mapping {
	fields, _ := r.config["field_mapping"].(map[string]any)
	if len(fields) == 0 {
		r.fail("field_mapping", "is empty", "write a path in the item and a column: properties.eo:cloud_cover: cloud_cover")
	}
	var out []*mapping
	for _, target := range slices.Sorted(maps.Keys(fields)) {
		source, ok := fields[target].(string)
		if !ok {
			r.fail("field_mapping "+target, "must be the name of a column or a JMESPath expression", "quote it; a fixed value is set with stac.update")
			continue
		}
		m, err := newMapping(target, source, "", convert.Clock{Zone: s.zone}, s.shape.Decimal)
		r.add("field_mapping", err)
		out = append(out, m)
	}
	return out
}

// list reads mappings, whose fields have been checked.
func (r *reading) list(s *settings, v any) []*mapping {
	list, _ := v.([]any)
	var out []*mapping
	for _, one := range list {
		fields, _ := one.(map[string]any)
		source, _ := fields["source_field"].(string)
		target, _ := fields["target_field"].(string)
		kind, _ := fields["type"].(string)
		format, _ := fields["format"].(string)
		m, err := newMapping(target, source, kind, convert.Clock{Format: format, Zone: s.zone}, s.shape.Decimal)
		if err != nil {
			r.add("mapping of "+target, err)
			continue
		}
		m.required, _ = fields["required"].(bool)
		if fields["default"] != nil {
			fallback, err := item.Of(fields["default"])
			r.add("default of "+target, err)
			m.fallback = string(fallback.Bytes())
		}
		out = append(out, m)
	}
	return out
}

// plain are the JMESPath expressions that are item paths too, which keeps the digits of numbers.
var plain = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\\]+")(?:\.(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\\]+")|\[\d{1,6}\])*$`)

// readSchema reads the mappings of a file.
func (t *transformer) readSchema(ctx context.Context, path string) ([]*mapping, error) {
	paths, err := t.places.List(ctx, t.env.Dir, path)
	if err != nil {
		return nil, err
	}
	if len(paths) != 1 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "it is not one file"}
	}
	in, _, err := t.places.Open(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	doc, err := convert.ReadDocument(in)
	if err != nil {
		return nil, err
	}
	return t.schemaMappings(doc)
}

// schemaMappings reads {mappings: [...]}, or the list alone.
func (s *settings) schemaMappings(doc *item.Value) ([]*mapping, error) {
	if doc.Kind() == item.List {
		all := item.NewObject()
		all.Set("mappings", doc)
		doc = all
	}
	v, err := doc.Any()
	if err != nil {
		return nil, err
	}
	values, _ := v.(map[string]any)
	field := mappingsField
	field.Required = true
	if problems := spec.Check([]spec.Field{field}, false, values); len(problems) > 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: problems[0].Message, Hint: problems[0].Hint}
	}
	r := &reading{}
	mappings := r.list(s, values["mappings"])
	if len(r.problems) > 0 {
		return nil, r.problems[0]
	}
	return mappings, nil
}
