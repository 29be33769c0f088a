package update

import "github.com/stepwell/stepwell/spec"

const doc = `Changes every item as it passes. The order is: ` + "`repair`, `migrate`, `removes`, `updates`, the item's patch of `patch_file`, then the time stamp" + `.

- A **path** is ` + "`properties.eo:cloud_cover`, `assets.\"ANG.txt\".href`, `assets.*.roles` or `providers[0].name`" + `; an index must exist. A path that leads through something that is
  no object fails the item; removing what is not there does nothing.
- A **value** may hold ` + "`{item_id}`, `{collection_id}`, `{properties.x}`" + ` and, at assets, ` + "`{asset_key}`" + `. A text that is only ` + "`{properties.x}`" + ` keeps the kind of the value.
  Lists are replaced, never joined. A null is written as null; use ` + "`removes`" + ` to take something away.
- A **patch file** is a JSON object ` + "`{item id: patch}`" + `. A patch is an object as the item is, or has paths as its outermost names (` + "`properties.platform`" + `); a name that the item has as it
  stands is that name. ` + "`mode`" + ` says what a patch does: ` + "`merge`" + ` puts it over the item, ` + "`update_only`" + ` only where the item has a value already, ` + "`replace`" + ` puts it in the place of the item,
  which keeps its id, type and collection.
- **migrate** ` + "`1.1.0`" + ` makes a STAC 1.1.0 item of a 1.0.0 one: ` + "`eo:bands` and `raster:bands` become `bands`, `proj:epsg` becomes `proj:code`" + `, the licences ` + "`proprietary` and `various`" + ` become
  ` + "`other`" + `, and the eo, raster and projection extensions their version 2, if the item still has fields of theirs. Bands are matched by their position. Nothing else ever changes ` + "`stac_version`" + `.
- **repair** ` + "`[datetime]`" + ` writes a T for the blank in date-times such as ` + "`2022-03-24 10:27:05Z`" + `, and a Z where no zone is told.

` + "`auto_update_timestamp`" + ` sets ` + "`properties.updated`" + ` of the items that the step has changed to the time at which the execution began: one time for all of them, also after a
crash. Items that need no change are not touched, so a second run changes nothing.`

func describe() spec.Spec {
	return spec.Spec{
		Name: "stac.update", Aliases: []string{"UpdateModule", "ModifyModule"},
		Summary: "Changes items as they pass: sets, removes, patches, repairs, migrates.",
		Doc:     doc,
		Stream: &spec.Stream{Role: spec.Modifier, Parallel: true,
			Sets: []spec.Sets{{Keys: "updates"}, {Values: "removes"}, {Path: "properties.updated"}}},
		Outputs: []spec.Field{
			{Name: "patched", Type: spec.Integer, Doc: "How many items had a patch."},
			{Name: "patches_unused", Type: spec.Integer, Doc: "How many patches were for items that did not arrive."},
			{Name: "migrated", Type: spec.Integer, Doc: "How many items were of an older version."},
			{Name: "repaired", Type: spec.Integer, Doc: "How many items needed a repair."},
		},
		Examples: []spec.Example{{Title: "Note the processing, and take signed links away", YAML: `id: update
module: stac.update
depends_on: [ingest]
config:
  updates:
    properties.processed: true
    properties.processing_note: "{item_id} of {collection_id}"
    assets.*.title: "{asset_key}"
  removes: [assets.*.signed_href]
`}, {Title: "Bring items to STAC 1.1.0", YAML: `id: migrate
module: stac.update
depends_on: [ingest]
config:
  migrate: "1.1.0"
  repair: [datetime]
  auto_update_timestamp: false
`}},
	}
}
