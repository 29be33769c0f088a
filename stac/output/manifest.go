package output

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// maxListed is how many files a manifest lists one by one. Of more, it lists the directories.
const maxListed = 10_000

// manifest lists the contents of an output (stac-manager, data contracts §6).
type manifest struct {
	Workflow   string   `json:"workflow_name"`
	Timestamp  string   `json:"timestamp"`
	Format     string   `json:"format"`
	OrganizeBy string   `json:"organize_by,omitempty"`
	OutputPath string   `json:"output_path"`
	Files      []listed `json:"files,omitempty"`
	// Grouped says that each entry of files is a directory with all its files.
	Grouped    bool  `json:"grouped,omitempty"`
	TotalItems int64 `json:"total_items"`
	TotalBytes int64 `json:"total_size_bytes"`
	TotalFiles int64 `json:"total_files"`
}

// listed is a file of the manifest.
type listed struct {
	Path       string `json:"path"`
	Collection string `json:"collection_id,omitempty"`
	Items      int64  `json:"item_count"`
	Bytes      int64  `json:"size_bytes"`
	Files      int64  `json:"file_count,omitempty"` // of a directory
	Created    string `json:"created_at,omitempty"`
}

// list collects files, and turns to directories when there are too many.
type list struct {
	manifest
	groups map[string]*listed
	level  int // of grouping: 0 none, 1 directory, 2 its first part, 3 all
}

func (l *list) add(f listed) {
	l.TotalItems += f.Items
	l.TotalBytes += f.Bytes
	l.TotalFiles++
	if l.level == 0 && len(l.Files) < maxListed {
		l.Files = append(l.Files, f)
		return
	}
	if l.level == 0 {
		l.level, l.groups = 1, map[string]*listed{}
		for _, old := range l.Files {
			old.Files = 1
			l.group(old)
		}
		l.Files = nil
	}
	f.Files = 1
	l.group(f)
	for len(l.groups) > maxListed {
		l.level++
		old := l.groups
		l.groups = map[string]*listed{}
		for _, key := range slices.Sorted(maps.Keys(old)) {
			l.group(*old[key])
		}
	}
}

func (l *list) group(f listed) {
	dir := strings.TrimSuffix(f.Path, "/")
	if !strings.HasSuffix(f.Path, "/") {
		dir = path.Dir(f.Path)
	}
	switch l.level {
	case 2:
		dir, _, _ = strings.Cut(dir, "/")
	case 3:
		dir = "."
	}
	g := l.groups[dir]
	if g == nil {
		f.Path = dir + "/"
		l.groups[dir] = &f
		return
	}
	if g.Collection != f.Collection {
		g.Collection = ""
	}
	g.Items += f.Items
	g.Bytes += f.Bytes
	g.Files += f.Files
	g.Created = max(g.Created, f.Created)
}

// end completes the manifest.
func (l *list) end() manifest {
	for _, dir := range slices.Sorted(maps.Keys(l.groups)) {
		l.Files = append(l.Files, *l.groups[dir])
	}
	l.Grouped = l.level > 0
	return l.manifest
}

// finish writes the manifest of the files on disk, and returns the outputs.
func (b *base) finish(ctx context.Context, each func(add func(listed)) error) (outputs map[string]any, err error) {
	if err := b.env.HandOver(ctx); err != nil { // what follows has no versions
		return nil, err
	}
	l := &list{manifest: manifest{Workflow: b.env.Workflow, Timestamp: stamp(time.Now()), Format: b.config.Format,
		OrganizeBy: b.config.OrganizeBy, OutputPath: b.place.shown(b.config.single())}}
	home, name := "", "manifest.json"
	if single := b.config.single(); single != "" {
		name = single + ".manifest.json"
	} else if only := b.only(); only != nil {
		home = only.Dir
	}
	done, err := b.place.wait(ctx, home)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := each(l.add); err != nil {
		return nil, err
	}
	if err := b.listOthers(ctx, home, l); err != nil {
		return nil, err
	}
	m := l.end()
	files := make([]string, len(m.Files))
	for i, f := range m.Files {
		files[i] = b.place.shown(f.Path)
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	if err := b.place.write(ctx, home, path.Join(home, name), append(text, '\n')); err != nil {
		return nil, err
	}
	if err := b.place.sync(); err != nil {
		return nil, err
	}
	m.Files = nil
	return map[string]any{"items_written": b.written, "items_repeated": b.repeated, "items_left_out": b.leftOut, "items_refused": b.refused,
		"items_not_checked": b.unchecked, "files_written": files, "manifest_path": b.place.shown(path.Join(home, name)), "manifest": m}, nil
}

// listOthers lists existing files of other runs from the last manifest: those of collections that are not in this run.
// Formats of one file for each item list the files on disk, and outputs of one file have no others.
func (b *base) listOthers(ctx context.Context, home string, l *list) error {
	if b.policy.Mode == durable.Replace || b.config.single() != "" || b.config.Format != "ndjson" && b.config.Format != "parquet" {
		return nil
	}
	mine := map[string]bool{}
	for _, f := range l.Files {
		mine[f.Path] = true
	}
	for _, f := range b.listedBefore(ctx, home) {
		if mine[f.Path] || strings.HasSuffix(f.Path, "/") || slices.ContainsFunc(b.units, func(u *unit) bool { return u.Dir == "" || strings.HasPrefix(f.Path, u.Dir+"/") }) {
			continue
		}
		in, _, err := b.files.OpenFile(ctx, b.place.shown(f.Path))
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			continue
		}
		if err != nil {
			return err
		}
		if err := in.Close(); err != nil {
			return err
		}
		l.add(f)
	}
	return nil
}

// end makes the ledger durable for a later run, without the items that have been replaced, and lets everything go.
func (b *base) end() (state, error) {
	s, err := b.commit()
	if err == nil && b.stale {
		s = state{Rejects: b.rejected, Token: b.token}
		s.Ledger, s.Size, err = b.ledger.compact(b.about, b.index.current)
	}
	if err != nil {
		return state{}, err
	}
	s.Closed, s.Later = true, true
	b.abandon() // there is nothing left to lose
	return s, nil
}

// listedBefore are the files in the last manifest of the whole output; none when there is no such manifest.
func (b *base) listedBefore(ctx context.Context, home string) []listed {
	text, err := b.place.read(ctx, path.Join(home, "manifest.json"), maxDocument)
	var m manifest
	if err != nil || json.Unmarshal(text, &m) != nil || m.Format != b.config.Format {
		return nil
	}
	return m.Files
}

// only is the one collection that this stream was for and all its items are of; then the manifest is in its
// directory, where no other stream to the same output writes one.
func (b *base) only() *unit {
	if b.perUnit && len(b.units) == 1 && b.units[0].ID != "" && b.units[0].ID == b.fixed() {
		return b.units[0]
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// eachItem lists the files of single items.
func (t *tree) eachItem(add func(listed)) error {
	created := ""
	return t.ledger.each(func(r record) error {
		switch {
		case r.kind == recordTime:
			created = stamp(time.UnixMilli(r.time))
		case r.kind == recordItem && t.index.current(r.entry):
			add(listed{Path: t.pathOf(r.entry), Collection: t.units[r.entry.unit].ID, Items: 1, Bytes: r.entry.size, Created: created})
		}
		return nil
	})
}
