//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// findAccount looks up the user for commands.
func findAccount(name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, denied(cure, "exec.user is %s, but the server does not run as root and cannot start commands as somebody else", name)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, denied("create the user, or name another one", "exec.user: %v", err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, denied("name another user", "exec.user: the groups of %s: %v", name, err)
	}
	a := &account{name: name}
	for i, text := range append([]string{u.Uid, u.Gid}, groups...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, denied("name another user", "exec.user: %v", err)
		}
		switch i {
		case 0:
			a.uid = uint32(id)
		case 1:
			a.gid = uint32(id)
		default:
			a.groups = append(a.groups, uint32(id))
		}
	}
	if a.uid == 0 || a.gid == 0 || slices.Contains(a.groups, 0) {
		return nil, denied("name a user without rights, such as nobody", "exec.user: %s is root or in the group of root", name)
	}
	return a, nil
}

// reaches reports whether the account can open a path, by the modes of it and of the folders above it. Missing paths
// cannot be reached.
func (a *account) reaches(path string) (bool, error) {
	for first := true; ; first = false {
		info, err := os.Stat(path)
		if first && os.IsNotExist(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		want := fs.FileMode(0o1)
		if first {
			want = 0o6 // read or write; for a folder, list or enter it
			if info.IsDir() {
				want = 0o7
			}
		}
		if !a.may(info, want) {
			return false, nil
		}
		if path == filepath.Dir(path) {
			return true, nil
		}
		path = filepath.Dir(path)
	}
}

// may reports whether the account has any of the rights.
func (a *account) may(info fs.FileInfo, any fs.FileMode) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true // not known: as if it could
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == a.uid:
		return true // an owner may change the mode
	case stat.Gid == a.gid || slices.Contains(a.groups, stat.Gid):
		return mode>>3&any != 0
	}
	return mode&any != 0
}

// guarded is an error when the account can open something hidden.
func (s *Sandbox) guarded() error {
	for _, path := range s.hidden {
		found, err := s.user.reaches(path)
		if err != nil {
			return denied("", "whether %s can read %s is not known: %v", s.user.name, path, err)
		}
		if found {
			return denied(fmt.Sprintf("chmod 700 %s, or keep the data in a directory of its own (--data)", filepath.Dir(path)), "the user %s can open %s", s.user.name, path)
		}
	}
	return nil
}

// Own gives a folder and its contents to the user of the commands.
func (s *Sandbox) Own(dir string) error {
	if s.user == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(s.user.uid), int(s.user.gid))
	})
}

// credential is for the process of a command; nil: as this process.
func (s *Sandbox) credential() *syscall.Credential {
	if s.user == nil {
		return nil
	}
	return &syscall.Credential{Uid: s.user.uid, Gid: s.user.gid, Groups: s.user.groups}
}
