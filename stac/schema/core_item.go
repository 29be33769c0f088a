package schema

import (
	"encoding/json"
	"strconv"
)

func (c *core) item(obj map[string]any) {
	c.required("", obj, "id", "geometry", "properties", "links", "assets")
	c.filled("", obj, "id")
	c.place(obj)
	c.assets(obj)
	if props := c.object("", obj, "properties"); props != nil {
		c.common("/properties", props)
		c.required("/properties", props, "datetime")
		if v, ok := props["datetime"]; ok && v == nil {
			c.required("/properties", props, "start_datetime", "end_datetime")
		}
	}
	c.inCollection(obj)
	if c.v11 {
		c.bandsOnce(obj)
	}
}

// place is geometry and bbox: one iff the other (Item specification, bbox).
func (c *core) place(obj map[string]any) {
	geometry, there := obj["geometry"]
	box, boxed := obj["bbox"]
	switch {
	case there && geometry == nil && boxed:
		c.add("/bbox", "not", "is not allowed without a geometry")
	case there && geometry != nil:
		c.required("", obj, "bbox")
		c.geometry("/geometry", geometry)
	}
	if boxed {
		c.box("/bbox", box)
	}
}

func (c *core) box(where string, v any) {
	list, ok := v.([]any)
	if !ok || len(list) != 4 && len(list) != 6 {
		c.add(where, "items", "is not a list of 4 or 6 numbers")
	}
	for i, v := range list {
		if _, ok := v.(json.Number); !ok {
			c.add(at(where, i), "type", "is not a number")
		}
	}
}

// Nesting of the coordinates, and the fewest elements on each level from the outside (RFC 7946 §3.1).
var geometries = map[string][]int{"Point": {2}, "LineString": {2, 2}, "Polygon": {0, 4, 2}, "MultiPoint": {0, 2},
	"MultiLineString": {0, 2, 2}, "MultiPolygon": {0, 0, 4, 2}}

func (c *core) geometry(where string, v any) {
	obj, ok := v.(map[string]any)
	kind, _ := obj["type"].(string)
	fewest, known := geometries[kind]
	switch {
	case !ok:
		c.add(where, "type", "is not an object")
		return
	case kind == "GeometryCollection":
		c.add(where+"/type", "enum", "is a GeometryCollection, which items cannot have")
		return
	case !known:
		c.add(where+"/type", "enum", "is not a type of geometry")
		return
	}
	c.required(where, obj, "coordinates")
	if v, ok := obj["coordinates"]; ok {
		c.coordinates(where+"/coordinates", v, fewest)
	}
	if v, ok := obj["bbox"]; ok {
		c.coordinates(where+"/bbox", v, []int{4})
	}
}

func (c *core) coordinates(where string, v any, fewest []int) {
	if len(fewest) == 0 {
		if _, ok := v.(json.Number); !ok {
			c.add(where, "type", "is not a number")
		}
		return
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		c.add(where, "type", "is not a list")
	case len(list) < fewest[0]:
		c.add(where, "minItems", "has fewer than "+strconv.Itoa(fewest[0])+" elements")
	}
	for i, v := range list {
		c.coordinates(at(where, i), v, fewest[1:])
	}
}

// inCollection: the member `collection` iff a link of that relation.
func (c *core) inCollection(obj map[string]any) {
	linked := false
	links, isList := obj["links"].([]any)
	for _, v := range links {
		link, _ := v.(map[string]any)
		linked = linked || link["rel"] == "collection"
		if _, isObject := v.(map[string]any); !isObject {
			linked = true // as the schema sees it: invalid anyway
		}
	}
	_, there := obj["collection"]
	switch {
	case !isList:
	case linked:
		c.required("", obj, "collection")
		c.filled("", obj, "collection")
	case there:
		c.add("/collection", "not", "is not allowed without a link of the relation collection")
	}
}

// bandsOnce: bands in properties only if no asset has any (STAC 1.1.0).
func (c *core) bandsOnce(obj map[string]any) {
	props, _ := obj["properties"].(map[string]any)
	assets, _ := obj["assets"].(map[string]any)
	if _, ok := props["bands"]; !ok || assets == nil {
		return
	}
	for _, v := range assets {
		if asset, _ := v.(map[string]any); asset["bands"] != nil {
			return
		}
	}
	c.add("/properties/bands", "not", "is not allowed where no asset has bands")
}

func (c *core) assets(obj map[string]any) {
	for key, v := range c.object("", obj, "assets") {
		where := pointer([]string{"assets", key})
		asset, ok := v.(map[string]any)
		if !ok {
			c.add(where, "type", "is not an object")
			continue
		}
		c.required(where, asset, "href")
		c.filled(where, asset, "href")
		c.reference(where+"/href", asset["href"], false)
		c.texts(where, asset, "title", "description", "type")
		c.listOfTexts(where, asset, "roles")
		c.common(where, asset)
	}
}

func (c *core) link(where string, link map[string]any) {
	c.required(where, link, "href", "rel")
	c.filled(where, link, "href", "rel")
	c.reference(where+"/href", link["href"], c.v11 && link["rel"] == "self")
	c.texts(where, link, "type", "title")
	if !c.v11 {
		return
	}
	c.texts(where, link, "method")
	if method, ok := link["method"].(string); ok && !upper.MatchString(method) {
		c.add(where+"/method", "pattern", "is not a method in capital letters")
	}
	for name, v := range c.object(where, link, "headers") {
		if _, ok := v.(string); !ok {
			c.listOfTexts(where+"/headers", map[string]any{name: v}, name)
		}
	}
	c.common(where, link)
}

// reference is a URL; a relative one unless it must be absolute.
func (c *core) reference(where string, v any, absolute bool) {
	if text, ok := v.(string); ok {
		if err := checkReference(text, absolute); err != nil {
			c.add(where, "format", err.Error())
		}
	}
}
