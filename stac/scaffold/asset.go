package scaffold

import (
	"path"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

// mediaTypes are those of the STAC best practices, by suffix.
var mediaTypes = map[string]string{
	".tif": "image/tiff; application=geotiff", ".tiff": "image/tiff; application=geotiff", ".jp2": "image/jp2", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".webp": "image/webp", ".json": "application/json", ".geojson": "application/geo+json", ".xml": "application/xml", ".txt": "text/plain", ".csv": "text/csv", ".html": "text/html",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".gpkg": "application/geopackage+sqlite3", ".shp": "application/vnd.shp", ".kml": "application/vnd.google-earth.kml+xml",
	".nc": "application/netcdf", ".h5": "application/x-hdf5", ".hdf5": "application/x-hdf5", ".hdf": "application/x-hdf", ".zarr": "application/vnd.zarr", ".parquet": "application/vnd.apache.parquet",
	".las": "application/vnd.las", ".laz": "application/vnd.laszip", ".fgb": "application/vnd.flatgeobuf", ".pmtiles": "application/vnd.pmtiles", ".mp4": "video/mp4", ".tar": "application/x-tar",
}

// assets gives assets their types and roles, and leaves those without an href out.
func (d *draft) assets() error {
	out := item.NewObject()
	assets := d.out.Get("assets")
	if !assets.IsNull() && assets.Kind() != item.Object {
		return stream.At("assets", stepwell.Invalid("map columns to assets.<key>.href, or write from_items(files[].[key, {href: url}])", "assets are %s, not an object", assets.Kind().String()))
	}
	for key, asset := range assets.Members() {
		if asset.Kind() != item.Object {
			return stream.At("assets", stepwell.Invalid("map its URL to assets."+key+".href", "the asset %s is %s, not an object", key, asset.Kind().String()))
		}
		href := textOf(asset.Get("href"))
		if href == "" {
			continue
		}
		asset = asset.Clone()
		asset.Set("href", item.OfText(href))
		suffix := suffixOf(href)
		if asset.Get("type").IsNull() {
			asset.Delete("type")
			if media := mediaTypes[suffix]; media != "" {
				asset.Set("type", item.OfText(media))
			}
		}
		if roles := asset.Get("roles"); roles.IsNull() {
			asset.Delete("roles")
			if role := roleOf(strings.ToLower(key), textOf(asset.Get("type"))); role != "" {
				asset.Set("roles", item.NewList(item.OfText(role)))
			}
		}
		out.Set(key, asset)
	}
	d.out.Set("assets", out)
	return nil
}

// suffixOf is the suffix of a URL's or file's name, in small letters.
func suffixOf(href string) string {
	href, _, _ = strings.Cut(href, "?")
	href, _, _ = strings.Cut(href, "#")
	return strings.ToLower(path.Ext(strings.TrimSuffix(href, "/")))
}

// roleOf is the role of an asset, "" when it is unclear.
func roleOf(key, media string) string {
	switch {
	case strings.Contains(key, "thumb"):
		return "thumbnail"
	case strings.Contains(key, "overview") || strings.Contains(key, "preview"):
		return "overview"
	case strings.Contains(key, "metadata") || strings.HasPrefix(media, "application/xml") || media == "text/plain" || media == "application/json" || media == "text/html":
		return "metadata"
	case strings.HasPrefix(media, "image/tiff"), media == "image/jp2", strings.Contains(media, "netcdf"), strings.Contains(media, "hdf"), strings.Contains(media, "zarr"),
		strings.Contains(media, "parquet"), strings.Contains(media, "las"), strings.Contains(media, "geopackage"), media == "application/geo+json", media == "text/csv":
		return "data"
	}
	return ""
}
