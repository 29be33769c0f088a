package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// maxDepth bounds the nesting of directories that a scan enters.
const maxDepth = 64

// File is one wanted file of a scan. Path is relative to Root, with slashes.
type File struct {
	Path  string `json:"path" doc:"Path relative to root, with slashes."`
	Name  string `json:"name" doc:"Last element of the path."`
	Size  int64  `json:"size" doc:"Bytes."`
	MTime string `json:"mtime" spec:"time" doc:"Time of the last change, UTC."`
	Root  string `json:"root" doc:"The directory that path is relative to."`
}

// ScanResult is the output of media.scan.
type ScanResult struct {
	Path       string         `json:"path" doc:"The directory as given."`
	Files      []File         `json:"files" doc:"The files, in stable order."`
	Count      int            `json:"count" doc:"Number of files."`
	TotalBytes int64          `json:"total_bytes" doc:"Sum of their sizes."`
	Skipped    map[string]int `json:"skipped" doc:"Number of entries left out, by reason."`
}

type scanParams struct {
	Path           string   `json:"path" required:"true" doc:"Directory to scan; relative to the pipeline's directory."`
	Include        []string `json:"include" doc:"Globs; only matching files are listed, whatever their extension."`
	Exclude        []string `json:"exclude" doc:"Globs of files and directories to leave out."`
	MinSize        int64    `json:"min_size" default:"1" minimum:"0" doc:"Smallest size in bytes; empty files are never listed."`
	FollowSymlinks bool     `json:"follow_symlinks" default:"false" doc:"Follow links that stay inside the path."`
}

type scanner struct{ opts Options }

// Validate checks the globs.
func (s *scanner) Validate(params map[string]any) []error { return validateGlobs(params) }

// Run lists the wanted files in the order of their paths, directory by directory.
func (s *scanner) Run(ctx context.Context, call *action.Call) (any, error) {
	var p scanParams
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	if errs := validateGlobs(call.Params); len(errs) > 0 {
		return nil, action.Fail(errors.Join(errs...))
	}
	dir, err := resolve(call, p.Path)
	if err != nil {
		return nil, err
	}
	root, err := openSource(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	res, err := scanRoot(ctx, root, p, s.opts.MaxFiles, call.Host)
	if err != nil {
		return nil, err
	}
	call.Log("scanned", slog.String("path", p.Path), slog.Int("files", res.Count), slog.Any("skipped", res.Skipped))
	return res, nil
}

// openSource opens a directory so that nothing outside of it can be reached through it. A missing
// directory is a card that is not there: worth another try.
func openSource(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err == nil {
		return root, nil
	}
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return nil, action.Fail(stepwell.Invalid("name the directory that holds the media", "%s is not a directory", dir))
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "source directory", Err: err,
			Hint: "the account that runs the worker may not read it"})
	}
	return nil, waitForMedium(dir, err)
}

type scan struct {
	ctx    context.Context
	root   *os.Root
	p      scanParams
	limit  int
	seen   int // directory entries so far
	res    *ScanResult
	host   action.Host
	parent []fs.FileInfo // directories above, against loops of links
}

func scanRoot(ctx context.Context, root *os.Root, p scanParams, limit int, host action.Host) (*ScanResult, error) {
	s := &scan{ctx: ctx, root: root, p: p, limit: limit, host: host,
		res: &ScanResult{Path: p.Path, Files: []File{}, Skipped: map[string]int{}}}
	if err := s.dir("."); err != nil {
		return nil, err
	}
	s.res.Count = len(s.res.Files)
	return s.res, nil
}

func (s *scan) skip(reason, name string) {
	s.res.Skipped[reason]++
	if reason == "unreadable" || reason == "invalid_name" || reason == "too_deep" {
		s.host.Log(slog.LevelWarn, "skipped", slog.String("path", fmt.Sprintf("%q", name)), slog.String("reason", reason))
	}
}

// dir lists one directory. An unreadable one below the top is skipped and counted.
func (s *scan) dir(name string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	entries, info, err := s.entries(name)
	switch {
	case err != nil && (name == "." || stepwell.CodeOf(err) == stepwell.CodeLimit):
		return err
	case err != nil && isMediumFault(err):
		return waitForMedium(s.root.Name(), err)
	case err != nil:
		s.skip("unreadable", name)
		return nil
	}
	for _, above := range s.parent {
		if os.SameFile(above, info) {
			s.skip("symlink", name)
			return nil
		}
	}
	if len(s.parent) >= maxDepth {
		s.skip("too_deep", name)
		return nil
	}
	s.parent = append(s.parent, info)
	defer func() { s.parent = s.parent[:len(s.parent)-1] }()
	for _, e := range entries {
		if err := s.entry(path.Join(name, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// entries reads a directory in pieces, so that its size is known to be bounded before it is held.
func (s *scan) entries(name string) ([]fs.DirEntry, fs.FileInfo, error) {
	d, err := s.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return nil, nil, err
	}
	var all []fs.DirEntry
	for {
		some, err := d.ReadDir(1024)
		all = append(all, some...)
		if s.seen += len(some); s.seen > 10*s.limit {
			return nil, nil, action.Fail(stepwell.Errorf(stepwell.CodeLimit, "scan a smaller directory", "more than %d directory entries", 10*s.limit))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name() < all[j].Name() })
	return all, info, nil
}

func (s *scan) entry(name string, e fs.DirEntry) error {
	if !utf8.ValidString(e.Name()) {
		s.skip("invalid_name", name)
		return nil
	}
	mode := e.Type()
	if reason := unwantedName(e.Name(), mode.IsDir()); reason != "" {
		s.skip(reason, name)
		return nil
	}
	if mode&fs.ModeSymlink != 0 {
		if !s.p.FollowSymlinks {
			s.skip("symlink", name)
			return nil
		}
		info, err := s.root.Stat(name) // refuses links that leave the root
		if err != nil {
			s.skip("symlink", name)
			return nil
		}
		mode = info.Mode().Type()
	}
	switch {
	case mode.IsDir():
		if unwantedName(e.Name(), true) == "" && !matchAny(s.p.Exclude, name) {
			return s.dir(name)
		}
		s.skip("excluded", name)
	case mode.IsRegular():
		return s.file(name)
	default:
		s.skip("special", name)
	}
	return nil
}

func (s *scan) file(name string) error {
	info, err := s.root.Stat(name)
	switch {
	case err != nil && isMediumFault(err):
		return waitForMedium(s.root.Name(), err)
	case err != nil:
		s.skip("unreadable", name)
	case matchAny(s.p.Exclude, name):
		s.skip("excluded", name)
	case len(s.p.Include) > 0 && !matchAny(s.p.Include, name):
		s.skip("not_included", name)
	case len(s.p.Include) == 0 && !mediaName(name):
		s.skip("not_media", name)
	case info.Size() == 0:
		s.skip("empty", name)
	case info.Size() < s.p.MinSize:
		s.skip("too_small", name)
	case len(s.res.Files) >= s.limit:
		return action.Fail(stepwell.Errorf(stepwell.CodeLimit, "scan a smaller directory or narrow include", "more than %d files", s.limit))
	default:
		s.res.Files = append(s.res.Files, File{Path: name, Name: path.Base(name), Size: info.Size(),
			MTime: stamp(info.ModTime()), Root: s.p.Path})
		s.res.TotalBytes += info.Size()
	}
	return nil
}

// stamp writes a time the one way used in all outputs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
