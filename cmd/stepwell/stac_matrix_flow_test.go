package main

import "strings"

// document is the workflow of a cell.
func (c combination) document(url, held, window, schemas string) map[string]any {
	step := func(id, module string, config map[string]any, after ...string) map[string]any {
		s := map[string]any{"id": id, "module": module, "config": config}
		if len(after) > 0 {
			s["depends_on"] = after
		}
		return s
	}
	source := url
	credentials := map[string]any{"api_key": "hidden-key", "query": "key"}
	ingest := map[string]any{"datetime": window, "limit": 2, "retry": map[string]any{"attempts": 1}, "credentials": credentials}
	var steps []any
	last := "ingest"
	switch {
	case c.flow == "table":
		file := "flights.csv"
		scaffold := map[string]any{"stac_version": "1.0.0", "defaults": map[string]any{"license": "CC0-1.0"}}
		if c.shape == "matrix" {
			file, scaffold["collection_id"] = "${collection}.csv", "${collection}"
		}
		steps = append(steps, step("rows", "stac.transform", map[string]any{"source_file": file, "mappings": []any{
			map[string]any{"source_field": "flight", "target_field": "id", "required": true},
			map[string]any{"source_field": "collection", "target_field": "collection"},
			map[string]any{"source_field": "flown", "target_field": "datetime", "type": "datetime", "required": true},
			map[string]any{"source_field": "rev", "target_field": "properties.rev", "type": "integer"},
			map[string]any{"source_field": "footprint", "target_field": "geometry", "type": "geometry"}}}),
			step("scaffold", "stac.scaffold", scaffold, "rows"))
		last = "scaffold"
	case c.shape == "discovery":
		steps = append(steps, step("discover", "stac.discovery", map[string]any{"catalog_url": source, "credentials": credentials}), step("ingest", "stac.ingest", ingest, "discover"))
	case c.shape == "matrix":
		ingest["catalog_url"], ingest["collection_id"] = source, "${collection}"
		steps = append(steps, step("ingest", "stac.ingest", ingest))
	default:
		ingest["catalog_url"], ingest["collection_ids"] = source, matrixCollections
		steps = append(steps, step("ingest", "stac.ingest", ingest))
	}
	validate := map[string]any{"schema_dir": schemas, "mode": "offline", "missing_schema": "fail"}
	view := func(after string) map[string]any {
		return step("view", "stac.extension", map[string]any{"schema_uri": "https://stac-extensions.github.io/view/v1.0.0/schema.json", "schema_dir": schemas, "mode": "offline",
			"defaults": map[string]any{"properties.view:off_nadir": 3}}, after)
	}
	switch c.flow {
	case "discover":
		steps = append(steps, view("ingest"), step("validate", "stac.validate", validate, "view"))
		last = "validate"
	case "patch":
		steps = append(steps, step("update", "stac.update", map[string]any{"updates": map[string]any{"properties.license": "CC0-1.0"}, "removes": []any{"assets.preview"}}, "ingest"))
		last = "update"
	case "table":
		steps = append(steps, step("validate", "stac.validate", validate, "scaffold"))
		last = "validate"
	case "diamond":
		steps = append(steps, view("ingest"),
			step("update", "stac.update", map[string]any{"updates": map[string]any{"properties.license": "CC0-1.0"}, "removes": []any{"assets.preview"}}, "ingest"),
			step("validate", "stac.validate", validate, "view", "update"))
		last = "validate"
	}
	steps = append(steps, step("output", "stac.output", c.output(held), last))
	doc := map[string]any{"name": "cell", "steps": steps}
	if c.shape == "matrix" {
		var entries []any
		for _, name := range matrixCollections {
			entries = append(entries, map[string]any{"collection": name})
		}
		doc["strategy"] = map[string]any{"matrix": entries}
	}
	return doc
}

// output is the config of the last step.
func (c combination) output(held string) map[string]any {
	format, organize, _ := strings.Cut(c.target, " ")
	out := map[string]any{"format": format}
	if format == "api" {
		out["url"], out["batch_size"] = held, 3
		switch organize {
		case "skip":
			out["on_conflict"] = organize
		case "replace":
			out["owns"] = "collection"
			fallthrough
		default:
			out["write"] = organize
		}
		return out
	}
	if organize != "" {
		out["organize_by"] = organize
	}
	switch {
	case c.place == "base_dir":
		out["base_dir"] = "out"
	case c.place == "output_path":
		out["output_path"] = "out"
	default:
		out["output_path"] = "out/" + c.place
	}
	if format == "catalog" {
		out["catalog_id"], out["description"] = "flights", "All flights."
	}
	return out
}

// wrong says what the flow should have done to an item and has not.
func (c combination) wrong(props, assets map[string]any) string {
	_, preview := assets["preview"]
	viewed, patched := props["view:off_nadir"] != nil, props["license"] == "CC0-1.0"
	switch {
	case c.flow != "table" && assets["mosaic"] == nil:
		return "the asset is gone"
	case (c.flow == "discover" || c.flow == "diamond") != viewed:
		return "the extension's field"
	case (c.flow == "patch" || c.flow == "diamond") && (!patched || preview):
		return "the update"
	}
	return ""
}
