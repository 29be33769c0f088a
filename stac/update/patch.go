package update

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/files"
)

// patch is the patch of one item. Its text has been checked; every use parses it anew, for Values are not shared
// between goroutines.
type patch struct {
	text []byte
	used atomic.Bool
}

// entryBytes is the approximate cost of an entry of a map besides its texts.
const entryBytes = 128

// load reads a patch file: an object {item id: patch}.
func load(ctx context.Context, places *files.Places, dir, path string, most int64) (map[string]*patch, error) {
	patches, size := map[string]*patch{}, int64(0)
	paths, err := places.List(ctx, dir, path)
	if err == nil && len(paths) != 1 {
		err = stepwell.Invalid("", "%s is not one file", path)
	}
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeOf(err), Message: "patch_file", Hint: stepwell.HintOf(err), Err: err}
	}
	err = places.Each(ctx, paths[0], files.Shape{Format: "json"}, nil, func(row files.Row) error {
		if row.Err != nil {
			return row.Err
		}
		if row.Key == "" {
			return stepwell.Invalid(`a patch file is a JSON object {"item id": {"properties": {…}}}`, "line %d: the patch has no item id", row.Line)
		}
		if patches[row.Key] != nil {
			return stepwell.Invalid("", "line %d: there are two patches for %q", row.Line, row.Key)
		}
		if err := checkPatch(row.Text); err != nil {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("line %d, %q", row.Line, row.Key), Err: err}
		}
		if size += int64(len(row.Text)+len(row.Key)) + entryBytes; size > most {
			return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the patches take more than max_patch_bytes (%d)", most),
				Hint: "raise max_patch_bytes, or join the patches as a table with stac.transform"}
		}
		patches[row.Key] = &patch{text: row.Text}
		return nil
	})
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeOf(err), Message: "patch_file", Hint: stepwell.HintOf(err), Err: err}
	}
	return patches, nil
}

// checkPatch validates a patch before any item comes.
func checkPatch(text []byte) error {
	v, err := item.Parse(text)
	if err != nil {
		return err
	}
	for key := range v.Members() {
		if strings.ContainsAny(key, ".[") {
			if _, err := item.ParsePath(key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *updater) patch(v *item.Value, p *patch) error {
	p.used.Store(true)
	u.patched.Add(1)
	given, err := item.Parse(p.text)
	if err != nil {
		return err
	}
	if u.mode == "replace" {
		return replace(v, given)
	}
	return u.merge(v, given, u.mode == "merge" && u.create)
}

// merge puts a patch over v; without create only where v has a value.
func (u *updater) merge(v, patch *item.Value, create bool) error {
	for key, val := range patch.Members() {
		path := item.Path{{Key: key}}
		if strings.ContainsAny(key, ".[") && v.Get(key) == nil {
			path, _ = item.ParsePath(key) // checked when it was loaded
		}
		err := v.Put(path, create, func(_ []string, old *item.Value) (*item.Value, error) {
			if old.Kind() != item.Object || val.Kind() != item.Object {
				return val.Clone(), nil
			}
			out := old.Clone()
			if create {
				out.Merge(val)
			} else {
				overlay(out, val)
			}
			return out, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// overlay is Value.Merge for members that are there.
func overlay(v, patch *item.Value) {
	for key, val := range patch.Members() {
		switch mine := v.Get(key); {
		case mine == nil:
		case mine.Kind() == item.Object && val.Kind() == item.Object:
			overlay(mine, val)
		default:
			v.Set(key, val.Clone())
		}
	}
}

// replace puts a patch in the place of the item, which stays the item that it is.
func replace(v, patch *item.Value) error {
	out := item.NewObject()
	for _, key := range []string{"type", "id", "collection"} {
		if mine := v.Get(key); mine != nil {
			out.Set(key, mine.Clone())
		}
	}
	for key, val := range patch.Members() {
		switch key {
		case "type", "id", "collection":
			if out.Get(key) != nil {
				continue
			}
		}
		path := item.Path{{Key: key}}
		if strings.ContainsAny(key, ".[") {
			path, _ = item.ParsePath(key) // checked when it was loaded
		}
		if err := out.Put(path, true, func([]string, *item.Value) (*item.Value, error) { return val.Clone(), nil }); err != nil {
			return err
		}
	}
	v.Replace(out)
	return nil
}
