//go:build unix && !linux

package sandbox

import (
	"os/exec"
	"syscall"
)

// Close does nothing here: other users cannot look into a process.
func Close() error { return nil }

// Start starts a command as the user.
func (s *Sandbox) Start(cmd *exec.Cmd, _ string, _ ...string) error {
	if err := s.guarded(); err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = s.credential()
	return cmd.Start()
}

func landlockABI() (int, error) {
	return 0, denied(cure, "commands cannot be confined: this system has no Landlock")
}
