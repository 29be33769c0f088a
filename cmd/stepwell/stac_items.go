package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/view"
)

// oneOff is a pipeline that a command makes of its flags.
type oneOff struct {
	failures string
	output   *choice
	// after shows what the command is for, of the outputs of the steps.
	after func(outputs func(step string) (map[string]any, error)) error
	// outputs are what it shows instead in the result of the JSON form: step.output by name.
	outputs map[string]string
}

// module is a step of such a pipeline.
func module(id, name string, config map[string]any, after ...string) definition.Step {
	for key, v := range config {
		if v == nil || v == "" {
			delete(config, key)
		}
	}
	return definition.Step{ID: id, Module: name, Config: config, DependsOn: after}
}

// runOnce checks and runs a pipeline that is not resumed by later ones: each call does its work anew.
func (p *program) runOnce(name string, o *oneOff, steps ...definition.Step) error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	d := &definition.Definition{Name: name, Steps: steps, Settings: definition.Settings{Streams: definition.Streams{NoResume: true}}}
	if o.output.value == "json" {
		for _, name := range slices.Sorted(maps.Keys(o.outputs)) {
			step, output, _ := strings.Cut(o.outputs[name], ".")
			d.Outputs = append(d.Outputs, definition.Output{Name: name, Value: "{{ steps." + step + ".outputs." + output + " }}"})
		}
	}
	if err := definition.Check(d, actions, "").Err(); err != nil {
		return err
	}
	d = definition.Expand(d, actions)
	if err := (&runFlags{failures: o.failures}).report(d); err != nil {
		return err
	}
	s, err := p.open(o.output.value, "stepwell executions list"+p.dbFlag())
	if err != nil {
		return err
	}
	s.after = func(ctx context.Context, x *api.ExecutionDetail) error {
		if o.after == nil || o.output.value == "json" {
			return nil
		}
		return o.after(func(step string) (out map[string]any, err error) { return out, s.outputs(ctx, x.ID, step, &out) })
	}
	return s.start(d, nil, "")
}

func (p *program) newStacDiscoverCommand() *cobra.Command {
	var o oneOff
	var catalog, file string
	var ids []string
	cmd := &cobra.Command{
		Use:     "discover --catalog-url URL [--output FILE]",
		Short:   "List the collections of a STAC API or a static catalog",
		Example: "  stepwell stac discover --catalog-url https://earth-search.aws.element84.com/v1\n  stepwell stac discover --catalog-url catalog.json --output collections.json",
		Args:    arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if catalog == "" {
				return stepwell.Invalid("the URL of an API, or the URL or path of a catalog.json", "--catalog-url is missing")
			}
			steps := []definition.Step{module("discover", "stac.discovery", map[string]any{"catalog_url": catalog, "collection_ids": anyList(ids)})}
			if file != "" {
				steps = append(steps, module("write", "stream.write", map[string]any{"path": file}, "discover"))
			}
			o.after, o.outputs = p.showCollections, map[string]string{"collections": "discover.collections"}
			return p.runOnce("stac-discover", &o, steps...)
		},
	}
	f := cmd.Flags()
	f.StringVar(&catalog, "catalog-url", "", "`URL` of a STAC API, or URL or path of a static catalog")
	f.StringSliceVar(&ids, "collection-ids", nil, "`ids` of collections, with * for any; defaults to all")
	f.StringVar(&file, "output", "", "`file` to write the collections to: .json, .ndjson …; defaults to a list on the terminal")
	p.addDiscoverOutput(f, &o)
	return cmd
}

// addDiscoverOutput adds the flags of a one-off whose --output is a file.
func (p *program) addDiscoverOutput(f *pflag.FlagSet, o *oneOff) {
	f.StringVar(&o.failures, "output-failures", "", "`file` for the report on failed items; defaults to failures.json when there are some")
	o.output = &choice{"text", []string{"text", "json"}}
	f.Var(o.output, "format", "text or json")
	p.settings.addRun(f)
}

func (p *program) showCollections(outputs func(string) (map[string]any, error)) error {
	out, err := outputs("discover")
	if err != nil {
		return err
	}
	list, _ := out["collections"].([]any)
	for _, c := range list {
		if m, ok := c.(map[string]any); ok {
			title, _ := m["title"].(string)
			if _, err := fmt.Fprintf(p.out, "%-40s %s\n", view.Printable(fmt.Sprint(m["id"])), view.Printable(title)); err != nil {
				return err
			}
		}
	}
	return nil
}

func anyList(texts []string) any {
	if len(texts) == 0 {
		return nil
	}
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

func (p *program) newStacIngestCommand() *cobra.Command {
	var o oneOff
	var collection, catalog, source, file, datetime, bbox string
	var most int
	cmd := &cobra.Command{
		Use:   "ingest --collection-id ID (--catalog-url URL | --source-file FILE) [--output FILE]",
		Short: "Fetch items of a STAC API, a static catalog or files into one file",
		Example: "  stepwell stac ingest --catalog-url https://earth-search.aws.element84.com/v1 \\\n      --collection-id sentinel-2-l2a --max-items 100 \\\n" +
			"      --bbox 7,46,8,47 --datetime 2026-01-01/2026-02-01 --output items.ndjson",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			switch {
			case catalog == "" && source == "":
				return stepwell.Invalid("give one of them", "both --catalog-url and --source-file are missing")
			case catalog != "" && source != "":
				return stepwell.Invalid("leave one of them out", "both --catalog-url and --source-file are given")
			}
			config := map[string]any{"collection_id": collection, "source_file": source, "catalog_url": catalog, "datetime": datetime}
			if most > 0 {
				config["max_items"] = int64(most)
			}
			if bbox != "" {
				var box []any
				if err := json.Unmarshal([]byte("["+bbox+"]"), &box); err != nil {
					return stepwell.Invalid("west,south,east,north", "--bbox %q is not a list of numbers", bbox)
				}
				config["bbox"] = box
			}
			return p.runOnce("stac-ingest", &o, module("ingest", "stac.ingest", config), module("write", "stream.write", map[string]any{"path": file}, "ingest"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&collection, "collection-id", "", "`id` of the collection")
	f.StringVar(&catalog, "catalog-url", "", "`URL` of a STAC API, or URL or path of a static catalog")
	f.StringVar(&source, "source-file", "", "`path` of a file, directory, glob or static catalog")
	f.StringVar(&datetime, "datetime", "", "time or `interval`, such as 2026-01-01/2026-02-01")
	f.StringVar(&bbox, "bbox", "", "`west,south,east,north` in degrees")
	f.IntVar(&most, "max-items", 0, "stop after so many items; defaults to all")
	f.StringVar(&file, "output", "items.ndjson", "`file` to write: .ndjson, .json, .geojson, .parquet, each also with .gz or .zst where that makes sense")
	p.addDiscoverOutput(f, &o)
	return cmd
}

func (p *program) newStacValidateCommand() *cobra.Command {
	var o oneOff
	var input, schemas string
	var extensions, lint []string
	var recursive, strict, offline bool
	cmd := &cobra.Command{
		Use:   "validate-stac --input PATH",
		Short: "Validate STAC items, collections and catalogs against their schemas",
		Long: "Validate every JSON and NDJSON file of a directory, or one file. Schemas come from --schema-dir, else from a\n" +
			"cache, else from the network; without a core schema the built-in rules of STAC are checked. Files of a directory\n" +
			"that are no STAC objects, such as manifest.json, are counted and left out. Exit code 0: all valid, 3: some are not (see the report), 1: nothing could be validated, or the first was invalid with --strict.",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if input == "" {
				return stepwell.Invalid("a directory, file or glob", "--input is missing")
			}
			paths, err := stacFiles(input, recursive)
			if err != nil {
				return err
			}
			config := map[string]any{"strict": strict, "schema_dir": schemas, "extension_schemas": anyList(extensions), "lint": anyList(lint)}
			if _, directory := paths.([]any); directory {
				config["other_objects"] = "skip"
			}
			if offline {
				config["mode"] = "offline"
			}
			o.after = p.showValidated
			o.outputs = map[string]string{"valid": "validate.valid", "invalid": "validate.invalid", "unchecked": "validate.unchecked", "items_not_checked": "validate.items_not_checked", "skipped": "validate.skipped"}
			return p.runOnce("stac-validate", &o, module("read", "stream.read", map[string]any{"path": paths}), module("validate", "stac.validate", config, "read"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "`path` of a directory, file or glob")
	f.BoolVar(&recursive, "recursive", false, "look into directories inside the directory too")
	f.BoolVar(&strict, "strict", false, "stop at the first invalid object")
	f.BoolVar(&offline, "offline", false, "never use the network for schemas")
	f.StringVar(&schemas, "schema-dir", "", "`directory` of schemas, laid out as <host>/<path> with an index.json")
	f.StringSliceVar(&extensions, "extensions", nil, "`URLs` of schemas that every object must satisfy besides its own")
	f.StringSliceVar(&lint, "lint", nil, "`checks` beyond the schemas, such as geometry,bbox or all; findings are warnings in the log")
	f.StringVar(&o.failures, "report", "", "`file` for the report on what is invalid; defaults to failures.json when there is something")
	o.output = format(f, "text", "json")
	p.settings.addRun(f)
	return cmd
}

// stacFiles are the paths to read: of a directory its JSON and NDJSON files.
func stacFiles(input string, recursive bool) (any, error) {
	info, err := os.Stat(input)
	if err != nil || !info.IsDir() {
		if err != nil && !strings.ContainsAny(input, "*?[") && !strings.Contains(input, "://") {
			return nil, fileError(input, err)
		}
		return input, nil
	}
	var paths []any
	for _, ext := range []string{"json", "geojson", "ndjson"} {
		pattern := filepath.Join(input, "*."+ext)
		if recursive {
			pattern = filepath.Join(input, "**", "*."+ext)
		}
		if any, err := hasFiles(input, "."+ext, recursive); err != nil {
			return nil, err
		} else if any {
			paths = append(paths, pattern)
		}
	}
	if len(paths) == 0 {
		hint := "--recursive looks into directories inside it too"
		if recursive {
			hint = "files end in .json, .geojson or .ndjson"
		}
		return nil, notFound(hint, "%s has no JSON files", input)
	}
	return paths, nil
}

// hasFiles looks for a file with the ending.
func hasFiles(dir, ending string, recursive bool) (found bool, err error) {
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != dir && !recursive:
			return filepath.SkipDir
		case !e.IsDir() && strings.HasSuffix(path, ending):
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found, err
}

func (p *program) showValidated(outputs func(string) (map[string]any, error)) error {
	out, err := outputs("validate")
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%v valid, %v invalid, %v not checked for lack of a schema", out["valid"], out["invalid"], out["unchecked"])
	if n, ok := out["items_not_checked"].(float64); ok && n > 0 {
		line += fmt.Sprintf(", %v not fully checked", n)
	}
	if n, ok := out["skipped"].(float64); ok && n > 0 {
		line += fmt.Sprintf(", %v no STAC objects", n)
	}
	if found, ok := out["lint"].(map[string]any); ok && len(found) > 0 {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(found)) {
			parts = append(parts, fmt.Sprintf("%s %v", name, found[name]))
		}
		line += "; findings of lint: " + strings.Join(parts, ", ")
	}
	_, err = fmt.Fprintln(p.out, line)
	return err
}
