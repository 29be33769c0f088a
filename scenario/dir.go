package scenario

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
)

// The most that is copied for actions that run.
const (
	maxCopied      = 64 << 20 // bytes
	maxCopiedFiles = 10_000
)

// real reports whether the action of a step runs.
func (r *run) real(step string) bool {
	for _, name := range r.t.real {
		if matches(name, step, step) > 0 {
			return true
		}
	}
	return cmp.Or(r.t.unmocked, r.o.Unmocked) == unmockedReal
}

// dir is the folder in which steps run: a copy of the pipeline's if actions run that may change it. done deletes it.
func (r *run) dir() (dir string, done func(), err error) {
	if len(r.t.real) == 0 && cmp.Or(r.t.unmocked, r.o.Unmocked) != unmockedReal {
		return r.o.Dir, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "stepwell-test-"); err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) } // what cannot be deleted stays in the system's folder for temporary files
	if err := copyFolder(dir, filepath.Dir(r.t.Pipeline)); err != nil {
		done()
		return "", nil, err
	}
	return dir, done, nil
}

// copyFolder copies what a folder holds, without files whose names begin with a dot.
func copyFolder(to, from string) error {
	size, files := int64(0), 0
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		if e.Name()[0] == '.' {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		if files++; size > maxCopied || files > maxCopiedFiles {
			return stepwell.Errorf(stepwell.CodeLimit, "move the pipeline and its files to a folder of their own",
				"the folder of the pipeline has more than %d MiB or %d files: it is copied for actions that run", maxCopied>>20, maxCopiedFiles)
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case !info.Mode().IsRegular():
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, raw, info.Mode().Perm())
	})
	return err
}
