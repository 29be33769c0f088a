package ingest

import (
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

func ingestModule(o Options) stream.Module {
	return stream.Typed[settings]{Check: checkIngest, Open: o.openIngest, Try: o.tryIngest, Spec: spec.Spec{
		Name: "stac.ingest", Aliases: []string{"IngestModule"},
		Summary: "Reads STAC items from an API, a static catalog, or files.",
		Doc:     ingestDoc,
		Outputs: []spec.Field{
			{Name: "items", Type: spec.Integer, Doc: "Items read in this run."},
			{Name: "duplicates", Type: spec.Integer, Doc: "Items that appeared on two pages; the duplicates are dropped."},
			{Name: "pages", Type: spec.Integer, Doc: "Pages or files read."},
			{Name: "failed", Type: spec.Integer, Doc: "Pages, files and rows that could not be read."},
			{Name: "retries", Type: spec.Integer, Doc: "Requests that were sent again."},
		},
		Examples: []spec.Example{
			{Title: "clear scenes of a month from an API", YAML: "id: scenes\nmodule: stac.ingest\nconfig:\n  catalog_url: https://example.com/stac\n  collection_id: sentinel-2-l2a\n  bbox: [5.9, 45.8, 10.5, 47.8]\n  datetime: 2024-06\n  query:\n    eo:cloud_cover: {lt: 10}"},
			{Title: "all files of a directory", YAML: "id: items\nmodule: stac.ingest\nconfig:\n  mode: file\n  source: items/**/*.ndjson.gz"},
		},
		Stream: &spec.Stream{Role: spec.Source, TakesItems: true},
	}}.Module()
}

const ingestDoc = "An API is searched by POST, or by GET where it refuses that, and page by page along its links. A page that fails is asked for again (`retry`); one that keeps failing ends that search with a failure record, " +
	"and the step continues with the next part, if there is one. Items that come on two pages are left out and counted. Pages that form a loop end with a `pagination_loop` failure. " +
	"A run that was cut off fetches at most one page again.\n\n" +
	"`limit` is the page size, as in the newer vocabulary; where an older workflow means the number of items, write `max_items`. " +
	"`rate_limit`, `concurrency` and `retry` are this step's; that a host which says 429 is left alone by all steps holds besides.\n\n" +
	"After a discovery, the step runs once for each collection. After any other step, it reads that step's items and fetches the items with the same ids.\n\n" +
	"In file mode a source may be: a FeatureCollection, a list, a single item, one item per line, Parquet (as stac-geoparquet; rows of other GeoParquet become Features); a directory of such files; " +
	"a directory with `collection.json` and `items/`, or that file itself; a catalog, whose links are walked. There `bbox`, `datetime` and `ids` are applied here, and the conditions that only servers know are refused. " +
	"A file that cannot be read is a failure record; a source with no item at all is an error."

func discoveryModule(o Options) stream.Module {
	return stream.Typed[find]{Check: checkDiscovery, Open: o.openDiscovery, Pure: true, Spec: spec.Spec{
		Name: "stac.discovery", Aliases: []string{"DiscoveryModule"},
		Summary: "Finds the collections of an API or a static catalog; the steps after it run for each of them.",
		Doc: "The collections are the step's items, and its output `collections` names up to 10,000 of them: the steps after it run once for each, and `stac.ingest` and `stac.seed` among them use that collection. " +
			"An API is listed page by page, or walked by its child links; a static catalog is walked by its child links. The filters are compared with the collections' extents. Finding none is a warning.",
		Outputs: []spec.Field{
			{Name: "collections", Type: spec.Array, Doc: "The collections: id, title, catalog_url, href, and static for those of a static catalog."},
			{Name: "count", Type: spec.Integer, Doc: "The number of collections."},
			{Name: "failed", Type: spec.Integer, Doc: "Collections and pages that could not be read."},
		},
		Examples: []spec.Example{{Title: "all MODIS collections", YAML: "id: discover\nmodule: stac.discovery\nconfig:\n  catalog_url: https://example.com/stac\n  collection_ids: [\"MODIS_*\"]\n  filters:\n    temporal: {start: \"2024-01-01\", end: \"2024-12-31\"}"}},
		Stream:   &spec.Stream{Role: spec.Source, FansOut: &spec.FansOut{Output: "collections", As: "collection"}},
	}}.Module()
}

func seedModule(o Options) stream.Module {
	return stream.Typed[seed]{Check: checkSeed, Open: o.openSeed, Pure: true, Spec: spec.Spec{
		Name: "stac.seed", Aliases: []string{"SeedModule", "StaticSourceModule"},
		Summary: "Makes items from a list of ids or partial items.",
		Doc:     "Each entry is laid over a copy of `defaults`. With `stac.ingest` behind it, the items of these ids are fetched; with `stac.scaffold`, they become whole items.",
		Outputs: []spec.Field{{Name: "items", Type: spec.Integer, Doc: "Items made in this run."}, {Name: "failed", Type: spec.Integer, Doc: "Invalid entries and files."}},
		Examples: []spec.Example{{Title: "two items with the same defaults",
			YAML: "id: seed\nmodule: stac.seed\nconfig:\n  collection: scenes\n  defaults:\n    properties: {platform: test}\n  items:\n    - scene-1\n    - id: scene-2\n      properties: {\"eo:cloud_cover\": 3}"}},
		Stream: &spec.Stream{Role: spec.Source},
	}}.Module()
}
