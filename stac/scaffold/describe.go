package scaffold

import "github.com/stepwell/stepwell/spec"

const doc = `Makes valid STAC.

**mode items** completes every item that comes: items, parts of items, what stac.transform makes, or plain rows, whose columns are ` + "`properties`" + `.

- ` + "`item_template`" + ` is an item with patterns (` + "`{properties.column}`, `{item_id}`, `{collection_id}`, at assets `{asset_key}`" + `): what the item has itself stands above it. A text whose pattern has no
  value is left out, and so is an asset without an href. Of a plain row, only what the template names is taken; without a template all columns become properties.
- ` + "`id_pattern`" + ` makes the id; characters other than letters, digits, ` + "`-`, `_` and `.`" + ` become ` + "`_`" + `, unless ` + "`sanitize_id`" + ` is false.
- The **geometry** may be GeoJSON, WKT, WKB in hexadecimal or a bounding box. bbox is made of the geometry, or the geometry of the bbox; an item with neither gets ` + "`defaults.geometry` or `defaults.bbox`" + `, or
  fails. ` + "`defaults: {geometry: null}`" + ` lets items without a place pass.
- ` + "`datetime`, `start_datetime` and `end_datetime`" + ` are taken from the item or its properties, by ` + "`datetime_format`" + ` (strftime) if it is given, and become UTC. An item without gets those of
  ` + "`defaults`" + `, or fails.
- **Links** collection, parent, root and self: with ` + "`base_url`" + ` absolute, by ` + "`link_layout`" + ` as files of a static catalogue or as resources of a STAC API; without, relative and no self. Other links stay.
- **Assets** get their media type by the suffix of the href, and roles by it and by their key, where they have none.
- ` + "`stac_extensions`" + ` gets ` + "`extensions`" + `, and the URI of each well-known extension of which the item has fields. ` + "`proj:epsg`" + ` becomes ` + "`proj:code`" + ` where the projection extension is version 2,
  which is what STAC 1.1.0 goes with, and the other way round for version 1.

**mode collection** and **mode catalog** let items pass as they are, and make the Collection (with the extent of all its items), or the Catalog (with a link to each collection), which is in the outputs and, with
` + "`output_path`" + `, written when the stream is complete. Items of several collections need ` + "`{collection_id}`" + ` in the path. The extent also covers what earlier runs of this pipeline have gathered.
Put the step behind those that drop items.

**mode template** writes an example to begin with to ` + "`template.output_path`" + `, and does nothing with items. A file that is there with other content is not overwritten.

A license is never made up: a collection without one gets ` + "`other` (`proprietary` in STAC 1.0.0)" + `.`

func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.scaffold", Aliases: []string{"ScaffoldModule"},
		Summary: "Makes valid STAC items, collections and catalogues.",
		Doc:     doc,
		Stream: &spec.Stream{Role: spec.Modifier, AlsoSource: true, Parallel: true,
			Sets: []spec.Sets{{Keys: "item_template", Nested: true}, {Path: "links"}, {Path: "stac_extensions"}}},
		Params: params(),
		Outputs: []spec.Field{
			{Name: "items", Type: spec.Integer, Doc: "How many items passed."},
			{Name: "collections", Type: spec.Array, Items: &spec.Field{Name: "collection", Type: spec.Object, Doc: "A STAC Collection."}, Doc: "The collections made, up to 100 of them."},
			{Name: "catalog", Type: spec.Object, Doc: "The STAC Catalog made."},
			{Name: "files", Type: spec.Array, Items: &spec.Field{Name: "file", Type: spec.String, Doc: "A path."}, Doc: "The files written."},
		},
		Examples: []spec.Example{{Title: "Complete the items of a table", YAML: `id: complete
module: stac.scaffold
depends_on: [scenes]
config:
  collection_id: naip
  base_url: https://example.org/stac
  item_template:
    properties: {title: "Scene {item_id}"}
    assets: {image: {href: "https://example.org/{collection_id}/{item_id}.tif"}}
  defaults:
    license: CC0-1.0
    providers: [{name: USDA, roles: [producer]}]
`}, {Title: "A collection of all that passes", YAML: `id: collection
module: stac.scaffold
depends_on: [complete]
config:
  mode: collection
  collection_id: naip
  output_path: out/naip/collection.json
  defaults: {license: CC0-1.0, description: Aerial photos}
`}},
	}
}

func params() []spec.Field {
	text := func(name, doc string) spec.Field {
		return spec.Field{Name: name, Type: spec.String, Min: at(1), Doc: doc}
	}
	return []spec.Field{
		{Name: "mode", Type: spec.String, Enum: []string{"items", "item", "collection", "catalog", "template"}, Default: "items", Doc: "What is made."},
		text("collection_id", "The collection of all items; their own when not told."),
		{Name: "base_url", Type: spec.String, Pattern: `^https?://[^\s]+$`, Doc: "Where the root of the catalogue will be published; links are relative when not told."},
		{Name: "link_layout", Type: spec.String, Enum: []string{"static", "api"}, Default: "static", Doc: "Whether links lead to files (<collection>/<item>.json) or to resources (collections/<collection>/items/<item>)."},
		{Name: "stac_version", Type: spec.String, Enum: []string{"1.0.0", "1.1.0"}, Default: "1.1.0", Doc: "The STAC version of what is made."},
		{Name: "defaults", Type: spec.Object, Doc: "What items, collections and catalogues without their own get.", Fields: []spec.Field{
			text("license", "An SPDX license expression, or other."),
			{Name: "providers", Type: spec.Array, Doc: "Who made and hosts the data.", Items: &spec.Field{Name: "provider", Type: spec.Object, Fields: []spec.Field{
				{Name: "name", Type: spec.String, Required: true, Doc: "The name."}, text("description", "More about it."), text("url", "Its home page."),
				{Name: "roles", Type: spec.Array, Items: &spec.Field{Name: "role", Type: spec.String, Enum: []string{"licensor", "producer", "processor", "host"}, Doc: "A role."}, Doc: "What it does."},
			}}},
			{Name: "geometry", Type: spec.Any, Doc: "The geometry of items that have neither geometry nor bbox; null lets them pass without one."},
			{Name: "bbox", Type: spec.Array, Doc: "The bounding box of items that have neither."},
			text("datetime", "The time of items without one."), text("start_datetime", "The beginning of items without a time."), text("end_datetime", "The end of items without a time."),
			text("title", "The title."), text("description", "The description."),
			{Name: "keywords", Type: spec.Array, Items: &spec.Field{Name: "keyword", Type: spec.String, Doc: "A keyword."}, Doc: "The keywords."},
			{Name: "properties", Type: spec.Object, Doc: "Properties of items."},
		}},
		{Name: "item_template", Type: spec.Object, Doc: "An item with patterns, over which what comes is laid."},
		text("template_file", "A JSON or YAML file with the item_template."),
		text("id_pattern", "How the id is made: {properties.product}_{properties.tile}."),
		{Name: "sanitize_id", Type: spec.Boolean, Default: true, Doc: "Replace what is awkward in file names and URLs in an id made by id_pattern."},
		text("datetime_format", "How times are written, in strftime's letters; ISO 8601 and seconds since 1970 when not told."),
		{Name: "timezone", Type: spec.String, Default: "UTC", Doc: "The zone of times that do not name theirs."},
		{Name: "extensions", Type: spec.Array, Items: &spec.Field{Name: "uri", Type: spec.String, Pattern: `^https?://[^\s]+$`, Doc: "The URI of an extension's schema."}, Doc: "Extensions of every item."},
		text("catalog_id", "The id of the catalogue, catalog when not told."),
		text("output_path", "The file of the collection or catalogue."),
		{Name: "template", Type: spec.Object, Doc: "What mode template writes.", Fields: []spec.Field{
			{Name: "type", Type: spec.String, Enum: []string{"catalog", "collection", "item"}, Required: true, Doc: "What it is an example of."},
			{Name: "output_path", Type: spec.String, Required: true, Min: at(1), Doc: "The .json file, or the directory for it."},
			{Name: "include_sample_item", Type: spec.Boolean, Default: true, Doc: "Write an item beside it, and link to it."},
		}},
	}
}

func at(n float64) *float64 { return &n }
