//go:build !unix

package sandbox

import "os/exec"

// Close does nothing here.
func Close() error { return nil }

// Start is never reached here: New gives no sandbox.
func (s *Sandbox) Start(cmd *exec.Cmd, _ string, _ ...string) error { return s.refuse() }

// Own is never reached here.
func (s *Sandbox) Own(string) error { return s.refuse() }

func (s *Sandbox) refuse() error { _, err := landlockABI(); return err }

func landlockABI() (int, error) {
	return 0, denied("run the server on Linux, or as root on macOS with exec.user", "commands cannot be confined on this system")
}

func findAccount(string) (*account, error) {
	_, err := landlockABI()
	return nil, err
}
