package output

import (
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/durable"
)

func limit(n float64) *float64 { return &n }

// moduleSpec describes the module; long because there is much to say, in a straight line.
func moduleSpec() spec.Spec {
	return spec.Spec{
		Name: "stac.output", Aliases: []string{"OutputModule"},
		Summary: "Writes STAC items: one file each, a static catalog, NDJSON, GeoParquet, or into a STAC API.",
		Doc:     doc,
		Params:  append(append(placeFields(), formatFields()...), serverFields()...),
		Outputs: []spec.Field{
			{Name: "items_written", Type: spec.Integer, Doc: "Items that this run has written."},
			{Name: "items_repeated", Type: spec.Integer, Doc: "Items that were there already, with the same content."},
			{Name: "items_left_out", Type: spec.Integer, Doc: "Items that `keep: first` or `keep: last` left out."},
			{Name: "items_not_checked", Type: spec.Integer, Doc: "Items that the check at the end has not looked at: of remote outputs, and, of more than 1,000,000 files, those that are not in the sample."},
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
			Alone: string(durable.Replace), Apart: "collection_id"}},
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
run has come to its end; json and catalog cannot be appended to, as an item has one file. Before an output ends, it looks at what lies there: items are counted,
collections checked and links followed. Every output but api ends with manifest.json, which tells of all that lies there.`

func placeFields() []spec.Field {
	return append([]spec.Field{
		{Name: "format", Type: spec.String, Required: true, Enum: []string{"json", "catalog", "ndjson", "parquet", "api"}, Doc: "What to write."},
		{Name: "base_dir", Type: spec.String, Min: limit(1), Doc: "The directory to write to, or s3://bucket/prefix; `{collection_id}` in it makes one for each collection."},
		{Name: "output_path", Type: spec.String, Min: limit(1), Doc: "Another name of base_dir; for ndjson and parquet it may name one file, also with `{collection_id}`."},
		{Name: "organize_by", Type: spec.String, Enum: []string{"item_id", "flat", "collection"},
			Doc: "How files are arranged: by item_id, flat or by collection. Defaults to collection; for json with output_path to item_id."},
		{Name: "base_url", Type: spec.String, Doc: "The URL under which the output will be found; links are absolute then."},
		{Name: "buffer_size", Type: spec.Integer, Default: int64(1000), Min: limit(1), Max: limit(100_000), Doc: "Items that are written at a time."},
		{Name: "collection_id", Type: spec.String, Doc: "The collection of items that name none."},
	}, append(durable.Fields("`upsert`; for format api to `upsert` with on_conflict: upsert, else nothing there is replaced"),
		spec.Field{Name: "owns", Type: spec.String, Enum: []string{"collection"},
			Doc: "api: `collection` says that nobody else writes to the collections, which `write: replace` needs: it deletes the items there that the run does not have."})...)
}

func formatFields() []spec.Field {
	return []spec.Field{
		{Name: "layout", Type: spec.String, Enum: []string{"self-contained", "relative-published", "absolute"},
			Doc: "catalog: links all relative, relative but for the root's self link, or all absolute. Defaults to self-contained, with base_url to relative-published."},
		{Name: "split", Type: spec.String, Raw: true,
			Doc: "catalog: sub-catalogs by what items say, such as \"{properties.datetime:year}/{properties.datetime:month}\" or \"{properties.platform}\"."},
		{Name: "max_links", Type: spec.Integer, Default: int64(10_000), Min: limit(1), Max: limit(100_000), Doc: "catalog: items in one catalog file; more go into sub-catalogs."},
		{Name: "catalog_id", Type: spec.String, Doc: "catalog: the id of the root catalog. Defaults to the workflow's name."},
		{Name: "title", Type: spec.String, Doc: "catalog: the title of the root catalog."},
		{Name: "description", Type: spec.String, Doc: "catalog: the description of the root catalog."},
		{Name: "compression", Type: spec.String, Enum: []string{"none", "gzip", "zstd"}, Doc: "ndjson: how the files are compressed. Defaults to what the name of output_path says."},
		{Name: "row_group", Type: spec.Integer, Default: int64(20_000), Min: limit(1), Max: limit(1_000_000), Doc: "parquet: rows in a row group."},
		{Name: "part_rows", Type: spec.Integer, Min: limit(1), Doc: "parquet: rows in a part file, after which another begins. Defaults to one file per run."},
		{Name: "schema", Type: spec.String, Default: "full", Enum: []string{"full", "first_n", "fixed"},
			Doc: "parquet: columns are found over all items, over the first ones, or given by columns; what does not fit is refused."},
		{Name: "first_n", Type: spec.Integer, Default: int64(1000), Min: limit(1), Doc: "parquet: how many items schema first_n looks at."},
		{Name: "columns", Type: spec.Object, Doc: "parquet: the columns of schema fixed: name to string, int, double, bool, timestamp or json."},
		{Name: "mixed_types", Type: spec.String, Default: "refuse", Enum: []string{"refuse", "json"},
			Doc: "parquet: what becomes of a column whose items disagree: the later item is refused, or the column is JSON text."},
		{Name: "rejects", Type: spec.String, Doc: "parquet: an NDJSON file for the items that do not fit."},
	}
}

func serverFields() []spec.Field {
	secret := func(name, doc string) spec.Field {
		return spec.Field{Name: name, Type: spec.String, Secret: true, Doc: doc}
	}
	plain := func(name, doc string) spec.Field { return spec.Field{Name: name, Type: spec.String, Doc: doc} }
	return []spec.Field{
		{Name: "url", Type: spec.String, Doc: "api: the landing page of the STAC API."},
		{Name: "catalog_url", Type: spec.String, Doc: "api: another name of url."},
		{Name: "on_conflict", Type: spec.String, Default: "insert", Enum: []string{"insert", "upsert", "skip"},
			Doc: "api: what happens with an item that is there already: it is refused, replaced or left alone."},
		{Name: "if_match", Type: spec.Boolean, Default: false, Doc: "api: replace an item only when nobody has changed it since it was looked at (ETag)."},
		{Name: "batch_size", Type: spec.Integer, Default: int64(100), Min: limit(1), Max: limit(10_000), Doc: "api: items sent in one request; 1 sends them singly."},
		{Name: "concurrency", Type: spec.Integer, Default: int64(5), Min: limit(1), Max: limit(100), Doc: "api: requests at a time."},
		{Name: "rate_limit", Type: spec.Number, Min: limit(0), Doc: "api: requests per second. Defaults to no limit of its own."},
		{Name: "headers", Type: spec.Object, Secret: true, Doc: "api: headers of every request."},
		{Name: "auth", Type: spec.Object, Doc: "api: credentials of one kind.", Fields: []spec.Field{
			secret("bearer", "A bearer token."),
			plain("username", "The user of basic authentication."), secret("password", "The password of basic authentication."),
			secret("api_key", "An API key."), plain("api_key_header", "The header that the API key goes in."),
			plain("api_key_query", "The query parameter that the API key goes in."),
			plain("token_url", "Where OAuth 2 client credentials get a token."), plain("client_id", "The OAuth 2 client."),
			secret("client_secret", "The OAuth 2 client's secret."), plain("scope", "The OAuth 2 scope asked for."),
			plain("audience", "The OAuth 2 audience asked for."),
		}},
	}
}
