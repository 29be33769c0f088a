package update

import (
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

const target = "1.1.0"

const extensions = "https://stac-extensions.github.io/"

// successors are the extensions whose fields 1.1 has changed, with the prefix of their fields and their
// version for it.
var successors = map[string]struct{ prefix, version string }{"eo": {"eo:", "v2.0.0"}, "raster": {"raster:", "v2.0.0"}, "projection": {"proj:", "v2.0.0"}}

// migrate brings an item of STAC 1.0.0 to 1.1.0 (stac-spec, CHANGELOG of 1.1.0). It reports whether there
// was anything to do.
func migrate(v *item.Value) (bool, error) {
	switch version, _ := v.Get("stac_version").Str(); {
	case version == target:
		return false, nil
	case version == "":
		return false, stepwell.Invalid("set it with updates before: stac_version: 1.0.0", "the item has no stac_version")
	case !strings.HasPrefix(version, "1.0.") || strings.Contains(version, "beta"):
		return false, stepwell.Invalid("only 1.0.0 can", "an item of STAC %s cannot be migrated to %s", version, target)
	}
	v.Set("stac_version", item.OfText(target))
	migrateFields(v.Get("properties"))
	for _, asset := range v.Get("assets").Members() {
		migrateFields(asset)
	}
	if properties := v.Get("properties"); properties != nil {
		switch license, _ := properties.Get("license").Str(); license {
		case "proprietary", "various":
			properties.Set("license", item.OfText("other"))
		}
	}
	migrateExtensions(v)
	return true, nil
}

// migrateExtensions names the new versions. An extension of which all fields have become common metadata is
// not used any more, and its new schema refuses items that name it all the same.
func migrateExtensions(v *item.Value) {
	old := v.Get("stac_extensions")
	if old.Kind() != item.List {
		return
	}
	list := item.NewList()
	for _, uri := range old.Elements() {
		text, _ := uri.Str()
		rest, ours := strings.CutPrefix(text, extensions)
		name, _, first := strings.Cut(rest, "/v1.")
		next := successors[name]
		switch {
		case !ours || !first || next.version == "":
			list.Append(uri.Clone())
		case uses(v, next.prefix):
			list.Append(item.OfText(extensions + name + "/" + next.version + "/schema.json"))
		}
	}
	v.Set("stac_extensions", list)
}

// uses reports whether the properties, an asset, or a band of one has a field with a prefix.
func uses(v *item.Value, prefix string) bool {
	if has(v.Get("properties"), prefix) {
		return true
	}
	for _, asset := range v.Get("assets").Members() {
		if has(asset, prefix) {
			return true
		}
	}
	return false
}

func has(fields *item.Value, prefix string) bool {
	for key := range fields.Members() {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	for _, band := range fields.Get("bands").Elements() {
		for key := range band.Members() {
			if strings.HasPrefix(key, prefix) {
				return true
			}
		}
	}
	return false
}

// migrateFields changes the fields of properties or of an asset.
func migrateFields(v *item.Value) {
	if epsg := v.Get("proj:epsg"); epsg != nil {
		code := item.OfText("EPSG:" + string(epsg.Bytes()))
		if epsg.Kind() != item.Number {
			code = epsg.Clone() // null: the system has no code
		}
		if v.Get("proj:code") == nil {
			v.Set("proj:code", code)
		}
		v.Delete("proj:epsg")
	}
	eo, raster := v.Get("eo:bands"), v.Get("raster:bands")
	if eo == nil && raster == nil {
		return
	}
	bands := item.NewList()
	for i := range max(eo.Len(), raster.Len()) {
		band := item.NewObject()
		copyBand(band, eo.At(i), eoFields, "eo:")
		copyBand(band, raster.At(i), rasterFields, "raster:")
		if mine := v.Get("bands").At(i); mine != nil {
			band.Merge(mine)
		}
		bands.Append(band)
	}
	v.Delete("eo:bands")
	v.Delete("raster:bands")
	if bands.Len() > 0 {
		v.Set("bands", bands)
	}
}

// Fields of a band that get a prefix. The others are common metadata now, or have one already.
var (
	eoFields     = map[string]bool{"common_name": true, "center_wavelength": true, "full_width_half_max": true, "solar_illumination": true}
	rasterFields = map[string]bool{"sampling": true, "bits_per_sample": true, "spatial_resolution": true, "scale": true, "offset": true, "histogram": true}
)

// copyBand gives a band the fields of an old one; existing fields stay.
func copyBand(band, old *item.Value, prefixed map[string]bool, prefix string) {
	for key, val := range old.Members() {
		if prefixed[key] {
			key = prefix + key
		}
		if band.Get(key) == nil {
			band.Set(key, val.Clone())
		}
	}
}
