package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

// A run that replaces makes its files in a stage, a hidden directory, and moves them to their places at its end: items
// first, then the documents that link to them, the root last. Then the remaining files of earlier runs are removed.

// stageDir is where the files of this run wait.
func (t *tree) stageDir() string {
	if t.place.away {
		return filepath.Join(t.env.Data, "stage-"+t.token)
	}
	return filepath.Join(t.place.local(hidden), "stage-"+t.token)
}

// itemsBefore is the number of items in the last manifest.
func (t *tree) itemsBefore(ctx context.Context) int64 {
	n := int64(0)
	for _, f := range t.manifestBefore(ctx) {
		n += f.Items
	}
	return n
}

// manifestBefore lists the files in the last manifest of the same output.
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

// Files in the hidden directory of a stage: the run's lock, its target, and its items, once it has begun to publish.
const (
	stageLock    = "lock"
	stageOf      = "collection"
	stageItems   = "published"
	stageDoneFmt = "published-%s" // in Env.Data: the stage of this token has been published, and is gone
)

// holdStage makes the stage, and locks it as long as this run lives.
func (t *tree) holdStage() error {
	if t.place.stage == "" || t.place.away || t.staging != nil {
		return nil
	}
	dir := filepath.Join(t.place.stage, hidden)
	if err := t.place.makeDir(dir); err != nil {
		return err
	}
	var err error
	if t.staging, err = lockRun(t.env, filepath.Join(dir, stageLock)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, stageOf), []byte(t.fixed()), 0o600)
}

// resumeStage finds out whether the stage of a run that was cut off is still there. A run that has ended meanwhile at the
// same place has removed it.
func (t *tree) resumeStage() error {
	if t.place.stage == "" || t.place.away || len(t.index) == 0 {
		return nil
	}
	_, err := os.Stat(t.place.stage)
	if err == nil {
		return t.holdStage()
	}
	if _, done := os.Stat(t.stageDone()); done != nil {
		return fmt.Errorf("%w: %w", stream.ErrStateGone, err)
	}
	return nil
}

func (t *tree) stageDone() string {
	return filepath.Join(t.env.Data, fmt.Sprintf(stageDoneFmt, t.token))
}

// sweepStages removes the stages of dead runs that were not resumed, of the same collection or, for a run about all, of
// all. mine are the items of this run, when it replaces: other published items of the dead runs are removed. nil: a
// stage from which something was published stays.
func (t *tree) sweepStages(ctx context.Context, mine map[uint64]bool) error {
	if t.place.away {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(durable.EscapeGlob(t.place.local(hidden)), "stage-*"))
	for _, dir := range found {
		if err == nil && dir != t.stageDir() {
			err = t.sweepStage(ctx, dir, mine)
		}
	}
	return err
}

func (t *tree) sweepStage(ctx context.Context, dir string, mine map[uint64]bool) (err error) {
	of, err := os.ReadFile(filepath.Join(dir, hidden, stageOf))
	if err != nil || t.fixed() != "" && string(of) != t.fixed() {
		return nil //nolint:nilerr // it is being made, or somebody else's
	}
	lock := flock.New(filepath.Join(dir, hidden, stageLock))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	list, err := os.Open(filepath.Join(dir, hidden, stageItems))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(dir)
	}
	if err != nil || mine == nil {
		return errors.Join(err, list.Close())
	}
	dirs := map[string]bool{}
	lines := bufio.NewScanner(list)
	for lines.Scan() && err == nil {
		if rel := lines.Text(); !mine[xxh3.HashString(rel)] {
			err = t.removeItem(ctx, rel, dirs)
		}
	}
	if err = errors.Join(err, lines.Err(), list.Close()); err == nil {
		err = t.removeDirs(ctx, dirs, mine)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// unstage moves all files to their places, and removes those of earlier runs and the stage.
func (t *tree) unstage(ctx context.Context) error {
	before := t.manifestBefore(ctx)
	mine, err := t.items()
	if err != nil {
		return err
	}
	stage := t.place.stage
	t.place.stage = ""
	var documents []string
	err = filepath.WalkDir(stage, func(name string, d fs.DirEntry, err error) error {
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
	if err := t.removeFormer(ctx, before, mine); err != nil {
		return err
	}
	if err := t.place.sync(); err != nil {
		return err
	}
	if err := t.sweepStages(ctx, mine); err != nil {
		t.warn("stages of runs that died could not be removed", err)
	}
	if t.place.away {
		return os.RemoveAll(stage)
	}
	if err := durable.WriteFile(t.stageDone(), func(*os.File) error { return nil }); err != nil {
		return err
	}
	t.releaseStage()
	return os.RemoveAll(stage)
}

// items are the hashed paths of the run's items. They are recorded in the stage before the first of them is published,
// so that a later run knows them if this one dies and is not resumed.
func (t *tree) items() (mine map[uint64]bool, err error) {
	mine = map[uint64]bool{}
	list := func(out io.Writer) error {
		w := bufio.NewWriterSize(out, 64<<10)
		err := t.ledger.each(func(r record) error {
			if r.kind != recordItem || !t.index.current(r.entry) {
				return nil
			}
			rel := t.pathOf(r.entry)
			mine[xxh3.HashString(rel)] = true
			_, err := w.WriteString(rel + "\n")
			return err
		})
		return errors.Join(err, w.Flush())
	}
	if t.place.away {
		return mine, list(io.Discard)
	}
	if err := t.holdStage(); err != nil {
		return nil, err
	}
	return mine, durable.WriteFile(filepath.Join(t.place.stage, hidden, stageItems), func(f *os.File) error { return list(f) })
}

// releaseStage unlocks the stage; any later run may remove it.
func (t *tree) releaseStage() {
	if t.staging != nil {
		if err := t.staging.Close(); err != nil {
			t.warn("the lock of the stage", err)
		}
		t.staging = nil
	}
}

// removeFormer removes the files of earlier runs that this one has not written: items, and their documents that have
// become empty.
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
			return t.removeItem(ctx, rel, dirs)
		})
		if err != nil {
			return err
		}
	}
	return t.removeDirs(ctx, dirs, mine)
}

// removeItem removes an item's file. Its directory goes into dirs, also when the file was removed before a run was cut off.
func (t *tree) removeItem(ctx context.Context, rel string, dirs map[string]bool) error {
	there, isItem := t.inspectFile(ctx, rel)
	if !there || isItem {
		dirs[path.Dir(rel)] = true
	}
	if !isItem {
		return nil
	}
	return t.place.discard(ctx, rel)
}

// removeDirs removes the documents of directories without items.
func (t *tree) removeDirs(ctx context.Context, dirs map[string]bool, mine map[uint64]bool) error {
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

// inspectFile reports whether a file is there, and whether it holds an item.
func (t *tree) inspectFile(ctx context.Context, rel string) (there, isItem bool) {
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
	_, isItem := t.inspectFile(ctx, rel)
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
