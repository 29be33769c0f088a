package transform

import (
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/files"
)

const doc = `Adds data from tables to items, in one of two roles.

**At the beginning of a stream** every row of ` + "`source_file`" + ` becomes an item ` + "`{id, geometry, bbox, datetime, properties, assets, links}`" + `, which stac.scaffold makes complete.
**Behind other steps** every item is joined with the row whose ` + "`input_join_key`" + ` is the item's ` + "`item_key`" + `. The table is held in memory, up to ` + "`max_table_bytes`" + `; of several rows with
one key the last counts.

- **Tables** are CSV, TSV, JSON (a list, an object keyed by id, or a list at ` + "`data_path`" + `), NDJSON, GeoJSON and Parquet, also compressed. Several files are one table.
- A **mapping** says what goes where: ` + "`field_mapping: {properties.eo:cloud_cover: cloud}`, or `mappings` with types" + `. The source is the name of a column as it stands, else a JMESPath
  expression on the row. The target is a path in the item: ` + "`properties.x`, `assets.\"ANG.txt\".href`, `assets.*.title`" + `. At items, ` + "`{item_id}`, `{collection_id}` and `{asset_key}`" + ` in a source stand for
  the item's. A null is not written.
- **Types** convert: ` + "`datetime`" + ` reads ISO 8601, seconds since 1970, or what ` + "`format`" + ` (strftime) says, in ` + "`timezone`" + ` where the time names none; ` + "`geometry`" + ` reads GeoJSON, WKT, WKB in
  hexadecimal, a bounding box (` + "`\"[west, south, east, north]\"`" + `) or longitude and latitude (` + "`\"[lon, lat]\"`" + `). Targets ` + "`id`, `collection`, `geometry`, `bbox`" + ` and the times of STAC have their
  type without being told.
- **JMESPath functions** beyond the standard and its community extensions: ` + "`datetime(x, format, zone)`, `number(x, ',')`, `geometry(x)`, `bbox(x)`, `null_if(x, 'NA', '-')`" + `; the arguments behind x may be left out.
- **strategy** ` + "`merge`" + ` writes every value, ` + "`update_existing` (or `update`)" + ` only where the item has the member already, ` + "`left`" + ` only where the item has no value. Without one it is ` + "`merge`" + `; but
  ` + "`update_existing` where the table is named by `input_file`" + `, as stac-manager has it.
- **handle_missing** says what becomes of an item without a row: ` + "`ignore`" + ` passes it on, ` + "`warn`" + ` passes it on with a failure record, ` + "`error` (or `fail`)" + ` fails it.`

func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.transform", Aliases: []string{"TransformModule"},
		Summary: "Makes items from the rows of tables, or joins items with a table.",
		Doc:     doc,
		Stream: &spec.Stream{Role: spec.Modifier, AlsoSource: true, Parallel: true,
			Sets: []spec.Sets{{Keys: "field_mapping"}, {Values: "mappings", Member: "target_field"}}},
		Params: []spec.Field{files.DecimalField},
		Outputs: []spec.Field{
			{Name: "rows", Type: spec.Integer, Doc: "How many rows were read."},
			{Name: "rows_failed", Type: spec.Integer, Doc: "How many of them were invalid."},
			{Name: "items", Type: spec.Integer, Doc: "How many items were produced (as a source)."},
			{Name: "matched", Type: spec.Integer, Doc: "How many items had a row (as a join)."},
			{Name: "unmatched", Type: spec.Integer, Doc: "How many items had none (as a join)."},
			{Name: "rows_unmatched", Type: spec.Integer, Doc: "How many rows had no item (as a join)."},
			{Name: "duplicate_keys", Type: spec.Integer, Doc: "How many rows had a key that appeared again later (as a join)."},
			{Name: "without_value", Type: spec.Array, Items: &spec.Field{Name: "target", Type: spec.String, Doc: "A path."}, Doc: "The targets for which no row had a value."},
		},
		Examples: []spec.Example{{Title: "Rows of a CSV file as items", YAML: `id: scenes
module: stac.transform
config:
  source_file: scenes.csv
  mappings:
    - {source_field: scene_id, target_field: id, type: string, required: true}
    - {source_field: acquired, target_field: datetime, type: datetime, format: "%d.%m.%Y %H:%M"}
    - {source_field: footprint_wkt, target_field: geometry, type: geometry}
    - {source_field: "[min_lon, min_lat, max_lon, max_lat]", target_field: bbox}
    - {source_field: image_href, target_field: assets.image.href, type: string}
`}, {Title: "Cloud cover from a table", YAML: `id: clouds
module: stac.transform
depends_on: [ingest]
config:
  input_file: cloud-cover.csv
  input_join_key: item_id
  strategy: merge
  handle_missing: warn
  field_mapping:
    properties.eo:cloud_cover: cloud_cover
`}},
	}
}
