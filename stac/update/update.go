// Package update is the stream module stac.update: it changes items as they pass, by rules that are the same
// for all, or by a patch per item; and it repairs and migrates them (specification: stac-manager, Update).
//
// Members that no rule names stay as they are, byte for byte. An item that a rule does not fit is a failure of that item
// alone; a rule that fits none is an error before the first. Stable.
package update

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Modules gives stac.update; places reads patch files.
func Modules(places *files.Places) []stream.Module {
	return []stream.Module{stream.Typed[config]{Spec: describe(), Check: (*config).check, Pure: true,
		Open: func(ctx context.Context, env *stream.Env, c *config) (any, error) {
			return open(ctx, places, env, c)
		}}.Module()}
}

// config is the step's config.
type config struct {
	Updates   map[string]any `json:"updates" doc:"Values set in every item: path and value, which may hold {item_id}, {collection_id}, {asset_key} and {properties.x}."`
	Removes   []string       `json:"removes" minLength:"1" doc:"The paths to remove, which may hold wildcards: assets.*.alternate."`
	PatchFile string         `json:"patch_file" doc:"A JSON file with an object of patches, by item id."`
	Mode      string         `json:"mode" enum:"merge,replace,update_only" default:"merge" doc:"What a patch does to its item; updates and removes do the same in every mode."`
	Create    bool           `json:"create_missing_paths" default:"true" doc:"Create missing parents; otherwise updates and patches change only what exists."`
	Stamp     *bool          `json:"auto_update_timestamp" default:"true" doc:"Set properties.updated of items that the step changes to the time when the execution began, in UTC with milliseconds."`
	Repair    []string       `json:"repair" enum:"datetime" doc:"What to repair first: datetime."`
	Migrate   string         `json:"migrate" enum:"1.1.0" doc:"The STAC version to bring items to."`
	MaxPatch  int64          `json:"max_patch_bytes" minimum:"1" default:"268435456" doc:"How much memory the patches may take."`

	updater updater
}

// rule sets every place of a path.
type rule struct {
	path  item.Path
	value *pattern.Tree
}

// updater is the component. Modify is called by several goroutines.
type updater struct {
	removes []item.Path
	updates []rule
	patches map[string]*patch
	mode    string
	create  bool
	stamp   string // for properties.updated of changed items; empty: none
	repair  bool
	migrate bool

	patched, migrated, repaired atomic.Int64
}

func open(ctx context.Context, places *files.Places, env *stream.Env, c *config) (_ any, err error) {
	u := &c.updater
	if c.Stamp != nil && *c.Stamp {
		u.stamp = env.Started.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if c.PatchFile != "" {
		if u.patches, err = load(ctx, places, env.Dir, c.PatchFile, c.MaxPatch); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// check checks rules that tags cannot express without the patch file, and makes the updater.
func (c *config) check(given stream.Config) []error {
	var found stream.Problems
	u := &c.updater
	u.create, u.mode = c.Create, c.Mode
	for _, key := range slices.Sorted(maps.Keys(c.Updates)) { // a before a.b, always
		r, err := parseRule(key, c.Updates[key])
		found.Add("updates", err)
		u.updates = append(u.updates, r)
	}
	for _, text := range c.Removes {
		path, err := item.ParsePath(text)
		found.Add("removes", err)
		u.removes = append(u.removes, path)
	}
	u.repair = slices.Contains(c.Repair, "datetime")
	u.migrate = given.Has("migrate")
	if len(c.Updates) == 0 && !given.Has("removes") && !given.Has("patch_file") && !u.repair && !u.migrate && c.Stamp != nil && !*c.Stamp {
		found.Add("config", stepwell.Invalid("give updates, removes, patch_file, repair or migrate", "there is nothing to do"))
	}
	return found
}

func parseRule(key string, value any) (rule, error) {
	path, err := item.ParsePath(key)
	if err != nil {
		return rule{}, err
	}
	tree, err := pattern.ParseTree(value)
	if err != nil {
		return rule{}, err
	}
	if tree.UsesAsset() && (len(path) < 2 || path[0].Key != "assets") {
		return rule{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "{asset_key} in the value of " + key + " stands for nothing",
			Hint: "it has a meaning in paths that begin with assets.*"}
	}
	return rule{path, tree}, nil
}
