package schema

import (
	"encoding/json"
	"math/big"
	"slices"
)

// common is common metadata, of any object (STAC, commons).
func (c *core) common(at string, obj map[string]any) {
	c.texts(at, obj, "title", "description", "platform", "constellation", "mission")
	c.listOfTexts(at, obj, "instruments")
	c.licence(at, obj)
	if v, ok := obj["gsd"]; ok {
		if n, ok := c.number(at+"/gsd", v); ok && n.Sign() <= 0 {
			c.add(at+"/gsd", "exclusiveMinimum", "is not above 0")
		}
	}
	c.times(at, obj)
	c.each(at, obj, "providers", func(at string, provider map[string]any) {
		c.provider(at, provider)
		c.filled(at, provider, "name")
	})
	if c.v11 {
		c.common11(at, obj)
	}
}

func (c *core) licence(at string, obj map[string]any) {
	c.texts(at, obj, "license")
	if v, ok := obj["license"].(string); ok && !license.MatchString(v) {
		c.add(at+"/license", "pattern", "is not an SPDX identifier")
	}
}

func (c *core) times(at string, obj map[string]any) {
	for _, name := range []string{"datetime", "start_datetime", "end_datetime", "created", "updated"} {
		if v, ok := obj[name]; ok && (v != nil || name != "datetime") {
			c.time(at+"/"+name, v)
		}
	}
	_, begins := obj["start_datetime"]
	_, ends := obj["end_datetime"]
	if begins != ends {
		c.required(at, obj, "start_datetime", "end_datetime")
	}
}

func (c *core) provider(where string, obj map[string]any) {
	c.required(where, obj, "name")
	c.texts(where, obj, "name", "description", "url")
	c.reference(where+"/url", obj["url"], true)
	c.listOfTexts(where, obj, "roles")
	roles, _ := obj["roles"].([]any)
	for i, role := range roles {
		if text, ok := role.(string); ok && !slices.Contains([]string{"producer", "licensor", "processor", "host"}, text) {
			c.add(at(where+"/roles", i), "enum", "is neither producer, licensor, processor nor host")
		}
	}
}

var dataTypes = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
	"cint16", "cint32", "cfloat32", "cfloat64", "other"}

// common11 is the additions of STAC 1.1.0.
func (c *core) common11(at string, obj map[string]any) {
	c.filled(at, obj, "description")
	c.listOfTexts(at, obj, "keywords")
	c.listOfTexts(at, obj, "roles")
	c.texts(at, obj, "unit")
	if v, ok := obj["data_type"]; ok {
		if text, ok := v.(string); !ok || !slices.Contains(dataTypes, text) {
			c.add(at+"/data_type", "enum", "is not a data type")
		}
	}
	if v, ok := obj["nodata"]; ok {
		_, number := v.(json.Number)
		if !number && v != "nan" && v != "inf" && v != "-inf" {
			c.add(at+"/nodata", "oneOf", "is neither a number, nan, inf nor -inf")
		}
	}
	if stats := c.object(at, obj, "statistics"); stats != nil {
		c.statistics(at+"/statistics", stats)
	}
	c.each(at, obj, "bands", func(at string, band map[string]any) {
		c.texts(at, band, "name")
		c.common(at, band)
	})
}

func (c *core) statistics(at string, obj map[string]any) {
	if len(obj) == 0 {
		c.add(at, "minProperties", "is empty")
	}
	for _, name := range []string{"minimum", "maximum", "mean", "stddev", "count", "valid_percent"} {
		v, ok := obj[name]
		if !ok {
			continue
		}
		n, ok := c.number(at+"/"+name, v)
		switch {
		case !ok:
		case name == "count" && !n.IsInt():
			c.add(at+"/"+name, "type", "is not a whole number")
		case (name == "count" || name == "valid_percent") && n.Sign() < 0:
			c.add(at+"/"+name, "minimum", "is below 0")
		case name == "valid_percent" && n.Cmp(big.NewRat(100, 1)) > 0:
			c.add(at+"/"+name, "maximum", "is above 100")
		}
	}
}

// number is a JSON number, exactly.
func (c *core) number(at string, v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok {
		c.add(at, "type", "is not a number")
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}
