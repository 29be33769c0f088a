// Package output is the stream module stac.output: it puts STAC items where they stay, as files of one item
// each, as a static catalog that can be browsed, as NDJSON, as stac-geoparquet, or in a STAC API by
// transactions (specifications: stac-manager, OutputModule; stac-and-media §1, §2 and §4).
//
// What Commit reports is durable, and a stream that was cut off goes on behind it: no item is lost and none
// is there twice. A file appears under its name when it is complete. An output that is written has one
// writer; a second is refused. Memory is bounded: 24 to 32 bytes per item, several times
// that while their table grows, and what one batch holds. Stable.
package output

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// Options say what the module works with.
type Options struct {
	// Places reaches s3:// outputs. Defaults to files.New(files.Options{}).
	Places *files.Places
	// HTTP sends the transactions of format api. Defaults to none: that format is refused.
	HTTP *outbound.Client
}

// Modules is stac.output.
func Modules(o Options) []stream.Module {
	if o.Places == nil {
		o.Places = files.New(files.Options{})
	}
	return []stream.Module{{Spec: moduleSpec(), Open: o.open, Check: check, Try: o.try, Replaces: func(values map[string]any) bool {
		write, _ := values["write"].(string)
		return write == string(durable.Replace)
	}}}
}

// config is the step's config; the fields are documented in moduleSpec.
type config struct {
	Format       string `json:"format"`
	BaseDir      string `json:"base_dir"`
	OutputPath   string `json:"output_path"`
	OrganizeBy   string `json:"organize_by"`
	BaseURL      string `json:"base_url"`
	BufferSize   int    `json:"buffer_size"`
	CollectionID string `json:"collection_id"`

	Write      string `json:"write"`
	Keep       string `json:"keep"`
	AllowEmpty bool   `json:"allow_empty"`
	Owns       string `json:"owns"`

	Layout      string `json:"layout"`
	Split       string `json:"split"`
	MaxLinks    int    `json:"max_links"`
	CatalogID   string `json:"catalog_id"`
	Title       string `json:"title"`
	Description string `json:"description"`

	Compression string `json:"compression"`

	RowGroup int               `json:"row_group"`
	PartRows int64             `json:"part_rows"`
	Schema   string            `json:"schema"`
	FirstN   int64             `json:"first_n"`
	Columns  map[string]string `json:"columns"`
	Mixed    string            `json:"mixed_types"`
	Rejects  string            `json:"rejects"`

	URL         string            `json:"url"`
	CatalogURL  string            `json:"catalog_url"`
	OnConflict  string            `json:"on_conflict"`
	IfMatch     bool              `json:"if_match"`
	BatchSize   int               `json:"batch_size"`
	Concurrency int               `json:"concurrency"`
	RateLimit   float64           `json:"rate_limit"`
	Headers     map[string]string `json:"headers"`
	Auth        authConfig        `json:"auth"`
}

type authConfig struct {
	Bearer       string `json:"bearer"`
	Username     string `json:"username"`
	Password     string `json:"password"`
	Key          string `json:"api_key"`
	KeyHeader    string `json:"api_key_header"`
	KeyQuery     string `json:"api_key_query"`
	TokenURL     string `json:"token_url"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Scope        string `json:"scope"`
	Audience     string `json:"audience"`
}

func decode(values map[string]any) (config, error) {
	var c config
	text, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// open makes the sink.
func (o Options) open(ctx context.Context, env *stream.Env, values map[string]any) (any, error) {
	c, err := decode(values)
	if err != nil {
		return nil, err
	}
	if problems := check(values); len(problems) > 0 {
		return nil, problems[0]
	}
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

// openFiles makes the sink of files.
func (o Options) openFiles(ctx context.Context, env *stream.Env, c config) (stream.Sink, error) {
	b, err := o.openBook(env, c)
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
