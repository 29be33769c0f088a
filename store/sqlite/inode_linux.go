package sqlite

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// linked reports whether a file has more than one name.
func linked(path string) bool {
	var s unix.Stat_t
	return unix.Stat(path, &s) == nil && s.Nlink > 1
}

// inode identifies a file under any name.
type inode struct{ device, number uint64 }

// inodes are the database files that this process has open. A descriptor of one must not be closed while SQLite has
// another: POSIX gives all of a process's record locks on a file back when one of its descriptors is closed.
var inodes = struct {
	mu   sync.Mutex
	open map[inode]*heldFile
}{open: map[inode]*heldFile{}}

type heldFile struct {
	file   *os.File // nil: not needed
	users  int
	locked bool
}

// hold registers a store that uses the file, until release. With lock it takes the file's lock against other
// processes, under any name: false when one has it.
func hold(path string, lock bool) (release func() error, ok bool, err error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return nil, false, err
	}
	id := inode{s.Dev, s.Ino}
	inodes.mu.Lock()
	defer inodes.mu.Unlock()
	h := inodes.open[id]
	if h == nil {
		h = &heldFile{}
		inodes.open[id] = h
	}
	if lock && lockable(path) {
		if ok, err := h.lock(path); !ok || err != nil {
			return nil, false, errors.Join(err, h.drop(id))
		}
	} else {
		lock = false
	}
	h.users++
	return func() error {
		inodes.mu.Lock()
		defer inodes.mu.Unlock()
		h.users--
		var err error
		if lock {
			h.locked = false
			err = unix.Flock(int(h.file.Fd()), unix.LOCK_UN)
		}
		return errors.Join(err, h.drop(id))
	}, true, nil
}

// lock takes the file's lock, which is separate from SQLite's.
func (h *heldFile) lock(path string) (ok bool, err error) {
	if h.locked {
		return false, nil
	}
	if h.file == nil {
		if h.file, err = os.Open(path); err != nil {
			return false, err
		}
	}
	err = unix.Flock(int(h.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	h.locked = err == nil
	return h.locked, err
}

// drop closes the file after its last user. The caller holds the mutex.
func (h *heldFile) drop(id inode) error {
	if h.users > 0 {
		return nil
	}
	delete(inodes.open, id)
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// lockable reports whether a lock of the whole file is apart from SQLite's locks of parts of it, as it is on local file
// systems; network file systems make one of the other.
func lockable(path string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return false
	}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return false
	}
	return true
}
