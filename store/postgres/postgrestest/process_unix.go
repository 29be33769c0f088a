//go:build unix

package postgrestest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged is the user that runs the server where this process is root's: PostgreSQL refuses to run as root.
func unprivileged() (uid, gid int, need bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return uid, gid, true
		}
	}
	return 65534, 65534, true
}

// give makes a folder the server's.
func give(dir string) error {
	if uid, gid, need := unprivileged(); need {
		return os.Chown(dir, uid, gid)
	}
	return nil
}

// drop runs a command as the server's user.
func drop(cmd *exec.Cmd) {
	if uid, gid, need := unprivileged(); need {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
