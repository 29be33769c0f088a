package media

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"
)

const (
	manifestFormat = "stepwell-media-manifest/1"
	// maxManifestBytes bounds one list, maxKnown the files remembered from all of them.
	maxManifestBytes = 256 << 20
	maxKnown         = 1_000_000
	// staleAfter is when a part of another ingest counts as left behind.
	staleAfter = 24 * time.Hour
)

// manifest is the hash list of one ingest, with the facts of an ASC Media Hash List: the hashed files, the time and the
// tool.
type manifest struct {
	Format   string         `json:"format"`
	ID       string         `json:"id"`
	Tool     string         `json:"tool"`
	Written  string         `json:"written"`
	Run      string         `json:"execution"`
	Step     string         `json:"step"`
	Source   string         `json:"source"`
	Verified bool           `json:"verified"` // read back from the destination
	Files    []manifestFile `json:"files"`
	Failed   []Failure      `json:"failed,omitempty"`
}

// manifestFile is a Stored with the names of a list.
type manifestFile struct {
	Source      string `json:"source"`
	Path        string `json:"path"`
	Size        int64  `json:"size"`
	MTime       string `json:"last_modified"`
	SHA256      string `json:"sha256"`
	Status      string `json:"status"`
	HashDate    string `json:"hash_date"`
	StoredMTime string `json:"-"`
}

func partPrefix(id string) string { return ".tmp-" + id + "-" }

func (g *ingest) manifestName() string { return "manifest-" + g.id + ".json" }

// writeManifest replaces this ingest's list in one step and returns its name.
func (g *ingest) writeManifest() (string, error) {
	m := manifest{Format: manifestFormat, ID: g.id, Tool: g.opts.Tool, Written: stamp(time.Now()), Run: g.call.Execution,
		Step: g.call.StepKey, Source: g.srcDir, Verified: g.p.Verify, Files: make([]manifestFile, 0, len(g.res.Files)), Failed: g.res.Failures}
	for _, s := range g.res.Files {
		m.Files = append(m.Files, manifestFile(s))
	}
	raw, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", err
	}
	part := partPrefix(g.id) + "manifest.part"
	if err := g.writeSmall(part, append(raw, '\n')); err != nil {
		return "", errors.Join(err, removeIfThere(g.dst, part))
	}
	if err := g.dst.Rename(part, g.manifestName()); err != nil {
		return "", errors.Join(err, removeIfThere(g.dst, part))
	}
	return g.manifestName(), syncDir(g.dst, ".")
}

func (g *ingest) writeSmall(name string, data []byte) error {
	f, err := g.dst.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func removeIfThere(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !notThere(err) {
		return err
	}
	return nil
}

// topLevel calls f for the entries of the destination's top directory that begin like prefix.
func (g *ingest) topLevel(prefix string, f func(fs.DirEntry) error) error {
	d, err := g.dst.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		if err := g.ctx.Err(); err != nil {
			return err
		}
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) {
				if err := f(e); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// removeParts deletes the leftovers of killed attempts: all parts of this ingest, and parts of others not written to
// for a day.
func (g *ingest) removeParts() error {
	return g.topLevel(".tmp-", func(e fs.DirEntry) error {
		if !strings.HasSuffix(e.Name(), ".part") || !e.Type().IsRegular() {
			return nil
		}
		if !strings.HasPrefix(e.Name(), partPrefix(g.id)) {
			info, err := g.dst.Lstat(e.Name())
			if err != nil || time.Since(info.ModTime()) < staleAfter {
				return nil // gone, or somebody's work
			}
		}
		g.call.Log("removing an unfinished copy", slog.String("part", e.Name()))
		return removeIfThere(g.dst, e.Name())
	})
}

// loadManifests loads the files stored by earlier ingests. An unreadable list costs only time: its files are copied
// again or found by name.
func (g *ingest) loadManifests() {
	known := 0
	err := g.topLevel("manifest-", func(e fs.DirEntry) error {
		if !strings.HasSuffix(e.Name(), ".json") || e.Name() == g.manifestName() || known >= maxKnown {
			return nil
		}
		m, err := g.readManifest(e.Name())
		if err != nil {
			g.call.Host.Log(slog.LevelWarn, "manifest not used", slog.String("name", e.Name()), slog.String("error", err.Error()))
			return nil
		}
		for _, f := range m.Files {
			if known++; known > maxKnown {
				break
			}
			g.addKnown(f)
		}
		return nil
	})
	if err != nil {
		g.call.Host.Log(slog.LevelWarn, "manifests not used", slog.String("error", err.Error()))
	}
}

func (g *ingest) addKnown(f manifestFile) {
	for _, k := range g.index[f.Size] {
		if k.path == f.Path && k.sha256 == f.SHA256 {
			return
		}
	}
	if fs.ValidPath(f.Path) {
		g.index[f.Size] = append(g.index[f.Size], known{path: f.Path, sha256: f.SHA256})
	}
}

func (g *ingest) readManifest(name string) (*manifest, error) {
	f, err := g.dst.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifestBytes {
		return nil, fmt.Errorf("no regular file of at most %d bytes", maxManifestBytes)
	}
	var m manifest
	if err := json.NewDecoder(io.LimitReader(f, maxManifestBytes)).Decode(&m); err != nil {
		return nil, err
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("format %q is not %q", m.Format, manifestFormat)
	}
	return &m, nil
}
