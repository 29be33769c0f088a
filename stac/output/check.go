package output

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/files"
)

// only says which formats a key is for.
var only = map[string][]string{
	"base_dir": {"json", "catalog", "ndjson", "parquet"}, "output_path": {"json", "catalog", "ndjson", "parquet"},
	"organize_by": {"json", "ndjson", "parquet"}, "base_url": {"json", "catalog", "ndjson", "parquet"},
	"layout": {"catalog"}, "split": {"catalog"}, "catalog_id": {"catalog"}, "title": {"catalog"}, "description": {"catalog"},
	"compression": {"ndjson"}, "part_rows": {"parquet"}, "columns": {"parquet"}, "rejects": {"parquet"},
	"owns": {"api"}, "url": {"api"}, "catalog_url": {"api"}, "if_match": {"api"}, "rate_limit": {"api"}, "headers": {"api"}, "auth": {"api"},
}

// check finds the contradictions of a config.
func check(c *config, given stream.Config) (problems []error) {
	if given.Early && (c.Format == "" || strings.Contains(c.Format, "${")) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(given.Values)) {
		if formats := only[key]; given.Has(key) && given.Values[key] != false && formats != nil && !slices.Contains(formats, c.Format) {
			problems = append(problems, stepwell.Invalid("it is for "+strings.Join(formats, ", "), "%s has no meaning for format %s", key, c.Format))
		}
	}
	if given.Early {
		for _, text := range append(c.places(), &c.URL, &c.CatalogURL) {
			if strings.Contains(*text, "${") {
				*text = ""
			}
		}
	}
	problems = append(append(problems, c.checkPlace(given)...), c.checkFormat(given)...)
	if err := c.checkWrite(); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// checkWrite finds modes that a format does not have.
func (c config) checkWrite() error {
	p, err := c.Policy(durable.Upsert)
	switch {
	case err != nil:
		return err
	case p.Mode == durable.Append && (c.Format == "json" || c.Format == "catalog" || c.Format == "api"):
		return stepwell.Invalid("write: upsert adds items, and replaces those that are there", "format %s cannot be appended to: an item has one place", c.Format)
	case c.Format != "api":
		return nil
	case p.Mode == durable.Replace && c.Owns != "collection":
		return stepwell.Invalid("owns: collection says that no other program writes to it", "write: replace deletes what others have put into the collection")
	case c.OnConflict == "skip" && (c.Write != "" || c.Keep != "" && c.Keep != durable.KeepFirst):
		return stepwell.Invalid("on_conflict: upsert is write: upsert, and skip is keep: first; keep one of them", "on_conflict: skip contradicts write or keep")
	case c.Keep == durable.KeepLast && c.Write == "" && c.OnConflict != "upsert":
		return stepwell.Invalid("add write: upsert", "keep: last replaces what is there")
	}
	return nil
}

func (c config) checkPlace(given stream.Config) (problems []error) {
	first, second := "base_dir", "output_path"
	if c.Format == "api" {
		first, second = "url", "catalog_url"
	}
	switch places := given.Given(first, second); {
	case len(places) == 2:
		problems = append(problems, stepwell.Invalid("give one of them", "%s and %s are the same thing", first, second))
	case len(places) == 0:
		problems = append(problems, stepwell.Invalid("", "format %s needs %s", c.Format, first))
	}
	for _, place := range c.places() {
		if rest := strings.ReplaceAll(*place, perCollection, ""); strings.ContainsAny(rest, "{}") {
			problems = append(problems, stepwell.Invalid("other values are written as {{ … }}", "only %s is known in braces: %s", perCollection, *place))
		}
	}
	for key, text := range map[string]string{"base_url": c.BaseURL, "url": c.URL, "catalog_url": c.CatalogURL} {
		if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme == "" || u.Host == "") {
			problems = append(problems, stepwell.Invalid("write it like https://host/path", "%s is not a URL: %s", key, text))
		}
	}
	if name := c.single(); name != "" && c.OrganizeBy != "" && c.OrganizeBy != "flat" {
		problems = append(problems, stepwell.Invalid("", "organize_by %s needs a directory, but %s is a file", c.OrganizeBy, c.OutputPath))
	}
	if c.OrganizeBy == "item_id" && c.Format != "json" {
		problems = append(problems, stepwell.Invalid("use collection or flat", "organize_by item_id is for format json"))
	}
	return problems
}

func (c config) checkFormat(given stream.Config) (problems []error) {
	if c.Layout != "" && c.Layout != "self-contained" && !given.Has("base_url") {
		problems = append(problems, stepwell.Invalid("absolute links begin with it", "layout %s needs base_url", c.Layout))
	}
	if c.Layout == "self-contained" && given.Has("base_url") {
		problems = append(problems, stepwell.Invalid("use relative-published", "layout self-contained has no absolute links, so that base_url has no meaning"))
	}
	if c.Split != "" && !strings.Contains(c.Split, "{{") {
		if _, err := parseSplit(c.Split); err != nil {
			problems = append(problems, err)
		}
	}
	if kind := files.CompressionOf(c.single()); kind != "" && c.Compression != "" && c.Compression != kind {
		problems = append(problems, stepwell.Invalid("leave compression out", "compression %s is not what the name %s says", c.Compression, c.OutputPath))
	}
	if c.Format == "parquet" && (c.Schema == "fixed") != given.Has("columns") {
		problems = append(problems, stepwell.Invalid("give both or neither", "schema fixed and columns belong together"))
	}
	for name, kind := range c.Columns {
		if columnKinds[kind] == 0 && !strings.Contains(kind, "${") {
			problems = append(problems, stepwell.Invalid("the types are string, int, double, bool, timestamp and json", "column %s has an unknown type", name))
		}
	}
	return problems
}

// target is the place given by the user.
func (c config) target() string {
	if c.BaseDir != "" {
		return c.BaseDir
	}
	return c.OutputPath
}

// single is the name of the one file that all goes into, "" when it is not one.
func (c config) single() string {
	name := path.Base(filepath.ToSlash(c.OutputPath))
	stem := strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch path.Ext(stem) {
	case ".ndjson", ".jsonl", ".geojsonl", ".geojsons":
		if c.Format == "ndjson" {
			return name
		}
	case ".parquet", ".geoparquet":
		if c.Format == "parquet" && stem == name {
			return name
		}
	}
	return ""
}

// try looks whether the output can be written, and leaves nothing behind.
func (o Options) try(_ context.Context, env *stream.Env, c *config) []error {
	if c.Format == "api" {
		if o.HTTP == nil {
			return []error{errNoHTTP}
		}
		return nil
	}
	target, _, _ := strings.Cut(c.target(), perCollection)
	dir := env.Path(target)
	if remote(c.target()) {
		return nil
	}
	if c.single() != "" {
		dir = filepath.Dir(dir)
	}
	return tryDir(dir)
}

// tryDir makes a file in a directory, or in the nearest one above it that is there.
func tryDir(dir string) []error {
	for {
		info, err := os.Stat(dir)
		if errors.Is(err, os.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err == nil && !info.IsDir() {
			return []error{stepwell.Invalid("", "%s is a file, not a directory", dir)}
		}
		if err != nil {
			return []error{err}
		}
		break
	}
	f, err := os.CreateTemp(dir, ".stepwell-try-*")
	if err != nil {
		return []error{stepwell.Invalid("", "the output cannot be written: %v", err)}
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return []error{err}
	}
	return nil
}
