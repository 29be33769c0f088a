//go:build unix

package media

import (
	"syscall"
	"testing"
)

// makePipe makes a named pipe, and tells how many.
func makePipe(t *testing.T, path string) int {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return 1
}
