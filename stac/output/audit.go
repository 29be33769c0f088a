package output

import (
	"cmp"
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

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// An output of single files ends with an audit of the files on disk: documents are parsed and checked, links followed,
// and items counted.

// fullCheck is up to how many items each is looked at; of more it is a sample.
const fullCheck = 1_000_000

// faults are the first few errors found by an audit.
type faults struct {
	first []string
	count int
}

func (f *faults) add(rel, format string, args ...any) {
	if f.count++; len(f.first) < 5 {
		f.first = append(f.first, rel+": "+fmt.Sprintf(format, args...))
	}
}

// auditor looks at the files of an output.
type auditor struct {
	*tree
	faults
	stride int64 // every so many items are looked at
	seen   int64
	add    func(listed)
}

// audit checks and lists the items that are on disk. Those of a remote output are listed as they were written, unchecked.
func (t *tree) audit(ctx context.Context, add func(listed)) error {
	if t.place.away {
		t.unchecked = t.written
		return t.eachItem(add)
	}
	dirs, err := t.homes(ctx)
	if err != nil {
		return err
	}
	a := &auditor{tree: t, add: add, stride: 1}
	total := int64(0)
	for _, dir := range dirs {
		n, err := a.walk(ctx, dir, func(string, fs.DirEntry) error { return nil })
		if err != nil {
			return err
		}
		total += n
	}
	if total > fullCheck {
		a.stride = (total + fullCheck - 1) / fullCheck
		t.unchecked = total - total/a.stride
	}
	for _, dir := range dirs {
		if err := a.home(ctx, dir); err != nil {
			return err
		}
	}
	return a.err()
}

func (a *auditor) err() error {
	if a.count == 0 {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeFailed, Message: fmt.Sprintf("the output at %s is not sound, %d faults: %s", a.place.shown(""), a.count, strings.Join(a.first, "; ")),
		Hint: "repair or remove the files named, and run the step again"}
}

// homes are the directories of the collections: that of this stream, or all that the output has; "" where files do not
// tell collections apart.
func (t *tree) homes(ctx context.Context) ([]string, error) {
	if !t.perUnit {
		return []string{""}, nil
	}
	if only := t.only(); only != nil {
		return []string{only.Dir}, nil
	}
	entries, err := os.ReadDir(t.place.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var dirs []string
	for _, e := range entries {
		if info, serr := os.Stat(filepath.Join(t.place.root, e.Name(), collectionFile)); e.IsDir() && serr == nil && info.Mode().IsRegular() {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, err
}

// walk calls file for the item files below a directory, and returns their number. Without a directory for each
// collection these are the files with names of items.
func (a *auditor) walk(ctx context.Context, dir string, file func(rel string, d fs.DirEntry) error) (n int64, err error) {
	visit := func(rel string, d fs.DirEntry) error {
		n++
		return file(rel, d)
	}
	switch {
	case a.config.Format == "json" && a.perUnit:
		return n, a.readDir(ctx, path.Join(dir, "items"), func(d fs.DirEntry) error { return a.ifJSON(path.Join(dir, "items"), d, visit) })
	case a.config.Format == "catalog":
		return n, a.walkNodes(ctx, dir, visit)
	case a.config.OrganizeBy == "flat":
		return n, a.readDir(ctx, "", func(d fs.DirEntry) error {
			if !a.isItem(ctx, d.Name()) {
				return nil
			}
			return a.ifJSON("", d, visit)
		})
	}
	return n, a.readDir(ctx, "", func(d fs.DirEntry) error {
		name := d.Name() + ".json"
		if info, err := os.Stat(a.place.local(path.Join(d.Name(), name))); !d.IsDir() || err != nil || !a.isItem(ctx, path.Join(d.Name(), name)) {
			return nil //nolint:nilerr // not one of ours
		} else {
			return visit(path.Join(d.Name(), name), fs.FileInfoToDirEntry(info))
		}
	})
}

func (a *auditor) ifJSON(dir string, d fs.DirEntry, visit func(string, fs.DirEntry) error) error {
	if d.IsDir() || !strings.HasSuffix(d.Name(), ".json") || d.Name()[0] == '.' {
		return nil
	}
	return visit(path.Join(dir, d.Name()), d)
}

// walkNodes gives the items of a collection in a catalog, at any depth.
func (a *auditor) walkNodes(ctx context.Context, dir string, visit func(string, fs.DirEntry) error) error {
	return a.readDir(ctx, dir, func(d fs.DirEntry) error {
		switch name := d.Name(); {
		case name[0] == '.' || name == collectionFile || name == catalogFile || name == "manifest.json":
			return nil
		case d.IsDir():
			return a.walkNodes(ctx, path.Join(dir, name), visit)
		}
		return a.ifJSON(dir, d, visit)
	})
}

// readDir gives the entries of a directory, some at a time, and up to 1,000 by their names: file systems have orders of their own, and what
// is written of the same items shall be the same.
func (a *auditor) readDir(ctx context.Context, dir string, entry func(fs.DirEntry) error) error {
	f, err := os.Open(a.place.local(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		some, err := f.ReadDir(1000)
		slices.SortFunc(some, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, d := range some {
			if err := entry(d); err != nil {
				return err
			}
		}
		if err == io.EOF { //nolint:errorlint // bare
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// home checks and lists a collection and its items.
func (a *auditor) home(ctx context.Context, dir string) error {
	collection := ""
	if u := a.unitAt(dir); a.perUnit && (u == nil || !u.touched) { // somebody else's
		collection = a.idOf(ctx, dir)
	} else if a.perUnit {
		doc, err := a.document(ctx, path.Join(dir, collectionFile), nil)
		if err != nil {
			return err
		}
		collection, _ = doc.Get("id").Str()
	}
	for _, u := range a.units {
		if a.perUnit || u.ID == "" || !u.touched || !u.Filled {
			continue
		}
		if _, err := a.document(ctx, a.collectionPath(u, u.ID), nil); err != nil {
			return err
		}
	}
	_, err := a.walk(ctx, dir, func(rel string, d fs.DirEntry) error {
		info, err := d.Info()
		if err != nil {
			return err
		}
		a.add(listed{Path: rel, Collection: collection, Items: 1, Bytes: info.Size(), Created: stamp(info.ModTime())})
		if a.seen++; a.seen%a.stride != 0 {
			return nil
		}
		return a.item(ctx, rel)
	})
	return err
}

func (a *auditor) unitAt(dir string) *unit {
	for _, u := range a.units {
		if u.Dir == dir {
			return u
		}
	}
	return nil
}

// idOf is the id of a collection that another stream has written.
func (a *auditor) idOf(ctx context.Context, dir string) string {
	doc, _, err := a.existing(ctx, path.Join(dir, collectionFile))
	if err != nil {
		return ""
	}
	id, _ := doc.Get("id").Str()
	return id
}

// document parses and checks a collection or catalog, and those below it.
func (a *auditor) document(ctx context.Context, rel string, above []string) (*item.Value, error) {
	doc, text, err := a.existing(ctx, rel)
	if err != nil {
		a.faults.add(rel, "%v", err)
		return nil, nil
	}
	if doc == nil {
		a.faults.add(rel, "it is missing")
		return nil, nil
	}
	a.core(rel, text)
	for _, to := range a.links(rel, doc, "root", "parent", "collection", "item", "child") {
		if path.Base(to) == catalogFile && !slices.Contains(above, to) && len(above) < 20 {
			if _, err := a.document(ctx, to, append(above, rel)); err != nil {
				return nil, err
			}
		}
	}
	return doc, context.Cause(ctx)
}

// links checks that links of some kinds lead to files where they lead into the output, but for the root of a catalog, which
// is written last. It returns the children that are there.
func (a *auditor) links(rel string, doc *item.Value, kinds ...string) (children []string) {
	for _, l := range doc.Get("links").Elements() {
		href, _ := l.Get("href").Str()
		kind, _ := l.Get("rel").Str()
		to, ours := a.relOf(path.Dir(rel), href)
		if !ours || !slices.Contains(kinds, kind) || to == catalogFile && a.config.Format == "catalog" {
			continue
		}
		if _, err := os.Stat(a.place.local(to)); err != nil {
			a.faults.add(rel, "its %s link leads to %s, which is not there", kind, href)
		} else if kind == "child" {
			children = append(children, to)
		}
	}
	return children
}

// core checks a document against the core of STAC, of the versions whose rules are built in.
func (a *auditor) core(rel string, text []byte) {
	doc, err := schema.Parse(text)
	if err != nil {
		a.faults.add(rel, "%v", err)
		return
	}
	defer doc.Release()
	members, _ := doc.Value().(map[string]any) // existing has looked
	version, _ := members["stac_version"].(string)
	rules := schema.Core(cmp.Or(version, "1.1.0"))
	if rules == nil {
		return
	}
	for _, p := range rules.Check(doc) {
		a.faults.add(rel, "%s: %s", cmp.Or(p.Pointer, "/"), p.Message)
	}
}

// item checks that an item can be read, and where its links lead.
func (a *auditor) item(ctx context.Context, rel string) error {
	doc, _, err := a.existing(ctx, rel)
	switch {
	case err != nil:
		a.faults.add(rel, "%v", err)
		return nil
	case doc == nil:
		a.faults.add(rel, "it is gone")
		return nil
	}
	if u := a.byID[stream.New(doc, stream.Place{}).Collection()]; !a.perUnit && (u == nil || !u.touched) {
		return nil // another stream's, which may still be at it
	}
	a.links(rel, doc, "root", "parent", "collection")
	return nil
}
