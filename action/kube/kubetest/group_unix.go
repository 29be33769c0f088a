//go:build unix

package kubetest

import (
	"os/exec"
	"syscall"
)

// asGroup makes a process that is not started yet the first of a group of its own.
func asGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// signalGroup asks the group to end, or ends it.
func signalGroup(cmd *exec.Cmd, kill bool) {
	s := syscall.SIGTERM
	if kill {
		s = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, s) // it may have ended
}
