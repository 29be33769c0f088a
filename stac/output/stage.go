package output

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell/item"
)

// A run that replaces makes its files in a stage, a hidden directory, and moves them to their places when it has come
// to its end: items first, then the documents that link to them, the root last. Then what is left of earlier runs goes.

// stageDir is where the files of this run wait.
func (t *tree) stageDir() string {
	if t.place.away {
		return filepath.Join(t.env.Data, "stage-"+t.token)
	}
	return filepath.Join(t.place.local(hidden), "stage-"+t.token)
}

// itemsBefore is how many items the last manifest tells of.
func (t *tree) itemsBefore(ctx context.Context) int64 {
	n := int64(0)
	for _, f := range t.manifestBefore(ctx) {
		n += f.Items
	}
	return n
}

// manifestBefore is what the last manifest of the same output tells of.
func (t *tree) manifestBefore(ctx context.Context) []listed {
	stage := t.place.stage
	t.place.stage = ""
	defer func() { t.place.stage = stage }()
	home := ""
	if t.fixed() != "" && t.perUnit && len(t.units) > 0 {
		home = t.units[0].Dir
	}
	return t.listedBefore(ctx, home)
}

// unstage moves all files to their places.
func (t *tree) unstage(ctx context.Context) error {
	before := t.manifestBefore(ctx)
	stage := t.place.stage
	t.place.stage = ""
	var documents []string
	mine := map[uint64]bool{}
	err := filepath.WalkDir(stage, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == hidden {
				return fs.SkipDir
			}
			return err
		}
		rel, err := filepath.Rel(stage, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if base := path.Base(rel); base == collectionFile || base == catalogFile || path.Dir(rel) == collections && !t.perUnit {
			documents = append(documents, rel)
			return nil
		}
		return t.place.publish(ctx, name, rel)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.SortFunc(documents, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, rel := range documents {
		mine[xxh3.HashString(rel)] = true
		if err := t.place.publish(ctx, filepath.Join(stage, filepath.FromSlash(rel)), rel); err != nil {
			return err
		}
	}
	err = t.ledger.each(func(r record) error {
		if r.kind == recordItem && t.index.current(r.entry) {
			mine[xxh3.HashString(t.pathOf(r.entry))] = true
		}
		return nil
	})
	if err == nil {
		err = t.removeFormer(ctx, before, mine)
	}
	if err == nil {
		err = t.place.sync()
	}
	return errors.Join(err, os.RemoveAll(stage))
}

// removeFormer removes the files of earlier runs that this one has not written: items, and documents beside them that
// have become empty.
func (t *tree) removeFormer(ctx context.Context, before []listed, mine map[uint64]bool) error {
	dirs := map[string]bool{}
	if !t.perUnit {
		if err := t.removeCollections(ctx, mine); err != nil {
			return err
		}
	}
	for _, f := range before {
		err := t.eachListed(ctx, f.Path, func(rel string) error {
			if mine[xxh3.HashString(rel)] || !strings.HasSuffix(rel, ".json") || t.config.OrganizeBy == "item_id" && path.Base(path.Dir(rel))+".json" != path.Base(rel) {
				return nil
			}
			there, isItem := t.look(ctx, rel)
			if !there || isItem { // one that is not there was removed before the run was cut off
				dirs[path.Dir(rel)] = true
			}
			if !isItem {
				return nil
			}
			return t.place.discard(ctx, rel)
		})
		if err != nil {
			return err
		}
	}
	for dir := range dirs {
		for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
			if err := t.removeEmpty(ctx, dir, mine); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCollections removes the documents of collections that this run does not have.
func (t *tree) removeCollections(ctx context.Context, mine map[uint64]bool) error {
	names, err := t.namesIn(ctx, collections)
	for _, rel := range names {
		if err == nil && !mine[xxh3.HashString(rel)] {
			err = t.place.discard(ctx, rel)
		}
	}
	return err
}

// removeEmpty removes the documents of a directory that this run has not written, and the directory when nothing is
// left in it.
func (t *tree) removeEmpty(ctx context.Context, dir string, mine map[uint64]bool) error {
	for _, name := range []string{collectionFile, catalogFile, "manifest.json"} {
		rel := path.Join(dir, name)
		written := mine[xxh3.HashString(rel)] || name == "manifest.json" && (mine[xxh3.HashString(path.Join(dir, collectionFile))] || mine[xxh3.HashString(path.Join(dir, catalogFile))])
		if written || t.config.Format == "json" && !t.perUnit {
			continue
		}
		if err := t.place.discard(ctx, rel); err != nil {
			return err
		}
	}
	if t.place.away {
		return nil
	}
	if t.place.locks[dir] == nil { // the hidden directory of a lock that is not ours goes, too, when nothing is in it
		os.Remove(t.place.local(path.Join(dir, hidden)))
	}
	os.Remove(t.place.local(dir)) // unless there is something in it
	return nil
}

// namesIn are the JSON files in a directory of the output.
func (t *tree) namesIn(ctx context.Context, dir string) ([]string, error) {
	found, err := t.files.List(ctx, "", t.place.shown(dir)+"/*.json")
	if err != nil {
		return nil, nil //nolint:nilerr // nothing is there
	}
	for i := range found {
		found[i] = t.place.relative(found[i])
	}
	return found, nil
}

// eachListed gives the files that an entry of a manifest stands for: itself, or those of a directory and below. In a
// flat output, where others may have directories, only those right in it.
func (t *tree) eachListed(ctx context.Context, entry string, do func(rel string) error) error {
	dir, many := strings.CutSuffix(entry, "/")
	switch {
	case !many:
		return do(entry)
	case t.config.OrganizeBy == "flat" || t.place.away:
		names, err := t.namesIn(ctx, dir)
		if t.config.OrganizeBy != "flat" && err == nil {
			names, err = t.namesIn(ctx, path.Join(dir, "**"))
		}
		for _, rel := range names {
			if err == nil {
				err = do(rel)
			}
		}
		return err
	}
	err := filepath.WalkDir(t.place.local(dir), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), hidden):
			return fs.SkipDir
		case d.IsDir():
			return context.Cause(ctx)
		}
		return do(t.place.relative(name))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// look reports whether a file is there, and whether it holds an item.
func (t *tree) look(ctx context.Context, rel string) (there, isItem bool) {
	text, err := t.place.read(ctx, rel, maxDocument)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist), false
	}
	v, err := item.Parse(text)
	if err != nil {
		return true, false
	}
	kind, _ := v.Get("type").Str()
	return true, kind == "Feature"
}

func (t *tree) isItem(ctx context.Context, rel string) bool {
	_, isItem := t.look(ctx, rel)
	return isItem
}

// takenByAnother reports whether an item of another collection has the file that an item would get, where all
// collections share one directory.
func (t *tree) takenByAnother(ctx context.Context, j *job) bool {
	text, err := t.place.read(ctx, j.rel, maxDocument)
	if err != nil {
		return false // there is none
	}
	v, err := item.Parse(text)
	if err != nil {
		return false
	}
	collection, _ := v.Get("collection").Str()
	return collection != j.it.Collection()
}
