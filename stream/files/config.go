package files

import (
	"context"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// ModuleOptions say what the modules need.
type ModuleOptions struct {
	// Places opens and publishes files. Required.
	Places *Places
}

// Modules are the modules stream.read and stream.write.
func Modules(o ModuleOptions) []stream.Module {
	return []stream.Module{readModule(o.Places), writeModule(o.Places)}
}

func readModule(p *Places) stream.Module {
	return stream.Module{
		Spec: spec.Spec{
			Name:    "stream.read",
			Summary: "Reads items from files: NDJSON, JSON, GeoJSON, CSV, TSV or Parquet.",
			Doc:     readDoc,
			Params:  append(append([]spec.Field{{Name: "path", Type: spec.Any, Required: true, Doc: "File, directory, glob, s3:// or https:// path, or a list of them."}}, ShapeFields()...), readFields...),
			Outputs: []spec.Field{
				{Name: "files", Type: spec.Integer, Doc: "Files that the paths stand for."},
				{Name: "rows", Type: spec.Integer, Doc: "Rows read in this run."},
				{Name: "failed", Type: spec.Integer, Doc: "Rows and files of this run that were no good."},
			},
			Examples: []spec.Example{
				{Title: "all files of a directory and what is below it", YAML: "id: scenes\nmodule: stream.read\nconfig:\n  path: scenes/**/*.ndjson.gz"},
				{Title: "a table with decimal commas", YAML: "id: sites\nmodule: stream.read\nconfig:\n  path: sites.csv\n  delimiter: \";\"\n  decimal: \",\"\n  id: site_no\n  text_columns: [site_no]"},
			},
			Stream: &spec.Stream{Role: spec.Source},
		},
		Open: func(_ context.Context, env *stream.Env, config map[string]any) (any, error) {
			return openReader(p, env, config)
		},
		Check: func(config map[string]any) []error {
			_, err := readerOf(config)
			return problems(err)
		},
		Try: func(ctx context.Context, env *stream.Env, config map[string]any) []error {
			r, err := openReader(p, env, config)
			if err == nil {
				_, err = r.list(ctx)
			}
			return problems(err)
		},
	}
}

const readDoc = "The format follows from the file's name (`.ndjson`, `.jsonl`, `.json`, `.geojson`, `.csv`, `.tsv`, `.parquet`, each also with `.gz` or `.zst`) or else from its content. " +
	"A JSON document may be a list, a FeatureCollection, an object whose members are the items (their names become `id`), or one item. " +
	"Of several files, the items come in the order of the paths, those of a glob in the order of their names. " +
	"Rows that are no good are recorded as failures with file and line; so is a file that cannot be read to its end, behind its good rows.\n\n" +
	"CSV: empty cells are null; `true`, `false` and what is written like a JSON number keep that type, but `007` and the `text_columns` stay text."

// ShapeFields are the config fields of a Shape, for modules that read files; ShapeOf reads them.
func ShapeFields() []spec.Field {
	return []spec.Field{
		{Name: "format", Type: spec.String, Enum: formats, Doc: "Format of the files; `auto` goes by name, then by content.", Default: formatAuto},
		{Name: "at", Type: spec.String, Doc: "Path to the list of rows in a JSON document, like `data.items`."},
		{Name: "delimiter", Type: spec.String, Doc: "Delimiter of CSV, a comma when absent."},
		{Name: "quote", Type: spec.String, Doc: "Quote of CSV, or `none`; `\"` when absent."},
		{Name: "decimal", Type: spec.String, Enum: []string{".", ","}, Doc: "Decimal separator of numbers in CSV, `.` when absent."},
		{Name: "encoding", Type: spec.String, Doc: "Encoding: utf-8, utf-16, utf-16le, utf-16be, latin-1 or windows-1252; utf-8, or what a byte order mark says, when absent."},
		{Name: "header", Type: spec.Boolean, Default: true, Doc: "Whether the first row of CSV names the columns; without, they are c1, c2 and so on."},
		{Name: "text_columns", Type: spec.Array, Items: &spec.Field{Name: "column", Type: spec.String}, Doc: "Columns of CSV that stay text whatever they look like."},
		{Name: "all_text", Type: spec.Boolean, Doc: "Whether all columns of CSV stay text."},
		{Name: "max_item_bytes", Type: spec.Integer, Min: number(2), Max: number(1 << 30), Doc: "Size above which a row is a failure, 64 MiB when absent."},
	}
}

var readFields = []spec.Field{
	{Name: "id", Type: spec.String, Raw: true, Names: []string{"item", "file", "line", "key"}, Doc: "Column that becomes `id` as text, or a template that makes it, with `item`, `file`, `line` and `key`."},
	{Name: "max_items", Type: spec.Integer, Min: number(1), Doc: "Rows after which reading ends."},
	{Name: "allow_empty", Type: spec.Boolean, Doc: "Whether a path that stands for no file is fine."},
}

func number(n float64) *float64 { return &n }

// ShapeOf is the Shape of a config with ShapeFields.
func ShapeOf(config map[string]any) Shape {
	s := Shape{Format: textOf(config, "format"), At: textOf(config, "at"), Delimiter: textOf(config, "delimiter"), Quote: textOf(config, "quote"),
		Decimal: textOf(config, "decimal"), Encoding: textOf(config, "encoding"), Text: textsOf(config["text_columns"])}
	header, given := config["header"].(bool)
	s.NoHeader = given && !header
	s.AllText, _ = config["all_text"].(bool)
	s.MaxItem = intOf(config["max_item_bytes"])
	return s
}

func textOf(config map[string]any, name string) string {
	s, _ := config[name].(string)
	return s
}

// textsOf takes a text or a list of texts.
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

func intOf(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int:
		return int64(v)
	case float64:
		return int64(v)
	}
	return 0
}

func problems(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}
