package files

import (
	"context"
	"strings"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

func writeModule(p *Places) stream.Module {
	return stream.Module{
		Spec: spec.Spec{
			Name:    "stream.write",
			Summary: "Writes items to a file: NDJSON, JSON, GeoJSON, CSV, TSV or Parquet.",
			Doc:     writeDoc,
			Params: []spec.Field{
				{Name: "path", Type: spec.String, Required: true, Doc: "Local or s3:// path; `{collection_id}` in it makes one file for each collection."},
				{Name: "format", Type: spec.String, Enum: formats, Default: formatAuto, Doc: "Format of the file; `auto` goes by the path."},
				{Name: "compression", Type: spec.String, Enum: []string{formatAuto, packNone, packGzip, packZstd}, Default: formatAuto, Doc: "Compression; `auto` goes by the path: .gz or .zst."},
				{Name: "columns", Type: spec.Array, Items: &spec.Field{Name: "column", Type: spec.String}, Doc: "Columns of CSV: names of members, or paths like `properties.datetime`; those of the first item when absent."},
				{Name: "extra", Type: spec.String, Enum: []string{"refuse", "drop"}, Doc: "What becomes of CSV items with other members: `drop` leaves these out (what happens with `columns` when absent), `refuse` fails the item (without)."},
				{Name: "delimiter", Type: spec.String, Doc: "Delimiter of CSV, a comma when absent."},
				{Name: "overwrite", Type: spec.Boolean, Default: true, Doc: "Whether a file that is there is replaced; else it is an error."},
			},
			Outputs: []spec.Field{
				{Name: "items", Type: spec.Integer, Doc: "Items in all files."},
				{Name: "files", Type: spec.Array, Doc: "The files, each with path, items and bytes."},
				{Name: "removed", Type: spec.Array, Doc: "Paths of Parquet files of earlier runs that were removed because a run from the beginning had no items; absent when there are none."},
			},
			Examples: []spec.Example{
				{Title: "one compressed file", YAML: "id: save\nmodule: stream.write\nconfig:\n  path: out/items.ndjson.gz\ndepends_on: [scenes]"},
				{Title: "a table for each collection", YAML: "id: tables\nmodule: stream.write\nconfig:\n  path: out/{collection_id}.csv\n  columns: [id, properties.datetime]\ndepends_on: [scenes]"},
			},
			Stream: &spec.Stream{Role: spec.Sink},
		},
		Open: func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
			return openWriter(ctx, p, env, config)
		},
		Check: func(config map[string]any) []error {
			if strings.Contains(textOf(config, "path"), "{{") {
				return nil // the suffix may be inside
			}
			_, err := targetOf(config)
			return problems(err)
		},
	}
}

const writeDoc = "The file appears under its name when it is complete. Until then the items are in a hidden file beside it (`.<name>.….part`), or in the run's " +
	"data directory for S3, each durable from the next checkpoint on; a run that was cut off goes on there. A later run of a pipeline that resumes adds its items to the file. " +
	"Only one run at a time writes a file; another is refused.\n\n" +
	"NDJSON has one compact item per line. CSV cells hold texts and numbers as they are, objects and lists as JSON. Parquet columns are those of all items together. " +
	"Without items there is no Parquet file: a run from the beginning then removes the one that an earlier run has left under the name, while other formats become empty."

// target is where and how to write.
type target struct {
	path      string // with {collection_id}, perhaps
	format    string
	packing   string
	columns   []string
	strict    bool // refuse members without a column
	delimiter byte
	overwrite bool
}

const perCollection = "{collection_id}"

func targetOf(config map[string]any) (target, error) {
	t := target{path: textOf(config, "path"), format: textOf(config, "format"), packing: textOf(config, "compression"),
		columns: textsOf(config["columns"]), delimiter: ',', overwrite: true}
	if keep, ok := config["overwrite"].(bool); ok {
		t.overwrite = keep
	}
	if err := t.place(); err != nil {
		return t, err
	}
	switch t.format {
	case "", formatAuto:
		if t.format = formatOf(t.path); t.format == formatAuto {
			return t, invalid("the path "+t.path+" does not tell the format", "end it in .ndjson, .json, .geojson, .csv, .tsv or .parquet, or write `format:`")
		}
	}
	if t.packing == "" || t.packing == formatAuto {
		t.packing = compressionOf(t.path)
	}
	if t.packing == packNone {
		t.packing = ""
	}
	if t.format == formatParquet && t.packing != "" {
		return t, invalid("Parquet is compressed inside", "leave the compression out")
	}
	return t, t.table(config)
}

// place looks at the path.
func (t *target) place() error {
	if err := supported(t.path); err != nil {
		return err
	}
	switch rest := strings.ReplaceAll(t.path, perCollection, ""); {
	case isWeb(t.path):
		return invalid("URLs are not written to", "use a local path or s3://")
	case t.path == "" || strings.HasSuffix(t.path, "/"):
		return invalid("path names no file", "write the path of a file, not of a directory")
	case strings.ContainsAny(rest, "{}") && !strings.Contains(rest, "{{"):
		return invalid("only "+perCollection+" is known in braces", "other values are written as {{ … }}")
	}
	if isS3(t.path) {
		_, _, err := bucketKey(t.path)
		return err
	}
	return nil
}

// table looks at what belongs to CSV.
func (t *target) table(config map[string]any) error {
	table := t.format == formatCSV || t.format == formatTSV
	for _, name := range []string{"columns", "extra", "delimiter"} {
		if config[name] != nil && !table {
			return invalid(name+" belongs to CSV, and the format is "+t.format, "")
		}
	}
	switch extra := textOf(config, "extra"); extra {
	case "":
		t.strict = len(t.columns) == 0
	default:
		t.strict = extra == "refuse"
	}
	if t.format == formatTSV {
		t.delimiter = '\t'
	}
	if d := textOf(config, "delimiter"); d != "" {
		if err := (Shape{Delimiter: d, Quote: `"`}).Check(); err != nil {
			return err
		}
		t.delimiter = d[0]
	}
	seen := map[string]bool{}
	for _, c := range t.columns {
		if seen[c] {
			return invalid("the column "+c+" is there twice", "")
		}
		seen[c] = true
	}
	return nil
}
