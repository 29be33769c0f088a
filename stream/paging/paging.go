// Package paging is the stream source for HTTP APIs that give lists page by page: the module stream.pages.
//
// A page is taken as a whole, within a size, before its first item is passed on, so that one that breaks off
// can be asked for again without an item coming twice. After each page it is noted where to go on. What a
// server can do wrong ends the source: pages in a circle, endless empty pages, a next page elsewhere, to
// which no credentials are sent (specification: stac-and-media §2). Stable.
package paging

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// Options configure the module.
type Options struct {
	// HTTP sends the requests. Required.
	HTTP *outbound.Client
}

// Modules is the module stream.pages.
func Modules(o Options) []stream.Module {
	return []stream.Module{stream.Typed[config]{
		Spec: spec.Spec{
			Name:    "stream.pages",
			Summary: "Reads items from an HTTP API, page by page.",
			Doc:     doc,
			Outputs: []spec.Field{
				{Name: "pages", Type: spec.Integer, Doc: "Pages fetched in this run."},
				{Name: "items", Type: spec.Integer, Doc: "Items of these pages."},
			},
			Examples: []spec.Example{
				{Title: "next page by a link in the body", YAML: "id: orders\nmodule: stream.pages\nconfig:\n  url: https://api.example.org/orders?limit=100\n" +
					"  headers:\n    Authorization: \"Bearer {{ secrets.API_TOKEN }}\"\n  items: data\n  next: {link: paging.next}"},
				{Title: "a cursor in the body of a POST", YAML: "id: hits\nmodule: stream.pages\nconfig:\n  url: https://api.example.org/search\n  method: POST\n" +
					"  body: {query: boats}\n  items: result.hits\n  next:\n    cursor: {path: result.cursor, param: cursor}"},
			},
			Stream: &spec.Stream{Role: spec.Source},
		},
		Check: (*config).check,
		Open: func(_ context.Context, env *stream.Env, c *config) (any, error) {
			c.source.env, c.source.client = env, o.HTTP
			return &c.source, nil
		},
	}.Module()}
}

const doc = "A failed request is retried where that may help: broken connections, torn bodies, 408, 425, 429, 500, 502 to 504 and 520 to 529, up to `attempts` times, after what `Retry-After` says or a growing pause. " +
	"A page that cannot be had ends the stream with an error, and a resumed run continues there.\n\n" +
	"| next | the next page |\n|---|---|\n" +
	"| `link: header` | the `Link` header with rel=next (RFC 8288); what happens when `next` is absent |\n" +
	"| `link: <path>` | the URL at the path in the body: a text, an object with `href`, or a list of links of which rel=next counts |\n" +
	"| `cursor: {path, param}` | the same request with the value at the path as parameter, until there is none |\n" +
	"| `page: {param, start, size_param, size}` | the same request with a number that grows by one, until a page is empty |\n" +
	"| `offset: {param, start, size_param, size}` | the same request with a number that grows by the items received, until a page is empty |\n\n" +
	"Parameters go into the query, of a POST with a body into the body."

// config is the step's config.
type config struct {
	URL      string         `json:"url" required:"true" doc:"URL of the first page."`
	Method   string         `json:"method" enum:"GET,POST" default:"GET" doc:"Method of the requests."`
	Headers  map[string]any `json:"headers" doc:"Headers of the requests; of another origin's pages only Accept, Accept-Language, Content-Type and User-Agent are kept."`
	Body     any            `json:"body" doc:"JSON body of a POST."`
	Items    string         `json:"items" doc:"Path to the list of items in a page; the page itself, or its \x60features\x60, when absent."`
	ID       string         `json:"id" doc:"Path in an item to the value that becomes its \x60id\x60, as text."`
	Next     nextConfig     `json:"next" doc:"Where the next page is: one of \x60link\x60, \x60cursor\x60, \x60page\x60 and \x60offset\x60."`
	MaxPages int64          `json:"max_pages" minimum:"1" maximum:"10000000" default:"100000" doc:"Pages after which the source ends with a failure."`
	MaxItems int64          `json:"max_items" minimum:"1" doc:"Items after which reading ends."`
	MaxBytes int64          `json:"max_page_bytes" minimum:"2" maximum:"1073741824" default:"67108864" doc:"Size above which a page is an error."`
	Timeout  *time.Duration `json:"timeout" doc:"Time for one page, 5 minutes when absent."`
	Attempts int            `json:"attempts" minimum:"1" maximum:"100" default:"5" doc:"How often one page is requested before it counts as an error."`
	Backoff  *time.Duration `json:"backoff" doc:"Pause before the second attempt, 1 s when absent; it doubles up to a minute."`

	source source
}

type nextConfig struct {
	Link   string `json:"link" doc:"\x60header\x60, or the path to the next URL in the body."`
	Cursor *struct {
		Path  string `json:"path" required:"true" doc:"Path to the value in the body."`
		Param string `json:"param" required:"true" doc:"Parameter that takes it."`
	} `json:"cursor" doc:"A value of each page requests the next."`
	Page   *pageCounter `json:"page" doc:"Pages are requested by number."`
	Offset *itemCounter `json:"offset" doc:"Pages are requested by the number of their first item."`
}

type pageCounter struct {
	Param  string `json:"param" required:"true" doc:"Parameter that takes the number."`
	Start  *int64 `json:"start" doc:"Number of the first page, 1 when absent."`
	SizeOf string `json:"size_param" doc:"Parameter that takes the size of a page."`
	Size   int64  `json:"size" minimum:"1" doc:"Size of a page, for size_param."`
}

type itemCounter struct {
	Param  string `json:"param" required:"true" doc:"Parameter that takes the number."`
	Start  *int64 `json:"start" doc:"Number of the first item, 0 when absent."`
	SizeOf string `json:"size_param" doc:"Parameter that takes the size of a page."`
	Size   int64  `json:"size" minimum:"1" doc:"Size of a page, for size_param."`
}
