//go:build !linux

package postgres

import "syscall"

// userTimeout is left to the system.
func userTimeout(string, string, syscall.RawConn) error { return nil }
