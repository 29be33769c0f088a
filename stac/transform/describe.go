package transform

import (
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/files"
)

const doc = `Puts what tables know into items, in one of two roles.

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

var types = []string{"string", "int", "integer", "float", "number", "bool", "boolean", "datetime", "geometry", "bbox", "any"}

var mappingFields = []spec.Field{
	{Name: "source_field", Type: spec.String, Required: true, Min: at(1), Doc: "A column, or a JMESPath expression on the row."},
	{Name: "target_field", Type: spec.String, Required: true, Min: at(1), Doc: "The path in the item."},
	{Name: "type", Type: spec.String, Enum: types, Doc: "What the value is made into."},
	{Name: "format", Type: spec.String, Doc: "How a datetime is written, in strftime's letters: %d.%m.%Y %H:%M."},
	{Name: "required", Type: spec.Boolean, Doc: "A row without a value fails."},
	{Name: "default", Type: spec.Any, Doc: "The value of rows without one."},
}

var mappingsField = spec.Field{Name: "mappings", Type: spec.Array, Min: at(1), Items: &spec.Field{Name: "mapping", Type: spec.Object, Fields: mappingFields}, Doc: "What of a row goes where, with types."}

func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.transform", Aliases: []string{"TransformModule"},
		Summary: "Makes items of the rows of tables, or joins items with a table.",
		Doc:     doc,
		Stream: &spec.Stream{Role: spec.Modifier, AlsoSource: true, Parallel: true,
			Sets: []spec.Sets{{Keys: "field_mapping"}, {Values: "mappings", Member: "target_field"}}},
		Params: params(),
		Outputs: []spec.Field{
			{Name: "rows", Type: spec.Integer, Doc: "How many rows were read."},
			{Name: "rows_failed", Type: spec.Integer, Doc: "How many of them were no good."},
			{Name: "items", Type: spec.Integer, Doc: "How many items were made (as a source)."},
			{Name: "matched", Type: spec.Integer, Doc: "How many items had a row (as a join)."},
			{Name: "unmatched", Type: spec.Integer, Doc: "How many items had none (as a join)."},
			{Name: "rows_unmatched", Type: spec.Integer, Doc: "How many rows had no item (as a join)."},
			{Name: "duplicate_keys", Type: spec.Integer, Doc: "How many rows had a key that came again later (as a join)."},
			{Name: "without_value", Type: spec.Array, Items: &spec.Field{Name: "target", Type: spec.String, Doc: "A path."}, Doc: "The targets that no row had a value for."},
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

func params() []spec.Field {
	return append([]spec.Field{
		{Name: "source_file", Type: spec.String, Doc: "The table: a file, a glob, a directory, s3:// or https://; the rows are the items when nothing comes before this step."},
		{Name: "source_files", Type: spec.Array, Items: &spec.Field{Name: "file", Type: spec.String, Doc: "As source_file."}, Min: at(1), Doc: "Several of them, in this order."},
		{Name: "input_file", Type: spec.String, Doc: "The table to join items with; as source_file, but never a source."},
		{Name: "data_path", Type: spec.String, Doc: "Where in a JSON document the list of rows is, as at; or a JMESPath expression, for documents up to max_table_bytes."},
		{Name: "field_mapping", Type: spec.Object, Doc: "What of a row goes where: path in the item, and column or JMESPath expression."},
		mappingsField,
		{Name: "schema", Type: spec.Object, Fields: []spec.Field{mappingsField}, Doc: "The mappings, one level deeper."},
		{Name: "schema_file", Type: spec.String, Doc: "A JSON or YAML file with the mappings."},
		{Name: "input_join_key", Type: spec.String, Doc: "The column (or JMESPath expression) whose value is the item's key, id when not told; not needed for an object keyed by id."},
		{Name: "input_key", Type: spec.String, Doc: "The same as input_join_key."},
		{Name: "item_key", Type: spec.String, Default: "id", Doc: "The path of the item's key."},
		{Name: "strategy", Type: spec.String, Enum: []string{"merge", "update_existing", "update", "left"}, Doc: "Whether values go everywhere (merge), only over what is there (update_existing), or only where nothing is (left)."},
		{Name: "handle_missing", Type: spec.String, Enum: []string{"ignore", "warn", "error", "fail"}, Default: "ignore", Doc: "What becomes of items without a row."},
		{Name: "timezone", Type: spec.String, Default: "UTC", Doc: "The zone of times that do not name theirs: Europe/Berlin."},
		{Name: "max_table_bytes", Type: spec.Integer, Min: at(1), Default: 256 << 20, Doc: "How much memory a table to join may take."},
	}, files.ShapeFields()...)
}

func at(n float64) *float64 { return &n }
