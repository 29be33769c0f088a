// Package paging is the stream source for HTTP APIs that give lists page by page: the module stream.pages.
//
// A page is taken as a whole, within a size, before its first item is passed on, so that one that breaks off
// can be asked for again without an item coming twice. After each page it is noted where to go on. What a
// server can do wrong ends the source: pages in a circle, endless empty pages, a next page elsewhere, to
// which no credentials are sent (specification: stac-and-media §2). Stable.
package paging

import (
	"context"
	"strings"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// Options say what the module needs.
type Options struct {
	// HTTP sends the requests. Required.
	HTTP *outbound.Client
}

// Modules is the module stream.pages.
func Modules(o Options) []stream.Module {
	return []stream.Module{{
		Spec: spec.Spec{
			Name:    "stream.pages",
			Summary: "Reads items from an HTTP API, page by page.",
			Doc:     doc,
			Params:  fields,
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
		Open: func(_ context.Context, env *stream.Env, config map[string]any) (any, error) {
			s, err := sourceOf(config)
			if err != nil {
				return nil, err
			}
			s.env, s.client = env, o.HTTP
			return s, nil
		},
		Check: func(config map[string]any) []error {
			if _, err := sourceOf(masked(config)); err != nil {
				return []error{err}
			}
			return nil
		},
	}}
}

const doc = "A failed request is tried again where that may help: broken connections, torn bodies, 408, 425, 429, 500, 502 to 504 and 520 to 529, up to `attempts` times, after what `Retry-After` says or a growing pause. " +
	"A page that cannot be had ends the stream with an error, and a resumed run goes on there.\n\n" +
	"| next | the next page |\n|---|---|\n" +
	"| `link: header` | the `Link` header with rel=next (RFC 8288); what happens when `next` is absent |\n" +
	"| `link: <path>` | the URL at the path in the body: a text, an object with `href`, or a list of links of which rel=next counts |\n" +
	"| `cursor: {path, param}` | the same request with the value at the path as parameter, until there is none |\n" +
	"| `page: {param, start, size_param, size}` | the same request with a number that grows by one, until a page is empty |\n" +
	"| `offset: {param, start, size_param, size}` | the same request with a number that grows by the items received, until a page is empty |\n\n" +
	"Parameters go into the query, of a POST with a body into the body."

var fields = []spec.Field{
	{Name: "url", Type: spec.String, Required: true, Doc: "URL of the first page."},
	{Name: "method", Type: spec.String, Enum: []string{"GET", "POST"}, Default: "GET", Doc: "Method of the requests."},
	{Name: "headers", Type: spec.Object, Doc: "Headers of the requests; of another origin's pages only Accept, Accept-Language, Content-Type and User-Agent are kept."},
	{Name: "body", Type: spec.Any, Doc: "JSON body of a POST."},
	{Name: "items", Type: spec.String, Doc: "Path to the list of items in a page; the page itself, or its `features`, when absent."},
	{Name: "id", Type: spec.String, Doc: "Path in an item to the value that becomes its `id`, as text."},
	{Name: "next", Type: spec.Object, Doc: "Where the next page is: one of `link`, `cursor`, `page` and `offset`.", Fields: []spec.Field{
		{Name: "link", Type: spec.String, Doc: "`header`, or the path to the next URL in the body."},
		{Name: "cursor", Type: spec.Object, Doc: "A value of each page asks for the next.", Fields: []spec.Field{
			{Name: "path", Type: spec.String, Required: true, Doc: "Path to the value in the body."},
			{Name: "param", Type: spec.String, Required: true, Doc: "Parameter that takes it."}}},
		{Name: "page", Type: spec.Object, Doc: "Pages are numbered.", Fields: counterFields("Number of the first page, 1 when absent.")},
		{Name: "offset", Type: spec.Object, Doc: "Items are numbered.", Fields: counterFields("Number of the first item, 0 when absent.")},
	}},
	{Name: "max_pages", Type: spec.Integer, Min: number(1), Default: 100_000, Max: number(10_000_000), Doc: "Pages after which the source ends with a failure."},
	{Name: "max_items", Type: spec.Integer, Min: number(1), Doc: "Items after which reading ends."},
	{Name: "max_page_bytes", Type: spec.Integer, Min: number(2), Max: number(1 << 30), Default: 64 << 20, Doc: "Size above which a page is an error."},
	{Name: "timeout", Type: spec.Duration, Doc: "Time for one page, 5 minutes when absent."},
	{Name: "attempts", Type: spec.Integer, Min: number(1), Max: number(100), Default: 5, Doc: "How often one page is asked for before that is an error."},
	{Name: "backoff", Type: spec.Duration, Doc: "Pause before the second attempt, 1 s when absent; it doubles up to a minute."},
}

func counterFields(start string) []spec.Field {
	return []spec.Field{
		{Name: "param", Type: spec.String, Required: true, Doc: "Parameter that takes the number."},
		{Name: "start", Type: spec.Integer, Doc: start},
		{Name: "size_param", Type: spec.String, Doc: "Parameter that takes the size of a page."},
		{Name: "size", Type: spec.Integer, Min: number(1), Doc: "Size of a page, for size_param."},
	}
}

func number(n float64) *float64 { return &n }

// masked stands in for what a template will only later settle.
func masked(config map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range config {
		if s, ok := v.(string); ok && strings.Contains(s, "{{") {
			if k == "url" {
				out[k] = "https://template.invalid/"
			}
			continue
		}
		out[k] = v
	}
	if _, ok := out["next"].(map[string]any); !ok {
		delete(out, "next")
	}
	return out
}
