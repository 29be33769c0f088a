package scaffold

import (
	"strings"

	"github.com/stepwell/stepwell/item"
)

const extensions = "https://stac-extensions.github.io/"

// extension is an extension whose fields are recognised by their prefix. The versions are those that go with the fields
// of STAC 1.0.0 and 1.1.0.
type extension struct{ name, first, second string }

var byPrefix = map[string]extension{
	"eo": {"eo", "v1.1.0", "v2.0.0"}, "proj": {"projection", "v1.1.0", "v2.0.0"}, "raster": {"raster", "v1.1.0", "v2.0.0"}, "view": {"view", "v1.0.0", "v1.0.0"},
	"file": {"file", "v2.1.0", "v2.1.0"}, "sar": {"sar", "v1.0.0", "v1.0.0"}, "sat": {"sat", "v1.0.0", "v1.0.0"}, "sci": {"scientific", "v1.0.0", "v1.0.0"},
	"processing": {"processing", "v1.1.0", "v1.2.0"}, "grid": {"grid", "v1.1.0", "v1.1.0"}, "mgrs": {"mgrs", "v1.0.0", "v1.0.0"}, "s2": {"sentinel-2", "v1.0.0", "v1.0.0"},
}

// listed is the version of an extension that the item or the config names, "" for none.
func (d *draft) listed(name string) string {
	var uris []string
	for _, uri := range d.out.Get("stac_extensions").Elements() {
		uris = append(uris, textOf(uri))
	}
	for _, uri := range append(uris, d.Extensions...) {
		rest, ok := strings.CutPrefix(uri, extensions+name+"/")
		if version, _, _ := strings.Cut(rest, "/"); ok && version != "" {
			return version
		}
	}
	return ""
}

// each calls f for the properties and for every asset.
func (d *draft) each(f func(fields *item.Value)) {
	f(d.out.Get("properties"))
	for _, asset := range d.out.Get("assets").Members() {
		f(asset)
	}
}

// projection writes the code of the reference system as the version of the extension has it.
func (d *draft) projection() {
	version := d.listed("projection")
	second := strings.HasPrefix(version, "v2") || version == "" && d.Version == "1.1.0"
	d.each(func(fields *item.Value) {
		epsg, code := fields.Get("proj:epsg"), fields.Get("proj:code")
		switch {
		case second && epsg != nil:
			if code == nil {
				text := textOf(epsg)
				code := &item.Value{}
				if text != "" {
					code = item.OfText("EPSG:" + strings.TrimPrefix(text, "EPSG:"))
				}
				fields.Set("proj:code", code)
			}
			fields.Delete("proj:epsg")
		case !second && code != nil:
			number, isEPSG := strings.CutPrefix(textOf(code), "EPSG:")
			if v, err := item.Parse([]byte(number)); isEPSG && epsg == nil && err == nil && v.Kind() == item.Number {
				fields.Set("proj:epsg", v)
				fields.Delete("proj:code")
			}
		}
	})
}

// uris lists the extensions: those there, those asked for, and those whose fields are used.
func (d *draft) uris() {
	list, have := item.NewList(), map[string]bool{}
	add := func(uri string) {
		if uri != "" && !have[uri] {
			have[uri] = true
			list.Append(item.OfText(uri))
		}
	}
	for _, uri := range d.out.Get("stac_extensions").Elements() {
		add(textOf(uri))
	}
	for _, uri := range d.Extensions {
		add(uri)
	}
	d.each(func(fields *item.Value) {
		for key, val := range fields.Members() {
			prefix, field, ok := strings.Cut(key, ":")
			known := byPrefix[prefix]
			if !ok || val.Kind() == item.Null || known.name == "" || named(have, known.name) {
				continue
			}
			version := known.first
			if d.Version == "1.1.0" && field != "bands" { // eo:bands and raster:bands are of the first
				version = known.second
			}
			add(extensions + known.name + "/" + version + "/schema.json")
		}
	})
	d.out.Set("stac_extensions", list)
}

// named reports whether some version of an extension is there.
func named(have map[string]bool, name string) bool {
	for uri := range have {
		if strings.HasPrefix(uri, extensions+name+"/") {
			return true
		}
	}
	return false
}
