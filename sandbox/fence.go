package sandbox

import "strings"

// Fence says which files steps may name, in this process: those of some folders, but nothing hidden. It goes by the path
// without symbolic links at the moment when it is asked. It may be used by any goroutine.
type Fence struct{ s Sandbox }

// NewFence makes a fence. Without folders it is the working directory.
func NewFence(folders, hidden []string) (*Fence, error) {
	f := &Fence{}
	if len(folders) == 0 {
		folders = []string{"."}
	}
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&f.s.folders, folders}, {&f.s.hidden, hidden}} {
		for _, path := range list.from {
			real, err := realPath(path)
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, real)
		}
	}
	return f, nil
}

// Admits is CodeDenied when steps may not touch a path.
func (f *Fence) Admits(path string) error {
	real, err := realPath(path)
	if err != nil {
		return err
	}
	if f.s.hides(real) {
		return denied("use another file", "%s belongs to the server", path)
	}
	for _, folder := range f.s.folders {
		if within(folder, real) {
			return nil
		}
	}
	return denied("add its folder to files.allow in the server's settings", "steps may touch files in %s only, not %s", strings.Join(f.s.folders, ", "), path)
}
