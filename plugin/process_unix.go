//go:build unix

package plugin

import "syscall"

const supported = true

// killGroup ends a process and those that it has started.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // they may have ended

// terminate asks a process to end; it ends those that it has started itself.
func terminate(pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) } // it may have ended
