package sandbox

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxEntries bounds how many entries a folder that holds something hidden is opened by.
const maxEntries = 4096

// open opens a folder, but nothing hidden in it.
func (r *ruleset) open(s *Sandbox, path string, access uint64) error {
	if s.hides(path) {
		return nil
	}
	if !s.holdsHidden(path) {
		return r.allow(path, access)
	}
	entries := maxEntries
	return r.split(s, path, access, &entries)
}

// split opens the entries of a folder, one by one.
func (r *ruleset) split(s *Sandbox, path string, access uint64, left *int) error {
	names, err := readNames(path, *left)
	if err != nil {
		return confining(path, err)
	}
	if err := r.allow(path, unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil { // its names, which many programs look through
		return err
	}
	if *left -= len(names); *left <= 0 {
		return denied("keep the data directory elsewhere (--data), or name other folders in exec.folders",
			"%s holds data of the server and more than %d other entries: commands cannot be confined to it", path, maxEntries)
	}
	for _, name := range names {
		child := filepath.Join(path, name)
		switch {
		case s.hides(child):
		case s.holdsHidden(child):
			err = r.split(s, child, access, left)
		default:
			err = r.entry(s, child, access)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readNames(path string, most int) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(most)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return names, err
}

// entry opens one entry. A symbolic link gives no right to its target; a hard link to a hidden file is hidden too.
func (r *ruleset) entry(s *Sandbox, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // it has gone meanwhile
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return confining(path, err)
	}
	if kind := stat.Mode & unix.S_IFMT; kind == unix.S_IFLNK || kind == unix.S_IFREG && stat.Nlink > 1 && s.alias(&stat) {
		return nil
	}
	return r.add(fd, path, access)
}

// alias reports whether a file is one of the hidden ones.
func (s *Sandbox) alias(stat *unix.Stat_t) bool {
	same := func(path string) bool {
		var other unix.Stat_t
		return unix.Lstat(path, &other) == nil && other.Dev == stat.Dev && other.Ino == stat.Ino
	}
	for _, hidden := range s.hidden {
		if same(hidden) {
			return true
		}
		names, err := readNames(hidden, maxEntries) // of a data directory; a file has none
		if err != nil {
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool { return same(filepath.Join(hidden, name)) }) {
			return true
		}
	}
	return false
}

// devices that any program may use.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// systemFolders are the system's folders that programs need. Of /etc only users, hosts, zones and certificates, as root
// could read the rest.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/proc", "/sys",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts",
		"/etc/host.conf", "/etc/hostname", "/etc/resolv.conf", "/etc/gai.conf", "/etc/protocols", "/etc/services", "/etc/localtime", "/etc/timezone",
		"/etc/os-release", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust",
		"/etc/mime.types", "/etc/magic", "/etc/locale.alias", "/etc/terminfo", "/etc/fonts", "/etc/profile", "/etc/bash.bashrc", "/etc/inputrc"}
}
