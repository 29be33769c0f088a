// Package sandbox starts commands that may touch only what they are given.
//
// There are two ways. With a user, commands run as that user and may do what it may; the server must be root. Otherwise
// Linux's Landlock confines them to folders: those of Options, their own, and what any program needs of the system, read
// only. Either way a command inherits no descriptors, cannot gain privileges by executing a file, and cannot look into
// the process that starts it. It can use the network. Landlock cannot hide a file in a folder that it opens; a folder
// that holds something hidden is therefore opened entry by entry, and nothing new can be created directly in it.
//
// Stability: experimental until version 1.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// Options list what commands may access.
type Options struct {
	// User runs the commands. Needs a process of root. Defaults to Landlock.
	User string
	// Folders may be read and changed, with Landlock. Defaults to the working directory.
	Folders []string
	// Read are further folders and files that may be read, with Landlock. Defaults to none.
	Read []string
	// Hidden are files and folders that no command may reach, whether they exist yet or not.
	Hidden []string
}

// Sandbox confines commands. It may be used by any goroutine.
type Sandbox struct {
	folders, read []string // real paths
	hidden        []string // real paths
	user          *account // nil: Landlock
	abi           int      // of Landlock
}

// account is the user of the commands.
type account struct {
	name     string
	uid, gid uint32
	groups   []uint32
}

func denied(hint, format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeDenied, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// cure is the hint where neither way works.
const cure = "run the server as root and set exec.user (in stepwell.yaml: exec: {user: NAME}), or use a Linux kernel with Landlock (6.2 or later)"

// New finds out whether and how commands can be confined here. CodeDenied, with the reason and a cure, when they cannot.
func New(o Options) (*Sandbox, error) {
	s := &Sandbox{}
	if len(o.Folders) == 0 {
		o.Folders = []string{"."}
	}
	var err error
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&s.folders, o.Folders}, {&s.read, o.Read}, {&s.hidden, o.Hidden}} {
		for _, path := range list.from {
			if path, err = realPath(path); err != nil {
				return nil, err
			}
			*list.to = append(*list.to, path)
		}
	}
	if o.User != "" {
		s.user, err = findAccount(o.User)
	} else {
		s.abi, err = landlockABI()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// String says how commands are confined.
func (s *Sandbox) String() string {
	if s.user != nil {
		return "as user " + s.user.name
	}
	return fmt.Sprintf("by Landlock (ABI %d) to %s", s.abi, strings.Join(s.folders, ", "))
}

// OtherUser reports whether commands run as another user.
func (s *Sandbox) OtherUser() bool { return s.user != nil }

// Admits says whether commands may work in a folder.
func (s *Sandbox) Admits(dir string) error {
	if s.user != nil {
		return nil
	}
	path, err := realPath(dir)
	if err != nil {
		return err
	}
	for _, list := range [][]string{s.folders, s.read} {
		for _, folder := range list {
			if within(folder, path) && !s.hides(path) {
				return nil
			}
		}
	}
	if s.hides(path) {
		return denied("keep the data elsewhere (--data), start the server in another folder, or give the step a folder of exec.folders: params: {dir: FOLDER}", "commands may not touch the folder %s, which belongs to the server", path)
	}
	return denied("work in one of "+strings.Join(s.folders, ", ")+", or add the folder to exec.folders (in stepwell.yaml: exec: {folders: ["+strings.Join(append(slices.Clone(s.folders), path), ", ")+"]})", "commands may not touch the folder %s", path)
}

// Lend makes a file of the server readable for a command that Start starts with this folder of its own, and gives the file's
// path for the command: the same path, with Landlock; for another user a hard link or a copy in own.
func (s *Sandbox) Lend(file, own string) (path string, err error) {
	if s.user == nil {
		return file, nil // Start opens it; a link in own could be written through
	}
	dir := filepath.Join(own, "lent")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(file))
	if os.Link(file, path) != nil { // on another file system
		err = copyFile(file, path)
	}
	return path, errors.Join(err, os.Chmod(dir, 0o711), os.Chmod(path, 0o444)) // whatever the umask
}

func copyFile(file, path string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// Crowded are folders in which commands cannot create anything directly, because something hidden is in them.
func (s *Sandbox) Crowded() []string {
	var list []string
	for _, folder := range s.folders {
		if s.user == nil && s.holdsHidden(folder) {
			list = append(list, folder)
		}
	}
	return list
}

// hides reports whether a path is hidden or in something hidden.
func (s *Sandbox) hides(path string) bool {
	for _, hidden := range s.hidden {
		if within(hidden, path) {
			return true
		}
	}
	return false
}

// holdsHidden reports whether something hidden is below a folder.
func (s *Sandbox) holdsHidden(folder string) bool {
	for _, hidden := range s.hidden {
		if within(folder, hidden) {
			return true
		}
	}
	return false
}

// within reports whether a path is a folder or in it; both are real paths.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// realPath is an absolute path without symbolic links, as far as it exists.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		found, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(found, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "look for " + path, Err: err}
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
