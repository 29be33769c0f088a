package ingest

import "github.com/stepwell/stepwell/spec"

func idsField(name, doc string) spec.Field {
	return spec.Field{Name: name, Type: spec.Array, Items: &spec.Field{Name: "id", Type: spec.String}, Doc: doc}
}

func boxField(name, doc string) spec.Field {
	return spec.Field{Name: name, Type: spec.Array, Items: &spec.Field{Name: "degrees", Type: spec.Number}, Doc: doc}
}

const datetimeDoc = "Time: an instant, a year, month or day, an interval a/b with .. for an open end, [a, b], or {start, end}."

var temporalField = spec.Field{Name: "temporal", Type: spec.Object, Doc: "The same as datetime, as start and end.", Fields: []spec.Field{
	{Name: "start", Type: spec.String, Doc: "First moment, open when absent."}, {Name: "end", Type: spec.String, Doc: "Last moment, open when absent."}}}

// filtersField are the conditions in the older vocabulary.
var filtersField = spec.Field{Name: "filters", Type: spec.Object, Doc: "The conditions in one place; each may be given here or beside it.", Fields: []spec.Field{
	temporalField, boxField("spatial", "The same as bbox."), boxField("bbox", "The same as bbox beside filters."),
	{Name: "datetime", Type: spec.Any, Doc: datetimeDoc}, {Name: "query", Type: spec.Object, Doc: "Query extension."},
	{Name: "ids", Type: spec.Array, Doc: "Ids of items."}}}

func ingestSpec() spec.Spec {
	whole := func(name string, least float64, doc string) spec.Field {
		return spec.Field{Name: name, Type: spec.Integer, Min: bound(least), Doc: doc}
	}
	limit := whole("limit", 1, "Items per page, a hint to the server; it bounds nothing: see max_items.")
	limit.Max, limit.Default = bound(10_000), 100
	own := []spec.Field{
		{Name: "mode", Type: spec.String, Enum: []string{"file", "api"}, Doc: "Whether source is a file, directory or static catalog, or an API; found out when absent."},
		{Name: "source", Type: spec.String, Doc: "What to read: the URL of an API or catalog, or a path."},
		{Name: "catalog_url", Type: spec.String, Doc: "The same as source, for an API or a static catalog; defaults to that of a discovery."},
		{Name: "source_file", Type: spec.String, Doc: "File, directory, glob, s3:// or https:// path; it wins over catalog_url."},
		{Name: "source_type", Type: spec.String, Enum: []string{"auto", typeFile, typeDirectory, typeCollection, typeCatalog}, Default: "auto", Doc: "What a path must be; anything else is refused."},
		{Name: "format", Type: spec.String, Enum: []string{"auto", "json", "geojson", "ndjson", "parquet"}, Default: "auto", Doc: "Format of files, found by name and content when auto."},
		{Name: "collection_id", Type: spec.String, Doc: "Collection to read; defaults to that of a discovery. In file mode, items that name none get it."},
		idsField("collection_ids", "Several collections instead of one."),
		boxField("bbox", "Box that items must meet: west, south, east, north in degrees, or six numbers."),
		{Name: "datetime", Type: spec.Any, Doc: datetimeDoc},
		{Name: "ids", Type: spec.Array, Doc: "Ids of the items to read; one that does not exist is a failure."},
		{Name: "query", Type: spec.Object, Doc: "Query extension, like {\"eo:cloud_cover\": {\"lt\": 10}}; APIs only."},
		{Name: "filter", Type: spec.Any, Doc: "CQL2 filter, a text or an object; APIs only."},
		{Name: "filter_lang", Type: spec.String, Doc: "Language of filter; cql2-text for a text, cql2-json for an object when absent."},
		{Name: "intersects", Type: spec.Object, Doc: "GeoJSON geometry that items must meet, instead of bbox; APIs only."},
		{Name: "sortby", Type: spec.Any, Doc: "Order: -properties.datetime,+id, a list of such, or of {field, direction}; APIs only."},
		{Name: "fields", Type: spec.Any, Doc: "Members to send, those with a minus left out; what comes incomplete is marked with " + PartialMember + "; APIs only."},
		filtersField,
		limit,
		whole("max_items", 1, "Items after which to stop."),
		whole("split_at", 1, "Divide the search by time until the server counts fewer matches per part, e.g. 10000; not divided when absent."),
		{Name: "verify_collection", Type: spec.Boolean, Default: true, Doc: "Whether to make sure beforehand that the collection exists."},
		{Name: "allow_empty", Type: spec.Boolean, Doc: "Whether a file or catalog without any item is fine."},
		whole("max_item_bytes", 1024, "Size above which an item of a file is a failure, 64 MiB when absent."),
	}
	return spec.Spec{
		Name: "stac.ingest", Aliases: []string{"IngestModule"},
		Summary: "Reads STAC items from an API, a static catalog, or files.",
		Doc:     ingestDoc,
		Params:  append(own, connectionFields()...),
		Outputs: []spec.Field{
			{Name: "items", Type: spec.Integer, Doc: "Items read in this run."},
			{Name: "duplicates", Type: spec.Integer, Doc: "Items that came on two pages, left out."},
			{Name: "pages", Type: spec.Integer, Doc: "Pages or files read."},
			{Name: "failed", Type: spec.Integer, Doc: "Pages, files and rows that could not be read."},
			{Name: "retries", Type: spec.Integer, Doc: "Requests that were sent again."},
		},
		Examples: []spec.Example{
			{Title: "clear scenes of a month from an API", YAML: "id: scenes\nmodule: stac.ingest\nconfig:\n  catalog_url: https://example.com/stac\n  collection_id: sentinel-2-l2a\n  bbox: [5.9, 45.8, 10.5, 47.8]\n  datetime: 2024-06\n  query:\n    eo:cloud_cover: {lt: 10}"},
			{Title: "all files of a directory", YAML: "id: items\nmodule: stac.ingest\nconfig:\n  mode: file\n  source: items/**/*.ndjson.gz"},
		},
		Stream: &spec.Stream{Role: spec.Source, TakesItems: true},
	}
}

const ingestDoc = "An API is searched by POST, or by GET where it refuses that, and page by page along its links. A page that fails is asked for again (`retry`); one that keeps failing ends that search with a failure record, " +
	"and the step goes on with the next part, if there is one. Items that come on two pages are left out and counted. Pages that lead in circles end with a `pagination_loop` failure. " +
	"A run that was cut off fetches at most one page again.\n\n" +
	"`limit` is the page size, as in the newer vocabulary; where an older workflow means the number of items, write `max_items`. " +
	"`rate_limit`, `concurrency` and `retry` are this step's; that a host which says 429 is left alone by all steps holds besides.\n\n" +
	"Behind a discovery, the step runs once for each collection. Behind any other step, it takes that step's items and fetches those of the same ids.\n\n" +
	"In file mode a source may be: a FeatureCollection, a list, a single item, one item per line, Parquet (as stac-geoparquet; rows of other GeoParquet become Features); a directory of such files; " +
	"a directory with `collection.json` and `items/`, or that file itself; a catalog, whose links are walked. There `bbox`, `datetime` and `ids` are applied here, and the conditions that only servers know are refused. " +
	"A file that cannot be read is a failure record; a source with no item at all is an error."

func discoverySpec() spec.Spec {
	own := []spec.Field{
		{Name: "catalog_url", Type: spec.String, Doc: "URL of an API, or URL or path of a static catalog."},
		{Name: "source", Type: spec.String, Doc: "The same as catalog_url."},
		idsField("collection_ids", "Ids of the collections, with * and ? for any characters; all when absent."),
		boxField("bbox", "Box that a collection's extent must meet."),
		{Name: "datetime", Type: spec.Any, Doc: datetimeDoc},
		filtersField,
		{Name: "max_collections", Type: spec.Integer, Min: bound(1), Max: bound(maxCollections), Doc: "Collections after which to stop."},
	}
	return spec.Spec{
		Name: "stac.discovery", Aliases: []string{"DiscoveryModule"},
		Summary: "Finds the collections of an API or a static catalog; what comes behind runs for each of them.",
		Doc: "The collections are the step's items, and its output `collections` names up to 10,000 of them: the steps behind run once for each, and `stac.ingest` and `stac.seed` among them know which one it is. " +
			"An API is listed page by page, or walked by its child links; a static catalog is walked by its child links. The filters are compared with the collections' extents. Finding none is a warning.",
		Params: append(own, connectionFields()...),
		Outputs: []spec.Field{
			{Name: "collections", Type: spec.Array, Doc: "The collections: id, title, catalog_url, href, and static for those of a static catalog."},
			{Name: "count", Type: spec.Integer, Doc: "How many there are."},
			{Name: "failed", Type: spec.Integer, Doc: "Collections and pages that could not be read."},
		},
		Examples: []spec.Example{{Title: "all MODIS collections", YAML: "id: discover\nmodule: stac.discovery\nconfig:\n  catalog_url: https://example.com/stac\n  collection_ids: [\"MODIS_*\"]\n  filters:\n    temporal: {start: \"2024-01-01\", end: \"2024-12-31\"}"}},
		Stream:   &spec.Stream{Role: spec.Source, FansOut: true},
	}
}

func seedSpec() spec.Spec {
	return spec.Spec{
		Name: "stac.seed", Aliases: []string{"SeedModule", "StaticSourceModule"},
		Summary: "Makes items of a list of ids or parts of items.",
		Doc:     "Each entry is laid over a copy of `defaults`. With `stac.ingest` behind it, the items of these ids are fetched; with `stac.scaffold`, they become whole items.",
		Params:  seedFields,
		Outputs: []spec.Field{{Name: "items", Type: spec.Integer, Doc: "Items made in this run."}, {Name: "failed", Type: spec.Integer, Doc: "Entries and files that were no good."}},
		Examples: []spec.Example{{Title: "two items with the same defaults",
			YAML: "id: seed\nmodule: stac.seed\nconfig:\n  collection: scenes\n  defaults:\n    properties: {platform: test}\n  items:\n    - scene-1\n    - id: scene-2\n      properties: {\"eo:cloud_cover\": 3}"}},
		Stream: &spec.Stream{Role: spec.Source},
	}
}
