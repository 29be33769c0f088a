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

A license is never invented: a collection without one gets ` + "`other` (`proprietary` in STAC 1.0.0)" + `.`

func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.scaffold", Aliases: []string{"ScaffoldModule"},
		Summary: "Makes valid STAC items, collections and catalogues.",
		Doc:     doc,
		Stream: &spec.Stream{Role: spec.Modifier, AlsoSource: true, Parallel: true,
			Sets: []spec.Sets{{Keys: "item_template", Nested: true}, {Path: "links"}, {Path: "stac_extensions"}}},
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
