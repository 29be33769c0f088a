package schema

import (
	"regexp"
	"slices"
	"strings"
)

// Extension is a published STAC extension (stac-and-media §3).
type Extension struct {
	Name   string // "eo"
	Prefix string // of its fields, without the colon
	URI    string // of the schema of the latest version known here
	Assets bool   // its fields stand in assets rather than in properties
}

const published = "https://stac-extensions.github.io/"

// known are the extensions of stac-and-media §3 and of the real data.
var known = []Extension{
	ext("eo", "eo", "v2.0.0", false), ext("projection", "proj", "v2.0.0", false), ext("sar", "sar", "v1.3.0", false),
	ext("view", "view", "v1.1.0", false), ext("raster", "raster", "v2.0.0", true), ext("file", "file", "v2.1.0", true),
	ext("scientific", "sci", "v1.0.0", false), ext("processing", "processing", "v1.2.0", false),
	ext("alternate-assets", "alternate", "v1.2.0", true), ext("xarray-assets", "xarray", "v1.0.0", true),
	ext("sat", "sat", "v1.2.0", false), ext("grid", "grid", "v1.1.0", false), ext("mgrs", "mgrs", "v1.0.0", false),
	ext("classification", "classification", "v2.0.0", true), ext("storage", "storage", "v2.0.0", false),
	ext("sentinel-2", "s2", "v1.0.0", false), ext("landsat", "landsat", "v2.0.0", false), ext("datacube", "cube", "v2.3.0", false),
	ext("table", "table", "v1.2.0", false), ext("label", "label", "v1.0.1", false), ext("pointcloud", "pc", "v1.0.0", false),
	{Name: "dgeo", Prefix: "dgeo", URI: "https://raw.githubusercontent.com/DecentralizedGeo/dgeo-asset/refs/heads/pgstac-variant/json-schema/schema.json"},
}

func ext(name, prefix, version string, assets bool) Extension {
	return Extension{Name: name, Prefix: prefix, URI: published + name + "/" + version + "/schema.json", Assets: assets}
}

// Extensions lists the known extensions.
func Extensions() []Extension { return slices.Clone(known) }

// Named finds a known extension by its name, its prefix, or a name with a version ("eo/v1.1.0").
func Named(name string) (Extension, bool) {
	name, version, versioned := strings.Cut(name, "/")
	for _, e := range known {
		if e.Name != name && e.Prefix != name {
			continue
		}
		if versioned {
			if !strings.HasPrefix(e.URI, published) {
				return Extension{}, false
			}
			e.URI = published + e.Name + "/v" + strings.TrimPrefix(version, "v") + "/schema.json"
		}
		return e, true
	}
	return Extension{}, false
}

// Describing is the known extension that a schema's URI, or an old short name, is of.
func Describing(uri string) (Extension, bool) {
	family, _ := Version(uri)
	for _, e := range known {
		if own, _ := Version(e.URI); own == family || e.Name == uri || e.Prefix == uri {
			return e, true
		}
	}
	return Extension{}, false
}

var versionPart = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-.][0-9A-Za-z.-]+)?$`)

// Version splits a schema's URI into the part shared by all versions, and the version without a v; "" when the URI has
// none.
func Version(uri string) (family, version string) {
	parts := strings.Split(Normal(uri), "/")
	for i, part := range parts {
		if i > 2 && versionPart.MatchString(part) {
			version = strings.TrimPrefix(part, "v")
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/"), version
}
