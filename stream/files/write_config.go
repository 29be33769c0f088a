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

// writeConfig is the config of stream.write.
type writeConfig struct {
	Path        string   `json:"path" required:"true" doc:"Local or s3:// path; \x60{collection_id}\x60 in it makes one file for each collection."`
	Format      string   `json:"format" enum:"auto,json,geojson,ndjson,csv,tsv,parquet" default:"auto" doc:"Format of the file; \x60auto\x60 goes by the path."`
	Compression string   `json:"compression" enum:"auto,none,gzip,zstd" default:"auto" doc:"Compression; \x60auto\x60 goes by the path: .gz or .zst."`
	Columns     []string `json:"columns" doc:"Columns of CSV: names of members, or paths like \x60properties.datetime\x60; those of the first item when absent."`
	Extra       string   `json:"extra" enum:"refuse,drop" doc:"What happens to CSV items with other members: \x60drop\x60 leaves these out (what happens with \x60columns\x60 when absent), \x60refuse\x60 fails the item (without)."`
	Delimiter   string   `json:"delimiter" doc:"Delimiter of CSV, a comma when absent."`
	Overwrite   *bool    `json:"overwrite" default:"true" doc:"Whether an existing file may be replaced or added to; else it is an error."`
	Key         any      `json:"key" doc:"Member, or list of members, that tells items apart: names, or paths like \x60properties.datetime\x60. \x60write: upsert\x60 and \x60keep\x60 need it."`
	durable.Writing

	target target
}

func writeModule(p *Places) stream.Module {
	return stream.Typed[writeConfig]{
		Spec: spec.Spec{
			Name:    "stream.write",
			Summary: "Writes items to a file: NDJSON, JSON, GeoJSON, CSV, TSV or Parquet.",
			Doc:     writeDoc,
			Params:  []spec.Field{durable.WriteField("`replace`")},
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
		Replaces: func(c *writeConfig) bool { return c.Write == "" || c.Write == durable.Replace },
		Open: func(ctx context.Context, env *stream.Env, c *writeConfig) (any, error) {
			return openWriter(ctx, p, env, c.target)
		},
		Check: func(c *writeConfig, given stream.Config) []error {
			if c.Path == "" && given.Has("path") {
				return nil // the suffix may be inside of a template
			}
			var err error
			c.target, err = targetOf(c, given)
			return problems(err)
		},
	}.Module()
}

const writeDoc = "The file appears under its name when it is complete. Until then the items are in a hidden file beside it (`.<name>.….part`), or in the run's " +
	"data directory for S3, each durable from the next checkpoint on; a run that was cut off continues there. " +
	"Only one run at a time writes a file; another is refused. Several streams of one execution (collections, entries of a matrix) may share a file with `write: append` or `upsert`.\n\n" +
	"With `write: replace` a run that starts over reads its sources whole, and the file then holds what the run gave: rows that the source no longer has are gone. It is not replaced " +
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

func targetOf(c *writeConfig, given stream.Config) (t target, err error) {
	t = target{path: c.Path, format: c.Format, packing: c.Compression, columns: c.Columns, delimiter: ',', overwrite: c.Overwrite == nil || *c.Overwrite}
	if err := t.place(); err != nil {
		return t, err
	}
	if err := t.writing(c, given); err != nil {
		return t, err
	}
	switch t.format {
	case "", formatAuto:
		if t.format = formatOf(t.path); t.format == formatAuto {
			return t, stepwell.Invalid("end it in .ndjson, .json, .geojson, .csv, .tsv or .parquet, or write `format:`", "the path %s does not tell the format", t.path)
		}
	}
	if t.packing == "" || t.packing == formatAuto {
		t.packing = CompressionOf(t.path)
	}
	if t.packing == "none" {
		t.packing = ""
	}
	if t.format == formatParquet && t.packing != "" {
		return t, stepwell.Invalid("leave the compression out", "Parquet is compressed inside")
	}
	return t, t.table(c, given)
}

// writing checks write, keep, key and overwrite.
func (t *target) writing(c *writeConfig, given stream.Config) (err error) {
	if t.policy, err = c.Policy(durable.Replace); err != nil {
		return err
	}
	t.keyNames = textsOf(c.Key)
	for _, name := range t.keyNames {
		path, err := item.ParsePath(name)
		if err != nil {
			return err
		}
		t.key = append(t.key, path)
	}
	switch {
	case given.Has("key") && len(t.key) == 0:
		return stepwell.Invalid("write a name like `id`, or a list of names", "key names no member")
	case len(t.key) > 0:
	case t.policy.Mode == durable.Upsert:
		return stepwell.Invalid("name the member that tells items apart: `key: id`", "write: upsert needs `key`")
	case given.Has("keep"):
		return stepwell.Invalid("name the member that tells items apart: `key: id`", "keep needs `key`")
	}
	if !t.overwrite && t.policy.Mode != durable.Replace && given.Has("write") {
		return stepwell.Invalid("leave one of them out", "overwrite: false refuses a file that is there, to which write: %s would add", string(t.policy.Mode))
	}
	return nil
}

// place checks the path.
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

// table checks the fields of CSV.
func (t *target) table(c *writeConfig, given stream.Config) error {
	table := t.format == formatCSV || t.format == formatTSV
	for _, name := range []string{"columns", "extra", "delimiter"} {
		if given.Has(name) && !table {
			return stepwell.Invalid("", "%s belongs to CSV, and the format is %s", name, t.format)
		}
	}
	switch c.Extra {
	case "":
		t.strict = len(t.columns) == 0
	default:
		t.strict = c.Extra == "refuse"
	}
	if t.format == formatTSV {
		t.delimiter = '\t'
	}
	if d := c.Delimiter; d != "" {
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
