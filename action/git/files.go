package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/outbound"
)

// Wanted says which files of a repository are read: those of one folder, not of those below it.
type Wanted struct {
	Repo string // as the action's repo
	Ref  string // as the action's ref. Defaults to HEAD
	Path string // the folder. Defaults to the root
	// Pick says which names are read, in order of name, Most at most, each of Size bytes at most.
	Pick func(name string) bool
	Most int
	Size int64
	// Log takes what is retried. Defaults to slog.Default.
	Log *slog.Logger
}

// File is a file of a repository. Err says why it was not read: it is too large, or no file of the repository.
type File struct {
	Name, Text string
	Err        error
}

// ReadFiles reads files of the newest commit of a ref, and gives its id. Git is locked down as for the action, uses its cache and its limits;
// no link of the repository leads out of it. The context bounds the time.
func ReadFiles(ctx context.Context, c *outbound.Client, o Options, w Wanted) (files []File, commit string, err error) {
	if err := o.complete(); err != nil {
		return nil, "", err
	}
	if w.Log == nil {
		w.Log = slog.Default()
	}
	p := &params{Repo: w.Repo, Ref: w.Ref, Path: w.Path, Depth: 1, Clone: 3600}
	if p.Ref == "" {
		p.Ref = "HEAD"
	}
	h := &handler{o: o, client: c}
	if err := errors.Join(h.check(p, func(string) bool { return false })...); err != nil {
		return nil, "", err
	}
	call := &action.Call{Execution: "files", StepKey: w.Repo, Action: Name, Attempt: 1, Host: &reader{log: w.Log}}
	programs, err := builtin.OpenPrograms(ctx, call, builtin.Options{Now: o.Commands.Now})
	if err != nil {
		return nil, "", err
	}
	defer programs.Close()
	tree, err := h.makeTree(ctx, call, p, programs)
	if err != nil {
		return nil, "", err
	}
	if commit, err = h.checkOut(ctx, call, p, programs, tree); err != nil {
		return nil, "", err
	}
	files, err = readTree(tree, &w)
	return files, commit, err
}

// readTree reads files of a folder of a tree.
func readTree(tree string, w *Wanted) (files []File, err error) {
	root, err := os.OpenRoot(tree) // which no link leads out of
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the files", Err: err}
	}
	defer root.Close()
	folder := path.Clean(filepath.ToSlash(w.Path))
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil {
		return nil, action.Invalid("name a folder of the repository", "path: %s cannot be read: %v", folder, err)
	}
	for _, e := range entries {
		if !w.Pick(e.Name()) {
			continue
		}
		if len(files) == w.Most {
			break
		}
		text, err := readIn(root, path.Join(folder, e.Name()), w.Size)
		files = append(files, File{e.Name(), text, err})
	}
	return files, nil
}

func readIn(root *os.Root, name string, most int64) (string, error) {
	if info, err := root.Stat(name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() || info.Size() > most {
		return "", stepwell.Errorf(stepwell.CodeLimit, "", "it is not a file of %d bytes at most", most)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most))
	return string(raw), err
}

// reader is the host of a checkout that is no step: nothing is recorded.
type reader struct {
	action.Host // the other methods are not called
	log         *slog.Logger
}

func (r *reader) Log(level slog.Level, message string, attrs ...slog.Attr) {
	if level > slog.LevelInfo {
		r.log.LogAttrs(context.Background(), level, fmt.Sprintf("git: %s", message), attrs...)
	}
}

func (*reader) Recall(context.Context, string) (json.RawMessage, bool, error) { return nil, false, nil }

func (*reader) Record(context.Context, string, json.RawMessage) error { return nil }
