//go:build !windows

package child

import "syscall"

// Freeze stops the process's clock, so to speak: it does nothing until Thaw, and knows nothing of it.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
