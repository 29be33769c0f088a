//go:build linux

package sandbox_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// uninherit takes the mark from a descriptor that closes it in commands.
func uninherit(t *testing.T, f *os.File) {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}
