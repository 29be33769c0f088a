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

func wrong(message, hint string) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: message, Hint: hint}
}

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
			problems = append(problems, wrong(key+" has no meaning for format "+c.Format, "it is for "+strings.Join(formats, ", ")))
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
		return wrong("format "+c.Format+" cannot be appended to: an item has one place", "write: upsert adds items, and replaces those that are there")
	case c.Format != "api":
		return nil
	case p.Mode == durable.Replace && c.Owns != "collection":
		return wrong("write: replace deletes what others have put into the collection", "owns: collection says that nobody else writes to it")
	case c.OnConflict == "skip" && (c.Write != "" || c.Keep != "" && c.Keep != durable.KeepFirst):
		return wrong("on_conflict: skip contradicts write or keep", "on_conflict: upsert is write: upsert, and skip is keep: first; keep one of them")
	case c.Keep == durable.KeepLast && c.Write == "" && c.OnConflict != "upsert":
		return wrong("keep: last replaces what is there", "add write: upsert")
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
		problems = append(problems, wrong(first+" and "+second+" are the same thing", "give one of them"))
	case len(places) == 0:
		problems = append(problems, wrong("format "+c.Format+" needs "+first, ""))
	}
	for _, place := range c.places() {
		if rest := strings.ReplaceAll(*place, perCollection, ""); strings.ContainsAny(rest, "{}") {
			problems = append(problems, wrong("only "+perCollection+" is known in braces: "+*place, "other values are written as {{ … }}"))
		}
	}
	for key, text := range map[string]string{"base_url": c.BaseURL, "url": c.URL, "catalog_url": c.CatalogURL} {
		if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme == "" || u.Host == "") {
			problems = append(problems, wrong(key+" is not a URL: "+text, "write it like https://host/path"))
		}
	}
	if name := c.single(); name != "" && c.OrganizeBy != "" && c.OrganizeBy != "flat" {
		problems = append(problems, wrong("organize_by "+c.OrganizeBy+" needs a directory, but "+c.OutputPath+" is a file", ""))
	}
	if c.OrganizeBy == "item_id" && c.Format != "json" {
		problems = append(problems, wrong("organize_by item_id is for format json", "use collection or flat"))
	}
	return problems
}

func (c config) checkFormat(given stream.Config) (problems []error) {
	if c.Layout != "" && c.Layout != "self-contained" && !given.Has("base_url") {
		problems = append(problems, wrong("layout "+c.Layout+" needs base_url", "absolute links begin with it"))
	}
	if c.Layout == "self-contained" && given.Has("base_url") {
		problems = append(problems, wrong("layout self-contained has no absolute links, so that base_url has no meaning", "use relative-published"))
	}
	if c.Split != "" && !strings.Contains(c.Split, "{{") {
		if _, err := parseSplit(c.Split); err != nil {
			problems = append(problems, err)
		}
	}
	if kind := files.CompressionOf(c.single()); kind != "" && c.Compression != "" && c.Compression != kind {
		problems = append(problems, wrong("compression "+c.Compression+" is not what the name "+c.OutputPath+" says", "leave compression out"))
	}
	if c.Format == "parquet" && (c.Schema == "fixed") != given.Has("columns") {
		problems = append(problems, wrong("schema fixed and columns belong together", "give both or neither"))
	}
	for name, kind := range c.Columns {
		if columnKinds[kind] == 0 && !strings.Contains(kind, "${") {
			problems = append(problems, wrong("column "+name+" has an unknown type", "the types are string, int, double, bool, timestamp and json"))
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
			return []error{wrong(dir+" is a file, not a directory", "")}
		}
		if err != nil {
			return []error{err}
		}
		break
	}
	f, err := os.CreateTemp(dir, ".stepwell-try-*")
	if err != nil {
		return []error{wrong("the output cannot be written: "+err.Error(), "")}
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return []error{err}
	}
	return nil
}
