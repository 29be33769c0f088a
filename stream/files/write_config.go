package files

import (
	"context"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

func writeModule(p *Places) stream.Module {
	return stream.Module{
		Spec: spec.Spec{
			Name:    "stream.write",
			Summary: "Writes items to a file: NDJSON, JSON, GeoJSON, CSV, TSV or Parquet.",
			Doc:     writeDoc,
			Params: append([]spec.Field{
				{Name: "path", Type: spec.String, Required: true, Doc: "Local or s3:// path; `{collection_id}` in it makes one file for each collection."},
				{Name: "format", Type: spec.String, Enum: formats, Default: formatAuto, Doc: "Format of the file; `auto` goes by the path."},
				{Name: "compression", Type: spec.String, Enum: []string{formatAuto, packNone, packGzip, packZstd}, Default: formatAuto, Doc: "Compression; `auto` goes by the path: .gz or .zst."},
				{Name: "columns", Type: spec.Array, Items: &spec.Field{Name: "column", Type: spec.String}, Doc: "Columns of CSV: names of members, or paths like `properties.datetime`; those of the first item when absent."},
				{Name: "extra", Type: spec.String, Enum: []string{"refuse", "drop"}, Doc: "What becomes of CSV items with other members: `drop` leaves these out (what happens with `columns` when absent), `refuse` fails the item (without)."},
				{Name: "delimiter", Type: spec.String, Doc: "Delimiter of CSV, a comma when absent."},
				{Name: "overwrite", Type: spec.Boolean, Default: true, Doc: "Whether a file that is there may be replaced or added to; else it is an error."},
				{Name: "key", Type: spec.Any, Doc: "Member, or list of members, that tells items apart: names, or paths like `properties.datetime`. `write: upsert` and `keep` need it."},
			}, durable.Fields("`replace`")...),
			Outputs: []spec.Field{
				{Name: "items", Type: spec.Integer, Doc: "Items in all files."},
				{Name: "files", Type: spec.Array, Doc: "The files, each with path, items and bytes."},
				{Name: "items_repeated", Type: spec.Integer, Doc: "With `key`: items that came again with the same content, and count as one."},
				{Name: "items_left_out", Type: spec.Integer, Doc: "With `key`: items that `keep: first` or `keep: last` left out."},
				{Name: "items_not_checked", Type: spec.Integer, Doc: "Items of remote files, of which only the size is compared at the end; those of local files are counted."},
				{Name: "removed", Type: spec.Array, Doc: "Files of earlier runs that were removed because this run, which replaces them, has no items for them; absent when there are none."},
			},
			Examples: []spec.Example{
				{Title: "one compressed file", YAML: "id: save\nmodule: stream.write\nconfig:\n  path: out/items.ndjson.gz\ndepends_on: [scenes]"},
				{Title: "a table for each collection", YAML: "id: tables\nmodule: stream.write\nconfig:\n  path: out/{collection_id}.csv\n  columns: [id, properties.datetime]\ndepends_on: [scenes]"},
			},
			Stream: &spec.Stream{Role: spec.Sink, Writes: &spec.Writes{Places: []string{"path"}, Mode: "write", Default: string(durable.Replace), Alone: string(durable.Replace)}},
		},
		Replaces: func(config map[string]any) bool {
			p, err := durable.PolicyOf(config, durable.Replace)
			return err == nil && p.Mode == durable.Replace
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
	"data directory for S3, each durable from the next checkpoint on; a run that was cut off goes on there. " +
	"Only one run at a time writes a file; another is refused. Several streams of one execution (collections, entries of a matrix) may share a file with `write: append` or `upsert`.\n\n" +
	"With `write: replace` a run that begins anew reads its sources whole, and the file then holds what the run gave: rows that the source no longer has are gone. It is not replaced " +
	"(code `not_replaced`) when every item failed, or when the sources gave nothing and `allow_empty` is not set. `append` and `upsert` skip what an earlier run of the same stream has done.\n\n" +
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
	policy    durable.Policy
	key       []item.Path
	keyNames  []string
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
	if err := t.writing(config); err != nil {
		return t, err
	}
	switch t.format {
	case "", formatAuto:
		if t.format = formatOf(t.path); t.format == formatAuto {
			return t, stepwell.Invalid("end it in .ndjson, .json, .geojson, .csv, .tsv or .parquet, or write `format:`", "the path %s does not tell the format", t.path)
		}
	}
	if t.packing == "" || t.packing == formatAuto {
		t.packing = compressionOf(t.path)
	}
	if t.packing == packNone {
		t.packing = ""
	}
	if t.format == formatParquet && t.packing != "" {
		return t, stepwell.Invalid("leave the compression out", "Parquet is compressed inside")
	}
	return t, t.table(config)
}

// writing looks at what becomes of what is there.
func (t *target) writing(config map[string]any) (err error) {
	if t.policy, err = durable.PolicyOf(config, durable.Replace); err != nil {
		return err
	}
	t.keyNames = textsOf(config["key"])
	for _, name := range t.keyNames {
		path, err := item.ParsePath(name)
		if err != nil {
			return err
		}
		t.key = append(t.key, path)
	}
	switch {
	case config["key"] != nil && len(t.key) == 0:
		return stepwell.Invalid("write a name like `id`, or a list of names", "key names no member")
	case len(t.key) > 0:
	case t.policy.Mode == durable.Upsert:
		return stepwell.Invalid("name the member that tells items apart: `key: id`", "write: upsert needs `key`")
	case config["keep"] != nil:
		return stepwell.Invalid("name the member that tells items apart: `key: id`", "keep needs `key`")
	}
	if !t.overwrite && t.policy.Mode != durable.Replace && config["write"] != nil {
		return stepwell.Invalid("leave one of them out", "overwrite: false refuses a file that is there, to which write: %s would add", string(t.policy.Mode))
	}
	return nil
}

// place looks at the path.
func (t *target) place() error {
	if err := supported(t.path); err != nil {
		return err
	}
	switch rest := strings.ReplaceAll(t.path, perCollection, ""); {
	case isWeb(t.path):
		return stepwell.Invalid("use a local path or s3://", "URLs are not written to")
	case t.path == "" || strings.HasSuffix(t.path, "/"):
		return stepwell.Invalid("write the path of a file, not of a directory", "path names no file")
	case strings.ContainsAny(rest, "{}") && !strings.Contains(rest, "{{"):
		return stepwell.Invalid("other values are written as {{ … }}", "only %s is known in braces", perCollection)
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
			return stepwell.Invalid("", "%s belongs to CSV, and the format is %s", name, t.format)
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
			return stepwell.Invalid("", "the column %s is there twice", c)
		}
		seen[c] = true
	}
	return nil
}
