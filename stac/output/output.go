// Package output is the stream module stac.output: it puts STAC items where they stay, as files of one item
// each, as a static catalog that can be browsed, as NDJSON, as stac-geoparquet, or in a STAC API by
// transactions (specifications: stac-manager, OutputModule; stac-and-media §1, §2 and §4).
//
// Items that Commit reports are durable, and a stream that was cut off goes on behind them: no item is lost and
// none is there twice. A file appears under its name when it is complete. One execution at a time writes an output;
// another is refused. Memory: 24 to 32 bytes per item (a catalog: 8 more), several times that while a hash table grows, and
// what one batch holds. Stable.
package output

import (
	"context"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// Options are the dependencies of the module.
type Options struct {
	// Places reads, lists, publishes and locks files. Defaults to files.New(files.Options{}).
	Places *files.Places
	// HTTP sends the transactions of format api. Defaults to none: that format is refused.
	HTTP *outbound.Client
}

// Modules is stac.output.
func Modules(o Options) []stream.Module {
	if o.Places == nil {
		o.Places = files.New(files.Options{})
	}
	return []stream.Module{stream.Typed[config]{Spec: moduleSpec(), Check: check, Open: o.open, Try: o.try, Replaces: func(c *config) bool {
		return c.Write == durable.Replace
	}}.Module()}
}

// config is the step's config.
type config struct {
	Format       string `json:"format" required:"true" enum:"json,catalog,ndjson,parquet,api" doc:"What to write."`
	BaseDir      string `json:"base_dir" minLength:"1" doc:"The directory to write to, or s3://bucket/prefix; \x60{collection_id}\x60 in it makes one for each collection."`
	OutputPath   string `json:"output_path" minLength:"1" doc:"Another name of base_dir; for ndjson and parquet it may name one file, also with \x60{collection_id}\x60."`
	OrganizeBy   string `json:"organize_by" enum:"item_id,flat,collection" doc:"How files are arranged: by item_id, flat or by collection. Defaults to collection; for json with output_path to item_id."`
	BaseURL      string `json:"base_url" doc:"The URL under which the output will be found; links are absolute then."`
	BufferSize   int    `json:"buffer_size" minimum:"1" maximum:"100000" default:"1000" doc:"Items that are written at a time."`
	CollectionID string `json:"collection_id" doc:"The collection of items that name none."`
	durable.Writing
	Owns string `json:"owns" enum:"collection" doc:"api: \x60collection\x60 says that no other program writes to the collections, which \x60write: replace\x60 needs: it deletes the items there that the run does not have."`

	Layout      string `json:"layout" enum:"self-contained,relative-published,absolute" doc:"catalog: links all relative, relative but for the root's self link, or all absolute. Defaults to self-contained, with base_url to relative-published."`
	Split       string `json:"split" spec:"raw" doc:"catalog: sub-catalogs by what items say, such as \"{properties.datetime:year}/{properties.datetime:month}\" or \"{properties.platform}\"."`
	MaxLinks    int    `json:"max_links" minimum:"1" maximum:"100000" default:"10000" doc:"catalog: items in one catalog file; more go into sub-catalogs."`
	CatalogID   string `json:"catalog_id" doc:"catalog: the id of the root catalog. Defaults to the workflow's name."`
	Title       string `json:"title" doc:"catalog: the title of the root catalog."`
	Description string `json:"description" doc:"catalog: the description of the root catalog."`

	Compression string `json:"compression" enum:"none,gzip,zstd" doc:"ndjson: how the files are compressed. Defaults to what the name of output_path says."`

	RowGroup int               `json:"row_group" minimum:"1" maximum:"1000000" default:"20000" doc:"parquet: rows in a row group."`
	PartRows int64             `json:"part_rows" minimum:"1" doc:"parquet: rows in a part file, after which another begins. Defaults to one file per run."`
	Schema   string            `json:"schema" enum:"full,first_n,fixed" default:"full" doc:"parquet: columns are found over all items, over the first ones, or given by columns; what does not fit is refused."`
	FirstN   int64             `json:"first_n" minimum:"1" default:"1000" doc:"parquet: how many items schema first_n looks at."`
	Columns  map[string]string `json:"columns" doc:"parquet: the columns of schema fixed: name to string, int, double, bool, timestamp or json."`
	Mixed    string            `json:"mixed_types" enum:"refuse,json" default:"refuse" doc:"parquet: what happens to a column whose items disagree: the later item is refused, or the column is JSON text."`
	Rejects  string            `json:"rejects" doc:"parquet: an NDJSON file for the items that do not fit."`

	URL         string            `json:"url" doc:"api: the landing page of the STAC API."`
	CatalogURL  string            `json:"catalog_url" doc:"api: another name of url."`
	OnConflict  string            `json:"on_conflict" enum:"insert,upsert,skip" default:"insert" doc:"api: what happens with an item that is there already: it is refused, replaced or left alone."`
	IfMatch     bool              `json:"if_match" default:"false" doc:"api: replace an item only if it has not changed since it was read (ETag)."`
	BatchSize   int               `json:"batch_size" minimum:"1" maximum:"10000" default:"100" doc:"api: items sent in one request; 1 sends them singly."`
	Concurrency int               `json:"concurrency" minimum:"1" maximum:"100" default:"5" doc:"api: requests at a time."`
	RateLimit   float64           `json:"rate_limit" minimum:"0" doc:"api: requests per second. Defaults to no limit of its own."`
	Headers     map[string]string `json:"headers" writeOnly:"true" doc:"api: headers of every request."`
	Auth        authConfig        `json:"auth" doc:"api: credentials of one kind."`
}

// authConfig is an apiclient.Auth with the keys of this module.
type authConfig struct {
	apiclient.Auth
	Header string `json:"api_key_header" doc:"The header for the API key."`
	Query  string `json:"api_key_query" doc:"The query parameter for the API key."`
}

// open makes the sink.
func (o Options) open(ctx context.Context, env *stream.Env, given *config) (any, error) {
	c := *given
	own := *env // other sinks of the segment share its directory
	own.Data = filepath.Join(env.Data, "output-"+fileName(env.Step))
	if err := os.MkdirAll(own.Data, 0o755); err != nil {
		return nil, err
	}
	env = &own
	if c.Format == "api" {
		return o.openServer(ctx, env, c)
	}
	if c.usesCollection() {
		return openEach(ctx, env, c, o.openFiles)
	}
	return o.openFiles(ctx, env, c)
}

// openFiles makes the sink of a format other than api.
func (o Options) openFiles(ctx context.Context, env *stream.Env, c config) (stream.Sink, error) {
	b, err := o.openBase(env, c)
	if err != nil {
		return nil, err
	}
	var sink stream.Sink
	switch c.Format {
	case "ndjson":
		sink, err = openText(ctx, b)
	case "parquet":
		sink, err = openTable(ctx, b)
	default:
		sink, err = openTree(b)
	}
	if err != nil {
		b.abandon()
		return nil, err
	}
	return sink, nil
}
