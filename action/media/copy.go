package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// CopyResult is the output of media.copy.
type CopyResult struct {
	Destination string    `json:"destination" doc:"The destination as given."`
	Manifest    string    `json:"manifest" doc:"List of the stored files with their hashes, in the destination."`
	Count       int       `json:"count" doc:"Files asked for."`
	Copied      int       `json:"copied" doc:"Files that this step stored, earlier attempts included."`
	Existing    int       `json:"existing" doc:"Files that an earlier ingest had stored."`
	Duplicates  int       `json:"duplicates" doc:"Files with the content of another file of this ingest."`
	Failed      int       `json:"failed" doc:"Files that could not be copied."`
	Bytes       int64     `json:"bytes" doc:"Bytes of the copied files."`
	Spawned     int       `json:"spawned" doc:"Steps started for files."`
	Files       []Stored  `json:"files" doc:"The files that are safe."`
	Failures    []Failure `json:"failures" doc:"The files that are not safe."`
}

// Status of a stored file.
const (
	statusCopied    = "copied"
	statusExisting  = "existing"
	statusDuplicate = "duplicate"
)

// Stored is a file that is safe in the destination. An attempt records it for the next one.
type Stored struct {
	Source   string `json:"source" doc:"Path on the source."`
	Path     string `json:"path" doc:"Path inside the destination."`
	Size     int64  `json:"size" doc:"Bytes."`
	MTime    string `json:"mtime" spec:"time" doc:"Modification time of the source, UTC."`
	SHA256   string `json:"sha256" doc:"SHA-256 of the content."`
	Status   string `json:"status" doc:"copied, existing or duplicate; of the last two, path is the file that has the content."`
	HashDate string `json:"hash_date" spec:"time" doc:"When the hash was taken."`
	// StoredMTime is the stored file's time, which a coarse file system rounds.
	StoredMTime string `json:"stored_mtime" spec:"time" doc:"Modification time of the copy, as its file system keeps it."`
}

// Failure is a file that is not.
type Failure struct {
	Source string        `json:"source" doc:"Path on the source."`
	Code   stepwell.Code `json:"code" doc:"Kind of error."`
	Error  string        `json:"error" doc:"What happened."`
	Hint   string        `json:"hint,omitempty" doc:"What to do about it."`
}

type copier struct {
	opts Options
	ops  fileOps
}

// Validate checks the template and the form of spawn; the rest may still be a template.
func (c *copier) Validate(params map[string]any) []error {
	var errs []error
	if t, ok := params["template"].(string); ok {
		if err := checkTemplate(t); err != nil {
			errs = append(errs, err)
		}
	}
	if _, err := parseSpawn(params["spawn"]); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// ingest is one attempt of one copy.
type ingest struct {
	*copier
	ctx  context.Context
	call *action.Call
	p    copyParams
	id   string // the same for all attempts of the step

	src, dst *os.Root
	srcDir   string
	srcInfo  fs.FileInfo
	ownSrc   string // the source's path inside the destination, or ""
	entries  []*entry
	index    map[int64][]known // files in the destination, by size
	claimed  map[string]string // path in the destination → path on the source
	synced   map[string]bool   // directories known to be on disk

	res         CopyResult
	done, total int64
}

// entry is one file to copy.
type entry struct {
	rel  string
	size int64
	rec  *Stored // of an earlier attempt, and still true
	old  *Stored // the same when the destination's file looks different now
}

// known is a stored file that may have the content of another.
type known struct {
	path, sha256 string
	ours         bool // stored by this ingest
}

// Run copies the files one after the other: a card gains nothing from parallel reads.
func (c *copier) Run(ctx context.Context, call *action.Call) (any, error) {
	p, err := bindCopy(call)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(call.IdempotencyKey()))
	g := &ingest{copier: c, ctx: ctx, call: call, p: p, id: hex.EncodeToString(sum[:6]), index: map[int64][]known{},
		claimed: map[string]string{}, synced: map[string]bool{},
		res: CopyResult{Destination: p.Destination, Files: []Stored{}, Failures: []Failure{}}}
	if p.given && len(p.rels) == 0 {
		return g.res, nil // an empty card, perhaps without a name
	}
	defer g.close()
	if err := g.open(); err != nil {
		return nil, err
	}
	if err := g.plan(); err != nil {
		return nil, err
	}
	copyErr := g.copyAll()
	if err := g.finish(copyErr); err != nil {
		return nil, err
	}
	return g.res, nil
}

func (g *ingest) close() {
	for _, r := range []*os.Root{g.src, g.dst} {
		if r != nil {
			r.Close() // opened for lookups alone: nothing is lost
		}
	}
}

// open opens both ends, refuses a destination inside the source, and lists the files to copy.
func (g *ingest) open() (err error) {
	if g.srcDir, err = resolve(g.call, g.p.Source); err != nil {
		return err
	}
	if g.src, err = openSource(g.srcDir); err != nil {
		return err
	}
	if g.srcInfo, err = g.src.Stat("."); err != nil {
		return waitForMedium(g.srcDir, err)
	}
	if g.entries, err = g.list(); err != nil {
		return err
	}
	dstDir, err := resolve(g.call, g.p.Destination)
	if err != nil {
		return err
	}
	if inside(g.srcDir, dstDir) {
		return action.Fail(stepwell.Invalid("a source is never written to; choose another destination", "the destination %s is inside the source %s", dstDir, g.srcDir))
	}
	if inside(dstDir, g.srcDir) {
		if g.ownSrc, err = filepath.Rel(realPath(dstDir), realPath(g.srcDir)); err != nil {
			return fmt.Errorf("source inside the destination: %w", err)
		}
		g.ownSrc = filepath.ToSlash(g.ownSrc)
	}
	if err := os.MkdirAll(dstDir, 0o755); err != nil {
		return destinationError(err)
	}
	if g.dst, err = os.OpenRoot(dstDir); err != nil {
		return destinationError(err)
	}
	return nil
}

// list returns the files: those given, or the result of a scan.
func (g *ingest) list() ([]*entry, error) {
	var rels []string
	if g.p.given {
		rels = g.p.rels
	} else {
		res, err := scanRoot(g.ctx, g.src, scanParams{Path: g.p.Source}, g.opts.MaxFiles, g.call.Host)
		if err != nil {
			return nil, err
		}
		for _, f := range res.Files {
			rels = append(rels, f.Path)
		}
	}
	if len(rels) > g.opts.MaxFiles {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d files, more than %d", len(rels), g.opts.MaxFiles), Hint: "copy in several steps"})
	}
	var entries []*entry
	seen := map[string]bool{}
	for _, rel := range rels {
		if !seen[rel] {
			seen[rel] = true
			entries = append(entries, &entry{rel: rel})
		}
	}
	return entries, nil
}

// inside says whether dir lies in parent, links resolved as far as the path exists.
func inside(parent, dir string) bool {
	p, d := realPath(parent), realPath(dir)
	return d == p || strings.HasPrefix(d, strings.TrimSuffix(p, string(os.PathSeparator))+string(os.PathSeparator))
}

// plan recalls files stored by earlier attempts, removes leftovers and checks the space.
func (g *ingest) plan() error {
	if err := g.removeParts(); err != nil {
		return destinationError(err)
	}
	g.loadManifests()
	var need int64
	for _, e := range g.entries {
		if err := g.ctx.Err(); err != nil {
			return err
		}
		if info, err := g.src.Stat(e.rel); err == nil {
			e.size = info.Size()
		}
		if err := g.recall(e); err != nil {
			return err
		}
		if e.rec != nil && e.rec.Status != statusDuplicate {
			g.claimed[e.rec.Path] = e.rel
		}
		g.total += e.size
		if e.rec == nil && len(g.index[e.size]) == 0 {
			need += e.size
		}
	}
	g.res.Count = len(g.entries)
	if free, ok := g.ops.free(g.dst.Name()); ok && free < need {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: fmt.Sprintf("the destination has %d bytes free and %d are needed", free, need),
			Hint: "free space there or choose another destination; nothing was copied in this attempt"}
	}
	return nil
}

func (g *ingest) copyAll() error {
	for _, e := range g.entries {
		before := g.done
		stored, err := g.copyEntry(e)
		g.done = before + e.size
		g.progress(0, e.rel)
		var stop *stopError
		switch {
		case err == nil:
			g.count(stored)
		case errors.As(err, &stop):
			return stop.err
		case g.ctx.Err() != nil:
			return g.ctx.Err()
		case g.p.OnError == "fail":
			return fmt.Errorf("%s: %w", e.rel, err)
		default:
			g.fail(e, err)
		}
	}
	return nil
}

func (g *ingest) count(s Stored) {
	switch s.Status {
	case statusCopied:
		g.res.Copied++
		g.res.Bytes += s.Size
	case statusExisting:
		g.res.Existing++
	case statusDuplicate:
		g.res.Duplicates++
	}
	g.res.Files = append(g.res.Files, s)
}

func (g *ingest) fail(e *entry, err error) {
	code := stepwell.CodeOf(err)
	if code == stepwell.CodeInternal {
		code = stepwell.CodeFailed
	}
	g.res.Failed++
	g.res.Failures = append(g.res.Failures, Failure{Source: e.rel, Code: code, Error: err.Error(), Hint: stepwell.HintOf(err)})
	g.call.Host.Log(slog.LevelError, "file not copied", slog.String("path", e.rel), slog.String("error", err.Error()))
}

// finish writes the manifest of the stored files, also after a partial copy.
func (g *ingest) finish(copyErr error) error {
	if len(g.res.Files) > 0 {
		name, err := g.writeManifest()
		if err != nil && copyErr == nil {
			return fmt.Errorf("manifest: %w", destinationError(err))
		}
		if err != nil {
			g.call.Host.Log(slog.LevelWarn, "no manifest", slog.String("error", err.Error()))
		}
		g.res.Manifest = filepath.Join(g.p.Destination, name)
	}
	if copyErr != nil {
		return copyErr
	}
	if g.res.Failed > 0 && len(g.res.Files) == 0 {
		f := g.res.Failures[0]
		return &stepwell.Error{Code: f.Code, Message: fmt.Sprintf("none of %d files could be copied; first %s: %s", g.res.Count, f.Source, f.Error), Hint: f.Hint}
	}
	g.call.Log("copied", slog.Int("copied", g.res.Copied), slog.Int("existing", g.res.Existing),
		slog.Int("duplicates", g.res.Duplicates), slog.Int("failed", g.res.Failed), slog.Int64("bytes", g.res.Bytes))
	return nil
}

// progress reports the bytes done, n of the current file.
func (g *ingest) progress(n int64, note string) {
	if g.total > 0 {
		g.call.Host.Progress(min(1, float64(g.done+n)/float64(g.total)), note)
	}
}
