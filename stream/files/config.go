package files

import (
	"context"
	"strings"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// ModuleOptions configure the modules.
type ModuleOptions struct {
	// Places opens and publishes files. Required.
	Places *Places
}

// Modules are the modules stream.read and stream.write.
func Modules(o ModuleOptions) []stream.Module {
	return []stream.Module{readModule(o.Places), writeModule(o.Places)}
}

// readConfig is the config of stream.read.
type readConfig struct {
	Path any `json:"path" required:"true" doc:"File, directory, glob, s3:// or https:// path, or a list of them."`
	Shape
	ID         string `json:"id" spec:"raw" names:"item,file,line,key" doc:"Column that becomes \x60id\x60 as text, or a template that makes it, with \x60item\x60, \x60file\x60, \x60line\x60 and \x60key\x60."`
	MaxItems   int64  `json:"max_items" minimum:"1" doc:"Rows after which reading ends."`
	AllowEmpty bool   `json:"allow_empty" doc:"Whether a path that matches no file is accepted."`

	paths []string
}

func readModule(p *Places) stream.Module {
	open := func(env *stream.Env, c *readConfig) *reader {
		return &reader{places: p, env: env, readConfig: c, template: strings.Contains(c.ID, "{{")}
	}
	return stream.Typed[readConfig]{
		Spec: spec.Spec{
			Name:    "stream.read",
			Summary: "Reads items from files: NDJSON, JSON, GeoJSON, CSV, TSV or Parquet.",
			Doc:     readDoc,
			Params:  []spec.Field{DecimalField},
			Outputs: []spec.Field{
				{Name: "files", Type: spec.Integer, Doc: "Files that match the paths."},
				{Name: "rows", Type: spec.Integer, Doc: "Rows read in this run."},
				{Name: "failed", Type: spec.Integer, Doc: "Invalid rows and files of this run."},
			},
			Examples: []spec.Example{
				{Title: "all files of a directory and what is below it", YAML: "id: scenes\nmodule: stream.read\nconfig:\n  path: scenes/**/*.ndjson.gz"},
				{Title: "a table with decimal commas", YAML: "id: sites\nmodule: stream.read\nconfig:\n  path: sites.csv\n  delimiter: \";\"\n  decimal: \",\"\n  id: site_no\n  text_columns: [site_no]"},
			},
			Stream: &spec.Stream{Role: spec.Source},
		},
		Check: (*readConfig).check,
		Open:  func(_ context.Context, env *stream.Env, c *readConfig) (any, error) { return open(env, c), nil },
		Try: func(ctx context.Context, env *stream.Env, c *readConfig) []error {
			_, err := open(env, c).list(ctx)
			return problems(err)
		},
	}.Module()
}

const readDoc = "The format follows from the file's name (`.ndjson`, `.jsonl`, `.json`, `.geojson`, `.csv`, `.tsv`, `.parquet`, each also with `.gz` or `.zst`) or else from its content. " +
	"A JSON document may be a list, a FeatureCollection, an object whose members are the items (their names become `id`), or one item. " +
	"Of several files, the items come in the order of the paths, those of a glob in the order of their names. " +
	"Rows that cannot be parsed are recorded as failures with file and line; so is a file that cannot be read to its end, behind its good rows.\n\n" +
	"CSV: empty cells are null; `true`, `false` and what is written like a JSON number keep that type, but `007` and the `text_columns` stay text."

// textsOf is a list of texts, of one when v is a text; members that are no texts are left out.
func textsOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

func problems(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}
