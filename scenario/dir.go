package scenario

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
)

// The most that is copied for actions that run.
const (
	maxCopied      = 64 << 20 // bytes
	maxCopiedFiles = 10_000
)

// real reports whether the action of a step runs.
func (r *run) real(step string) bool {
	if r.forced(step, step) {
		return true
	}
	for _, name := range r.t.real {
		if matches(name, step, step) > 0 {
			return true
		}
	}
	return cmp.Or(r.t.unmocked, r.o.Unmocked) == unmockedReal
}

// RunsForReal reports whether actions of the test run that may have effects outside. unmocked is Options.Unmocked.
func (t *Test) RunsForReal(unmocked string) bool {
	return len(t.real) > 0 || cmp.Or(t.unmocked, unmocked) == unmockedReal
}

// copies reports whether the folder in which steps run is a copy of the pipeline's.
func (r *run) copies() bool {
	return len(r.o.Real) > 0 || r.t.RunsForReal(r.o.Unmocked)
}

// dir is the folder in which steps run: a copy of the pipeline's if actions run that may change it. done deletes it.
func (r *run) dir() (dir string, done func(), err error) {
	if !r.copies() {
		return r.o.Dir, func() {}, nil
	}
	if r.how.Outside != nil {
		return r.folder, func() {}, nil
	}
	if dir, done = r.how.Folder, func() {}; dir == "" {
		if dir, err = os.MkdirTemp("", "stepwell-test-"); err != nil {
			return "", nil, err
		}
		done = func() { os.RemoveAll(dir) } // what cannot be deleted stays in the system's folder for temporary files
	}
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
			return tooMuch("the folder of the pipeline")
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
