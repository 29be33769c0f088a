package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/stepwell/stepwell"
)

// Close keeps this process's own memory, environment and descriptors from the commands that it starts, also from those
// that run as the same user: /proc shows them to root alone. Call it once, before the first command.
func Close() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "close /proc of this process", Err: err}
	}
	return nil
}

// Start starts a command, which may also touch the folder own and read the files that Lend has lent it, although they are
// hidden. Its SysProcAttr may be set.
//
// A thread restricts itself and then starts the command, which inherits the restriction; the thread is not used again.
// So no helper program has to be executed first.
func (s *Sandbox) Start(cmd *exec.Cmd, own string, lent ...string) error {
	if s.user != nil {
		if err := s.guarded(); err != nil {
			return err
		}
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Credential = s.credential()
	}
	done := make(chan error, 1)
	go func() { done <- s.onThread(cmd, own, lent) }()
	return <-done
}

// onThread runs on a goroutine of its own. It never unlocks its thread, which therefore ends with it.
func (s *Sandbox) onThread(cmd *exec.Cmd, own string, lent []string) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end, and its restriction would be that of /proc/PID. While it is held here, the
		// work goes to another one.
		done := make(chan error, 1)
		go func() { done <- s.onThread(cmd, own, lent) }()
		err := <-done
		runtime.UnlockOSThread()
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return confining("no_new_privs", err)
	}
	if s.user == nil {
		if err := s.landlock(own, lent); err != nil {
			return err
		}
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	// Descriptors that this process has inherited without the mark.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return confining("close_range", err)
	}
	return cmd.Start()
}

func confining(what string, err error) error {
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "confine the command: " + what, Err: err}
}

// dropCapabilities leaves a thread of root with the rights of root's files only: it can load no module, change no
// owner, and read nothing that the mode does not let root read.
func dropCapabilities() error {
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no more
		}
		if errors.Is(err, unix.EPERM) {
			break // not root: there is nothing to be gained by executing a file
		}
		if err != nil {
			return confining("capabilities", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return confining("capabilities", err)
	}
	return nil
}

// leastABI is the first version of Landlock that keeps files from being truncated.
const leastABI = 3

func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return 0, denied(cure, "commands cannot be confined: this kernel has no Landlock (%v)", errno)
	case abi < leastABI:
		return 0, denied(cure, "commands cannot be confined: this kernel's Landlock is of ABI %d, %d is needed", abi, leastABI)
	}
	return int(abi), nil
}

// Rights for a file, and further ones for a folder.
const (
	readAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	ownAccess = readAccess | fileAccess | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER
	// no command may make devices
	handled = ownAccess | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// landlock restricts the calling thread.
func (s *Sandbox) landlock(own string, lent []string) error {
	r := ruleset{handled: handled}
	attr := unix.LandlockRulesetAttr{}
	if s.abi < 5 {
		r.handled &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if s.abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	attr.Handled_access_fs = r.handled
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return confining("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(fd))
	r.fd = int(fd)
	for _, path := range systemFolders() {
		if err := r.allow(path, readAccess); err != nil {
			return err
		}
	}
	for _, path := range devices {
		if err := r.allow(path, fileAccess); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		paths  []string
		access uint64
	}{{s.read, readAccess}, {s.folders, ownAccess}, {[]string{own}, ownAccess}} {
		for _, path := range list.paths {
			if err := r.open(s, path, list.access); err != nil {
				return err
			}
		}
	}
	for _, path := range lent {
		if err := r.allow(path, unix.LANDLOCK_ACCESS_FS_READ_FILE); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return confining("landlock_restrict_self", errno)
	}
	return nil
}

// ruleset is the rights of one command.
type ruleset struct {
	fd      int
	handled uint64
}

// allow opens a path, and everything below it; a missing one is skipped.
func (r *ruleset) allow(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // nolint:nilerr // a path missing or closed to this process is so for the command too
	}
	defer unix.Close(fd)
	return r.add(fd, path, access)
}

func (r *ruleset) add(fd int, path string, access uint64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return confining(path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileAccess
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access & r.handled, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return confining(fmt.Sprintf("landlock_add_rule %s", path), errno)
	}
	return nil
}
