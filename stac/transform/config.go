package transform

import (
	"cmp"
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
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// config is the step's config.
type config struct {
	SourceFile   string          `json:"source_file" doc:"The table: a file, a glob, a directory, s3:// or https://; the rows are the items when the step has no source before it."`
	SourceFiles  []string        `json:"source_files" minItems:"1" doc:"Several of them, in this order."`
	InputFile    string          `json:"input_file" doc:"The table to join items with; as source_file, but never a source."`
	DataPath     string          `json:"data_path" doc:"Where in a JSON document the list of rows is, as at; or a JMESPath expression, for documents up to max_table_bytes."`
	FieldMapping map[string]any  `json:"field_mapping" doc:"Mapping from the row to the item: path in the item, and column or JMESPath expression."`
	Mappings     []mappingConfig `json:"mappings" minItems:"1" doc:"Mapping from the row to the item, with types."`
	Schema       struct {
		Mappings []mappingConfig `json:"mappings" minItems:"1" doc:"Mapping from the row to the item, with types."`
	} `json:"schema" doc:"The mappings, one level deeper."`
	SchemaFile   string `json:"schema_file" doc:"A JSON or YAML file with the mappings."`
	InputJoinKey string `json:"input_join_key" doc:"The column (or JMESPath expression) whose value is the item's key, id when absent; not needed for an object keyed by id."`
	InputKey     string `json:"input_key" doc:"The same as input_join_key."`
	ItemKey      string `json:"item_key" default:"id" doc:"The path of the item's key."`
	Strategy     string `json:"strategy" enum:"merge,update_existing,update,left" doc:"Whether values go everywhere (merge), only over what is there (update_existing), or only where nothing is (left)."`
	Missing      string `json:"handle_missing" enum:"ignore,warn,error,fail" default:"ignore" doc:"What happens to items without a row."`
	Timezone     string `json:"timezone" default:"UTC" doc:"The zone of times that do not name theirs: Europe/Berlin."`
	MaxTable     int64  `json:"max_table_bytes" minimum:"1" default:"268435456" doc:"How much memory a table to join may take."`
	files.Shape

	files          []string
	filesKey       string            // their original name
	joinOnly       bool              // the files cannot be a source
	rowsAt         jmespath.JMESPath // nil: Shape.At does
	zone           *time.Location
	mappings       []*mapping
	joinKey        lookup
	keyGiven       bool // else the names in an object keyed by id are the keys
	itemKey        item.Path
	strategyChosen string // the reason for the default
}

type mappingConfig struct {
	Source   string `json:"source_field" required:"true" minLength:"1" doc:"A column, or a JMESPath expression on the row."`
	Target   string `json:"target_field" required:"true" minLength:"1" doc:"The path in the item."`
	Type     string `json:"type" enum:"string,int,integer,float,number,bool,boolean,datetime,geometry,bbox,any" doc:"Type to convert the value to."`
	Format   string `json:"format" doc:"How a datetime is written, in strftime's letters: %d.%m.%Y %H:%M."`
	Required bool   `json:"required" doc:"A row without a value fails."`
	Default  any    `json:"default" doc:"The value of rows without one."`
}

// reading collects errors.
type reading struct {
	given stream.Config
	stream.Problems
}

func (r *reading) fail(where, what, hint string) {
	r.Add(where, stepwell.Invalid(hint, "%s", what))
}

// exactly reports names of which not one alone is given.
func (r *reading) exactly(names ...string) string {
	switch given := r.given.Given(names...); len(given) {
	case 1:
		return given[0]
	case 0:
		r.fail("config", "one of "+strings.Join(names, ", ")+" is missing", "")
	default:
		r.fail("config", strings.Join(given, " and ")+" say the same", "keep one of them")
	}
	return ""
}

// check checks rules that tags cannot express, and prepares the config.
func (c *config) check(given stream.Config) []error {
	r := &reading{given: given}
	r.files(c)
	r.join(c)
	var err error
	c.zone, err = time.LoadLocation(c.Timezone)
	r.Add("timezone", err)
	switch r.exactly("field_mapping", "mappings", "schema", "schema_file") {
	case "field_mapping":
		c.mappings = r.fieldMapping(c)
	case "mappings":
		c.mappings = r.list(c, c.Mappings)
	case "schema":
		if c.mappings = r.list(c, c.Schema.Mappings); len(c.Schema.Mappings) == 0 && len(r.Problems) == 0 && !given.Pending() {
			r.fail("schema", "mappings is missing", "")
		}
	}
	return r.Problems
}

func (r *reading) files(c *config) {
	c.filesKey = r.exactly("source_file", "source_files", "input_file")
	c.files = c.SourceFiles
	if one := cmp.Or(c.SourceFile, c.InputFile); one != "" {
		c.files = []string{one}
	}
	c.joinOnly = c.filesKey == "input_file"
	if len(r.given.Given("at", "data_path")) == 2 {
		r.fail("config", "at and data_path say the same", "keep one of them")
	}
	if plain.MatchString(c.DataPath) {
		c.At = c.DataPath
	} else if c.DataPath != "" {
		var err error
		c.rowsAt, err = compile(c.DataPath)
		r.Add("data_path", err)
	}
	r.Add("config", c.Shape.Check())
}

func (r *reading) join(c *config) {
	switch names := r.given.Given("input_join_key", "input_key"); len(names) {
	case 1:
		c.keyGiven = true
	case 2:
		r.fail("config", "input_join_key and input_key say the same", "keep one of them")
	}
	c.joinKey = lookFor(cmp.Or(c.InputJoinKey, c.InputKey, "id"))
	var err error
	c.itemKey, err = item.ParsePath(cmp.Or(c.ItemKey, "id"))
	r.Add("item_key", err)
	switch {
	case c.Strategy == "update":
		c.Strategy = "update_existing"
	case c.Strategy == "" && c.joinOnly:
		c.Strategy, c.strategyChosen = "update_existing", "the default with input_file; write strategy: merge to make what is not there"
	case c.Strategy == "":
		c.Strategy = "merge"
	}
	if c.Missing == "fail" {
		c.Missing = "error"
	}
}

func (r *reading) fieldMapping(c *config) []*mapping {
	fields := c.FieldMapping
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
		m, err := newMapping(target, source, "", convert.Clock{Zone: c.zone}, c.Decimal)
		r.Add("field_mapping", err)
		out = append(out, m)
	}
	return out
}

// list reads mappings; one with a template in it has no source or target yet.
func (r *reading) list(c *config, list []mappingConfig) []*mapping {
	var out []*mapping
	for _, one := range list {
		if r.given.Early && (one.Source == "" || one.Target == "") {
			continue
		}
		m, err := newMapping(one.Target, one.Source, one.Type, convert.Clock{Format: one.Format, Zone: c.zone}, c.Decimal)
		if err != nil {
			r.Add("mapping of "+one.Target, err)
			continue
		}
		m.required = one.Required
		if one.Default != nil {
			fallback, err := item.Of(one.Default)
			r.Add("default of "+one.Target, err)
			m.fallback = string(fallback.Bytes())
		}
		out = append(out, m)
	}
	return out
}

// plain are the JMESPath expressions that are item paths too, which keeps the digits of numbers.
var plain = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\\]+")(?:\.(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\\]+")|\[\d{1,6}\])*$`)

// schemaMappings reads {mappings: [...]}, or the list alone.
func (c *config) schemaMappings(doc *item.Value) ([]*mapping, error) {
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
	if problems := spec.Check(schemaFields, false, values); len(problems) > 0 {
		return nil, stepwell.Invalid(problems[0].Hint, "%s", problems[0].Message)
	}
	var schema schemaFile
	if err := spec.Bind(values, &schema); err != nil {
		return nil, err
	}
	r := &reading{}
	mappings := r.list(c, schema.Mappings)
	if len(r.Problems) > 0 {
		return nil, r.Problems[0]
	}
	return mappings, nil
}

// schemaFile is the content of a schema_file.
type schemaFile struct {
	Mappings []mappingConfig `json:"mappings" required:"true" minItems:"1"`
}

var schemaFields = spec.FieldsOf[schemaFile]()
