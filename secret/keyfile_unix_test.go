//go:build unix

package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// TestKeyFileOfRoot: a key file is the user's alone, or root's and of one group.
func TestKeyFileOfRoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		owner int
		mode  os.FileMode
		ok    bool
	}{{65532, 0o600, true}, {65532, 0o400, true}, {65532, 0o640, false}, {0, 0o400, true}, {0, 0o440, true}, {0, 0o640, true}, {0, 0o660, false}, {0, 0o644, false}, {0, 0o450, false}} {
		if os.Getuid() == 0 {
			if err := os.Chown(file, c.owner, 65532); err != nil {
				t.Fatal(err)
			}
		} else if c.owner == 0 {
			continue
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := OpenKeyring(KeyOptions{File: file})
		if c.ok != (err == nil) || err != nil && stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("a key file of user %d with mode %s: %v", c.owner, c.mode, err)
		}
	}
}
