package schema

import (
	"regexp"
	"strings"
	"time"
)

func (c *core) collection(obj map[string]any) {
	c.required("", obj, "id", "description", "license", "extent", "links")
	c.described("", obj)
	c.listOfTexts("", obj, "keywords")
	if c.v11 {
		c.common("", obj)
	} else { // of common metadata, 1.0.0 has these only
		c.licence("", obj)
		c.each("", obj, "providers", c.provider)
	}
	c.assets(obj)
	extent := c.object("", obj, "extent")
	if extent != nil {
		c.required("/extent", extent, "spatial", "temporal")
	}
	if spatial := c.object("/extent", extent, "spatial"); spatial != nil {
		c.required("/extent/spatial", spatial, "bbox")
		boxes := c.list("/extent/spatial", spatial, "bbox")
		if _, ok := spatial["bbox"].([]any); ok && (len(boxes) == 0 || c.v11 && len(boxes) == 2) {
			c.add("/extent/spatial/bbox", "items", "is not one box, or one of all and two or more of parts")
		}
		for i, box := range boxes {
			c.box(at("/extent/spatial/bbox", i), box)
		}
	}
	if temporal := c.object("/extent", extent, "temporal"); temporal != nil {
		c.required("/extent/temporal", temporal, "interval")
		intervals := c.list("/extent/temporal", temporal, "interval")
		if _, ok := temporal["interval"].([]any); ok && len(intervals) == 0 {
			c.add("/extent/temporal/interval", "minItems", "is empty")
		}
		for i, v := range intervals {
			c.interval(at("/extent/temporal/interval", i), v)
		}
	}
	c.summaries(obj)
	if c.v11 {
		c.itemAssets(obj)
	}
}

func (c *core) interval(where string, v any) {
	list, _ := v.([]any)
	if len(list) != 2 {
		c.add(where, "items", "is not a list of begin and end")
	}
	for i, v := range list {
		if v != nil {
			c.time(at(where, i), v)
		}
	}
}

func (c *core) summaries(obj map[string]any) {
	for name, v := range c.object("", obj, "summaries") {
		list, isList := v.([]any)
		inner, isObject := v.(map[string]any)
		if !isList && !isObject || isList && len(list) == 0 || isObject && len(inner) == 0 {
			c.add(pointer([]string{"summaries", name}), "anyOf", "is neither a list of values, a range nor a JSON Schema")
		}
	}
}

func (c *core) itemAssets(obj map[string]any) {
	all, _ := obj["item_assets"].(map[string]any)
	for key, v := range all {
		where := pointer([]string{"item_assets", key})
		asset, ok := v.(map[string]any)
		if !ok {
			c.add(where, "type", "is not an object")
			continue
		}
		if len(asset) < 2 {
			c.add(where, "minProperties", "has fewer than 2 members")
		}
		if _, ok := asset["href"]; ok {
			c.add(where+"/href", "not", "is not allowed here")
		}
		c.texts(where, asset, "title", "description", "type")
		c.listOfTexts(where, asset, "roles")
		c.common(where, asset)
	}
}

func (c *core) described(at string, obj map[string]any) {
	c.filled(at, obj, "id", "description")
	c.texts(at, obj, "title")
}

var (
	upper   = regexp.MustCompile(`^[A-Z]+$`)
	license = regexp.MustCompile(`^[\w.+-]+$`)
	utc     = regexp.MustCompile(`(\+00:00|Z)$`)
)

func (c *core) time(where string, v any) {
	text, ok := v.(string)
	if !ok {
		c.add(where, "type", "is not a text")
		return
	}
	// RFC 3339 §5.6 allows small letters and leap seconds, which package time does not read.
	plain := strings.ToUpper(text)
	if len(plain) >= 19 && plain[17:19] == "60" {
		plain = plain[:17] + "59" + plain[19:]
	}
	if _, err := time.Parse(time.RFC3339, plain); err != nil || len(plain) > 10 && plain[10] != 'T' {
		c.add(where, "format", "is not a time as of RFC 3339")
	}
	if !utc.MatchString(text) {
		c.add(where, "pattern", "is not in UTC")
	}
}
