package scaffold

import (
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/transform/convert"
)

// settings are a config, read.
type settings struct {
	mode, collection, base, layout, version string
	catalog, output                         string
	template                                *template
	templateFile                            string
	id                                      *pattern.Pattern
	sanitize                                bool
	clock                                   convert.Clock
	extensions                              []string
	defaults                                defaults
	boilerplate                             struct {
		kind, path string
		sample     bool
	}
}

// defaults are what is given to those without. Texts are JSON: Values are not shared between goroutines.
type defaults struct {
	fields    *template // properties of items
	geometry  string    // "" for none
	nowhere   bool      // items may be without a place
	start     string
	end       string
	datetime  string
	described map[string]any // title, description, license, keywords, providers: of collections and catalogues
}

func check(config map[string]any) []error {
	_, problems := parse(config, true)
	return problems
}

type reading struct {
	config    map[string]any
	templates bool // texts may hold templates
	problems  []error
}

func (r *reading) add(where string, err error) {
	if err != nil {
		r.problems = append(r.problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: where, Hint: stepwell.HintOf(err), Err: err})
	}
}

func (r *reading) text(name string) string {
	text, _ := r.config[name].(string)
	if r.templates && strings.Contains(text, "{{") {
		return ""
	}
	return text
}

func parse(config map[string]any, templates bool) (*settings, []error) {
	r := &reading{config: config, templates: templates}
	s := &settings{mode: r.text("mode"), collection: r.text("collection_id"), base: strings.TrimSuffix(r.text("base_url"), "/"), layout: r.text("link_layout"),
		version: r.text("stac_version"), catalog: r.text("catalog_id"), output: r.text("output_path"), templateFile: r.text("template_file"), sanitize: config["sanitize_id"] != false}
	var err error
	if config["item_template"] != nil {
		if s.templateFile != "" {
			r.add("config", stepwell.Invalid("keep one of them", "item_template and template_file say the same"))
		}
		doc, err := item.Of(config["item_template"])
		r.add("item_template", err)
		if err == nil {
			s.template, err = parseTemplate(doc)
			r.add("item_template", err)
		}
	}
	if text := r.text("id_pattern"); text != "" {
		p, err := pattern.Parse(text)
		r.add("id_pattern", err)
		s.id = &p
	}
	s.clock.Format = r.text("datetime_format")
	r.add("datetime_format", convert.CheckFormat(s.clock.Format))
	s.clock.Zone, err = time.LoadLocation(r.text("timezone"))
	r.add("timezone", err)
	if list, ok := config["extensions"].([]any); ok {
		for _, one := range list {
			uri, _ := one.(string)
			s.extensions = append(s.extensions, uri)
		}
	}
	r.defaults(s)
	r.modes(s)
	return s, r.problems
}

// itemKeys have a meaning in mode items only.
var itemKeys = []string{"item_template", "template_file", "id_pattern", "datetime_format", "extensions"}

// modes reports what does not go together.
func (r *reading) modes(s *settings) {
	t, given := r.config["template"].(map[string]any)
	if given != (s.mode == "template") && s.mode != "" {
		r.add("template", stepwell.Invalid("write both, or neither; a template for items is item_template", "template and mode: template go together"))
	}
	if given {
		s.boilerplate.kind, _ = t["type"].(string)
		s.boilerplate.path, _ = t["output_path"].(string)
		s.boilerplate.sample = t["include_sample_item"] != false && s.boilerplate.kind != "item"
	}
	switch s.mode {
	case "", "items", "item":
		if s.output != "" {
			r.add("output_path", stepwell.Invalid("write items with stac.output", "has no meaning in mode items"))
		}
		return
	}
	for _, key := range itemKeys {
		if r.config[key] != nil {
			r.add(key, stepwell.Invalid("write another step of mode items before", "has no meaning in mode %s", s.mode))
		}
	}
}

func (r *reading) defaults(s *settings) {
	given, _ := r.config["defaults"].(map[string]any)
	d := &s.defaults
	d.described = map[string]any{}
	properties := map[string]any{}
	if own, ok := given["properties"].(map[string]any); ok {
		for key, v := range own {
			properties[key] = v
		}
	}
	for _, key := range []string{"title", "description", "license", "keywords", "providers"} {
		if given[key] != nil {
			properties[key], d.described[key] = given[key], given[key]
		}
	}
	doc, err := item.Of(properties)
	if err == nil {
		d.fields, err = parseTemplate(doc)
	}
	r.add("defaults", err)
	v, isGiven := given["geometry"]
	d.nowhere = isGiven && v == nil
	switch {
	case v != nil && given["bbox"] != nil:
		r.add("defaults", stepwell.Invalid("keep one: each is made of the other", "geometry and bbox are both given"))
	case v != nil:
		d.geometry = r.geometry("defaults.geometry", v)
	case given["bbox"] != nil:
		d.geometry = r.geometry("defaults.bbox", given["bbox"])
	}
	for key, to := range map[string]*string{"datetime": &d.datetime, "start_datetime": &d.start, "end_datetime": &d.end} {
		if text, ok := given[key].(string); ok && !(r.templates && strings.Contains(text, "{{")) {
			v, err := convert.Clock{Zone: s.clock.Zone}.DateTime(item.OfText(text))
			r.add("defaults."+key, err)
			*to, _ = v.Str()
		}
	}
	if (d.start == "") != (d.end == "") && !r.templates {
		r.add("defaults", stepwell.Invalid("", "start_datetime and end_datetime go together"))
	}
}

func (r *reading) geometry(where string, v any) string {
	if text, ok := v.(string); ok && r.templates && strings.Contains(text, "{{") {
		return ""
	}
	given, err := item.Of(v)
	if err == nil {
		given, err = convert.Geometry(given)
	}
	r.add(where, err)
	return string(given.Bytes())
}
