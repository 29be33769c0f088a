package output

import (
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/durable"
)

// moduleSpec describes the module; the fields of config describe its keys.
func moduleSpec() spec.Spec {
	return spec.Spec{
		Name: "stac.output", Aliases: []string{"OutputModule"},
		Summary: "Writes STAC items: one file each, a static catalog, NDJSON, GeoParquet, or into a STAC API.",
		Doc:     doc,
		Params:  []spec.Field{durable.WriteField("`upsert`; for format api to `upsert` with on_conflict: upsert, else nothing there is replaced")},
		Outputs: []spec.Field{
			{Name: "items_written", Type: spec.Integer, Doc: "Items that this run has written."},
			{Name: "items_repeated", Type: spec.Integer, Doc: "Items that were there already, with the same content."},
			{Name: "items_left_out", Type: spec.Integer, Doc: "Items that `keep: first` or `keep: last` left out."},
			{Name: "items_not_checked", Type: spec.Integer, Doc: "Items that the check at the end has not verified: of remote outputs, and, of more than 1,000,000 files, those that are not in the sample."},
			{Name: "items_refused", Type: spec.Integer, Doc: "Items that were not written; the failures say why."},
			{Name: "files_written", Type: spec.Array, Doc: "The output's files, up to 10,000; beyond that the directories they are in."},
			{Name: "manifest_path", Type: spec.String, Doc: "Where the manifest is."},
			{Name: "manifest_paths", Type: spec.Object, Doc: "With `{collection_id}` in the path: where the manifests are, by collection."},
			{Name: "manifest", Type: spec.Object, Doc: "The manifest without its list of files."},
			{Name: "conflicts", Type: spec.Array, Doc: "Format api: the ids that were there already, up to 1,000."},
			{Name: "items_deleted", Type: spec.Integer, Doc: "Format api with `write: replace`: items that were there and are not of this run."},
			{Name: "items_queued", Type: spec.Integer, Doc: "Format api: items that the server has accepted but not stored yet (202)."},
		},
		Examples: []spec.Example{{Title: "One file per item", YAML: `
- id: output
  module: stac.output
  depends_on: [validate]
  config:
    format: json
    base_dir: ./outputs
    collection_id: sentinel-2-l2a
`}, {Title: "A static catalog, by year", YAML: `
- id: publish
  module: stac.output
  depends_on: [validate]
  config:
    format: catalog
    base_dir: ./catalog
    layout: relative-published
    base_url: https://data.example.org/catalog
    split: "{properties.datetime:year}"
`}, {Title: "Into a STAC API", YAML: `
- id: load
  module: stac.output
  depends_on: [validate]
  config:
    format: api
    url: https://stac.example.org
    on_conflict: upsert
    auth:
      bearer: ${STAC_TOKEN}
`}},
		Stream: &spec.Stream{Role: spec.Sink, Writes: &spec.Writes{Places: []string{"base_dir", "output_path"}, Mode: "write", Default: string(durable.Upsert),
			Alone: string(durable.Replace), Apart: "collection_id", Each: "collection"}},
	}
}

const doc = `Items of several collections may be in one stream: each collection gets its own directory.

* **json**: ` + "`{base_dir}/{collection}/collection.json` and `items/{id}.json`" + `. A collection.json that is there is kept, and
  only its extent widened. With organize_by: ` + "`item_id` is `{id}/{id}.json`, `flat` is `{id}.json`, `collection` is the default" + `
  layout (with output_path the default is item_id). In the first two, ` + "`collections/{collection}.json`" + ` describes each collection.
* **catalog**: a static catalog that can be browsed from catalog.json. More than max_links items of one collection go into
  sub-catalogs, as does what split tells apart.
* **ndjson**: one item per line, in one file per collection, or in one file when output_path names it (.ndjson, .jsonl, with .gz or .zst).
* **parquet**: stac-geoparquet 1.1, in part files per collection, or in one file when output_path ends in .parquet.
* **api**: transactions (POST, PUT) on a STAC API.

Names of files are made of ids: what is unsafe in one is percent-encoded, and names of over 180 bytes are cut and end in a hash.
A second item of the same collection and id is refused, unless its content is the same or ` + "`keep`" + ` says otherwise. In a later run it replaces the first.

Several streams of one execution (collections, entries of a matrix) may write to one place, unless they replace it. ` + "`write: replace`" + ` publishes when the
run has come to its end; json and catalog cannot be appended to, as an item has one file. At its end, an output is verified: items are counted, collections checked and links followed. Every output except api also gets a manifest.json that lists its contents.`
