package schema

import (
	"slices"
)

// BuiltIn stands for the schema in the problems that Core reports.
const BuiltIn = "built-in rules"

// HasCore reports whether Core knows the rules of a STAC version: 1.0.0 and 1.1.0.
func HasCore(version string) bool { return version == "1.0.0" || version == "1.1.0" }

// Core checks a value made by Decode against the rules of the STAC specification that its `stac_version`
// names, without a schema (STAC 1.0.0 and 1.1.0: Item, Collection, Catalog and common metadata). It is for
// where the core schema cannot be had, and agrees with it; problems are as those of Validate. Extensions
// are not looked at.
func Core(doc any) []Problem {
	obj, ok := doc.(map[string]any)
	if !ok {
		return []Problem{{Schema: BuiltIn, Keyword: "type", Message: "is not an object"}}
	}
	version, _ := obj["stac_version"].(string)
	c := &core{v11: version == "1.1.0"}
	if !HasCore(version) {
		c.add("/stac_version", "const", "is neither 1.0.0 nor 1.1.0")
	}
	switch kind := obj["type"]; kind {
	case string(Item):
		c.item(obj)
	case string(Collection):
		c.collection(obj)
	case string(Catalog):
		c.required("", obj, "id", "description", "links")
		c.texts("", obj, "title")
		c.described("", obj)
		if c.v11 {
			c.common("", obj)
		}
	default:
		c.add("/type", "enum", "is neither Feature, Collection nor Catalog")
	}
	c.extensions(obj)
	c.each("", obj, "links", c.link)
	return Sorted(c.problems)
}

// core collects problems. Its methods take the pointer to the object that they look at; a member that is
// absent is the business of required alone.
type core struct {
	v11      bool
	problems []Problem
}

func (c *core) add(pointer, keyword, what string) {
	if len(c.problems) < 16*MaxProblems {
		c.problems = append(c.problems, Problem{Schema: BuiltIn, Pointer: pointer, Keyword: keyword, Message: clip(what)})
	}
}

func (c *core) required(at string, obj map[string]any, names ...string) {
	for _, name := range names {
		if _, ok := obj[name]; !ok {
			c.add(at, "required", "missing '"+name+"'")
		}
	}
}

func (c *core) texts(at string, obj map[string]any, names ...string) {
	for _, name := range names {
		if v, ok := obj[name]; ok {
			if _, ok := v.(string); !ok {
				c.add(at+"/"+name, "type", "is not a text")
			}
		}
	}
}

// filled are texts that must not be empty.
func (c *core) filled(at string, obj map[string]any, names ...string) {
	c.texts(at, obj, names...)
	for _, name := range names {
		if obj[name] == "" {
			c.add(at+"/"+name, "minLength", "is empty")
		}
	}
}

// object is a member that must be one.
func (c *core) object(at string, obj map[string]any, name string) map[string]any {
	v, there := obj[name]
	inner, ok := v.(map[string]any)
	if there && !ok {
		c.add(at+"/"+name, "type", "is not an object")
	}
	return inner
}

// each looks at the objects in a list.
func (c *core) each(where string, obj map[string]any, name string, look func(string, map[string]any)) {
	for i, v := range c.list(where, obj, name) {
		inner, ok := v.(map[string]any)
		if !ok {
			c.add(at(where+"/"+name, i), "type", "is not an object")
			continue
		}
		look(at(where+"/"+name, i), inner)
	}
}

func (c *core) list(at string, obj map[string]any, name string) []any {
	v, there := obj[name]
	list, ok := v.([]any)
	if there && !ok {
		c.add(at+"/"+name, "type", "is not a list")
	}
	return list
}

func (c *core) listOfTexts(where string, obj map[string]any, name string) {
	for i, v := range c.list(where, obj, name) {
		if _, ok := v.(string); !ok {
			c.add(at(where+"/"+name, i), "type", "is not a text")
		}
	}
}

func (c *core) extensions(obj map[string]any) {
	c.listOfTexts("", obj, "stac_extensions")
	list, _ := obj["stac_extensions"].([]any)
	for i, v := range list {
		where := at("/stac_extensions", i)
		c.reference(where, v, true)
		if text, ok := v.(string); ok && slices.Contains(list[:i], any(text)) {
			c.add(where, "uniqueItems", "is there twice")
		}
	}
}
