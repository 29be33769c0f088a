// Package update is the stream module stac.update: it changes items as they pass, by rules that are the same
// for all, or by a patch per item; and it repairs and migrates them (specification: stac-manager, Update).
//
// What is not named stays as it is, byte for byte. An item that a rule does not fit is a failure of that item
// alone; a rule that fits none is an error before the first. Stable.
package update

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
)

// Options are what the module needs.
type Options struct {
	// Places reads patch files. Defaults to the local disk.
	Places *files.Places
}

// Modules gives stac.update.
func Modules(o Options) []stream.Module {
	if o.Places == nil {
		o.Places = files.New(files.Options{})
	}
	return []stream.Module{{Spec: describe(), Check: check,
		Open: func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
			return open(ctx, o, env, config)
		},
		Try: func(ctx context.Context, env *stream.Env, config map[string]any) []error {
			if _, err := open(ctx, o, env, config); err != nil {
				return []error{err}
			}
			return nil
		}}}
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

func open(ctx context.Context, o Options, env *stream.Env, config map[string]any) (*updater, error) {
	u, problems := parse(config, false)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	if config["auto_update_timestamp"] == true {
		u.stamp = env.Started.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if path, _ := config["patch_file"].(string); path != "" {
		var err error
		if u.patches, err = load(ctx, o.Places, env.Dir, path, config["max_patch_bytes"].(int64)); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// check is what can be said without reading files.
func check(config map[string]any) []error {
	_, problems := parse(config, true)
	return problems
}

// parse reads all of a config but the patch file; paths with templates in them are left for later.
func parse(config map[string]any, templates bool) (*updater, []error) {
	u := &updater{create: config["create_missing_paths"] != false, mode: "merge"}
	var problems []error
	add := func(err error, where string) {
		if err != nil {
			problems = append(problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: where, Hint: stepwell.HintOf(err), Err: err})
		}
	}
	if mode, ok := config["mode"].(string); ok {
		u.mode = mode
	}
	updates, _ := config["updates"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(updates)) { // a before a.b, always
		r, err := parseRule(key, updates[key])
		add(err, "updates")
		u.updates = append(u.updates, r)
	}
	for _, text := range texts(config["removes"]) {
		if templates && strings.Contains(text, "{{") {
			continue
		}
		path, err := item.ParsePath(text)
		add(err, "removes")
		u.removes = append(u.removes, path)
	}
	u.repair = slices.Contains(texts(config["repair"]), "datetime")
	u.migrate = config["migrate"] != nil
	if len(updates) == 0 && len(texts(config["removes"])) == 0 && config["patch_file"] == nil && !u.repair && !u.migrate && config["auto_update_timestamp"] == false {
		add(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "there is nothing to do", Hint: "give updates, removes, patch_file, repair or migrate"}, "config")
	}
	return u, problems
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

func texts(v any) []string {
	switch list := v.(type) {
	case []string:
		return list
	case []any:
		out := make([]string, 0, len(list))
		for _, one := range list {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}
