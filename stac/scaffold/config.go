package scaffold

import (
	"maps"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
)

// defaults are the members for objects without them. Texts are JSON: Values are not shared between goroutines.
type defaults struct {
	fields    *pattern.Tree // properties of items
	geometry  string        // "" for none
	nowhere   bool          // items may be without a place
	start     string
	end       string
	datetime  string
	described map[string]any // title, description, license, keywords, providers: of collections and catalogues
}

// config is the step's config.
type config struct {
	Mode           string         `json:"mode" enum:"items,item,collection,catalog,template" default:"items" doc:"The kind of output."`
	CollectionID   string         `json:"collection_id" minLength:"1" doc:"The collection of all items; their own when absent."`
	BaseURL        string         `json:"base_url" pattern:"^https?://[^\\s]+$" doc:"Where the root of the catalogue will be published; links are relative when absent."`
	LinkLayout     string         `json:"link_layout" enum:"static,api" default:"static" doc:"Whether links lead to files (<collection>/<item>.json) or to resources (collections/<collection>/items/<item>)."`
	Version        string         `json:"stac_version" enum:"1.0.0,1.1.0" default:"1.1.0" doc:"The STAC version of what is made."`
	Defaults       defaultsConfig `json:"defaults" doc:"Default for items, collections and catalogues that have none."`
	ItemTemplate   map[string]any `json:"item_template" doc:"An item with patterns, over which each incoming item is laid."`
	TemplateFile   string         `json:"template_file" minLength:"1" doc:"A JSON or YAML file with the item_template."`
	IDPattern      string         `json:"id_pattern" minLength:"1" doc:"Template of the id: {properties.product}_{properties.tile}."`
	SanitizeID     bool           `json:"sanitize_id" default:"true" doc:"Replace characters that are awkward in file names and URLs, in an id made by id_pattern."`
	DatetimeFormat string         `json:"datetime_format" minLength:"1" doc:"How times are written, in strftime's letters; ISO 8601 and seconds since 1970 when absent."`
	Timezone       string         `json:"timezone" default:"UTC" doc:"The zone of times that do not name theirs."`
	Extensions     []string       `json:"extensions" pattern:"^https?://[^\\s]+$" doc:"Extensions of every item."`
	CatalogID      string         `json:"catalog_id" minLength:"1" doc:"The id of the catalogue, catalog when absent."`
	OutputPath     string         `json:"output_path" minLength:"1" doc:"The file of the collection or catalogue."`
	Template       struct {
		Type       string `json:"type" required:"true" enum:"catalog,collection,item" doc:"The kind of object in the example."`
		OutputPath string `json:"output_path" required:"true" minLength:"1" doc:"The .json file, or the directory for it."`
		Sample     bool   `json:"include_sample_item" default:"true" doc:"Write an item beside it, and link to it."`
	} `json:"template" doc:"What mode template writes."`

	template *pattern.Tree // of items, nil: none
	id       *pattern.Pattern
	clock    convert.Clock
	defaults defaults
}

// defaultsConfig describes the defaults, which are read as they are written: a null has a meaning in them.
type defaultsConfig struct {
	License   string `json:"license" minLength:"1" doc:"An SPDX license expression, or other."`
	Providers []struct {
		Name        string   `json:"name" required:"true" doc:"The name."`
		Description string   `json:"description" minLength:"1" doc:"Description."`
		URL         string   `json:"url" minLength:"1" doc:"Its home page."`
		Roles       []string `json:"roles" enum:"licensor,producer,processor,host" doc:"The request."`
	} `json:"providers" doc:"Who made and hosts the data."`
	Geometry    any            `json:"geometry" doc:"The geometry of items that have neither geometry nor bbox; null lets them pass without one."`
	Bbox        []any          `json:"bbox" doc:"The bounding box of items that have neither."`
	Datetime    string         `json:"datetime" minLength:"1" doc:"The time of items without one."`
	Start       string         `json:"start_datetime" minLength:"1" doc:"Start time of items that have none."`
	End         string         `json:"end_datetime" minLength:"1" doc:"End time of items that have none."`
	Title       string         `json:"title" minLength:"1" doc:"The title."`
	Description string         `json:"description" minLength:"1" doc:"The description."`
	Keywords    []string       `json:"keywords" doc:"The keywords."`
	Properties  map[string]any `json:"properties" doc:"Properties of items."`
}

// reading collects errors.
type reading struct {
	given stream.Config
	stream.Problems
}

// check checks rules that tags cannot express, and prepares the config.
func (c *config) check(given stream.Config) []error {
	r := &reading{given: given}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	c.Template.Sample = c.Template.Sample && c.Template.Type != "item"
	var err error
	if c.ItemTemplate != nil {
		if c.TemplateFile != "" {
			r.Add("config", stepwell.Invalid("keep one of them", "item_template and template_file say the same"))
		}
		c.template, err = pattern.ParseTree(c.ItemTemplate)
		r.Add("item_template", err)
	}
	if c.IDPattern != "" {
		p, err := pattern.Parse(c.IDPattern)
		r.Add("id_pattern", err)
		c.id = &p
	}
	c.clock.Format = c.DatetimeFormat
	r.Add("datetime_format", convert.CheckFormat(c.clock.Format))
	c.clock.Zone, err = time.LoadLocation(c.Timezone)
	r.Add("timezone", err)
	r.defaults(c)
	r.modes(c)
	return r.Problems
}

// itemKeys have a meaning in mode items only.
var itemKeys = []string{"item_template", "template_file", "id_pattern", "datetime_format", "extensions"}

// modes reports options that do not go together.
func (r *reading) modes(c *config) {
	if r.given.Has("template") != (c.Mode == "template") && c.Mode != "" {
		r.Add("template", stepwell.Invalid("write both, or neither; a template for items is item_template", "template and mode: template go together"))
	}
	switch c.Mode {
	case "", "items", "item":
		if c.OutputPath != "" {
			r.Add("output_path", stepwell.Invalid("write items with stac.output", "has no meaning in mode items"))
		}
		return
	}
	for _, key := range itemKeys {
		if r.given.Has(key) {
			r.Add(key, stepwell.Invalid("write another step of mode items before", "has no meaning in mode %s", c.Mode))
		}
	}
}

func (r *reading) defaults(c *config) {
	given, _ := r.given.Values["defaults"].(map[string]any)
	d := &c.defaults
	d.described = map[string]any{}
	own, _ := given["properties"].(map[string]any)
	properties := maps.Clone(own)
	if properties == nil {
		properties = map[string]any{}
	}
	for _, key := range []string{"title", "description", "license", "keywords", "providers"} {
		if given[key] != nil {
			properties[key], d.described[key] = given[key], given[key]
		}
	}
	var err error
	d.fields, err = pattern.ParseTree(properties)
	r.Add("defaults", err)
	v, isGiven := given["geometry"]
	d.nowhere = isGiven && v == nil
	switch {
	case v != nil && given["bbox"] != nil:
		r.Add("defaults", stepwell.Invalid("keep one: each is made of the other", "geometry and bbox are both given"))
	case v != nil:
		d.geometry = r.geometry("defaults.geometry", v)
	case given["bbox"] != nil:
		d.geometry = r.geometry("defaults.bbox", given["bbox"])
	}
	for key, to := range map[string]*string{"datetime": &d.datetime, "start_datetime": &d.start, "end_datetime": &d.end} {
		if text, ok := given[key].(string); ok && !(r.given.Early && strings.Contains(text, "{{")) {
			v, err := convert.Clock{Zone: c.clock.Zone}.DateTime(item.OfText(text))
			r.Add("defaults."+key, err)
			*to, _ = v.Str()
		}
	}
	if (d.start == "") != (d.end == "") && !r.given.Early {
		r.Add("defaults", stepwell.Invalid("", "start_datetime and end_datetime go together"))
	}
}

func (r *reading) geometry(where string, v any) string {
	if text, ok := v.(string); ok && r.given.Early && strings.Contains(text, "{{") {
		return ""
	}
	given, err := item.Of(v)
	if err == nil {
		given, err = convert.Geometry(given)
	}
	r.Add(where, err)
	return string(given.Bytes())
}
