package durable

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestLockWhileDirectoriesGo: runs that end remove the directory of their lock while others begin.
func TestLockWhileDirectoriesGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hidden", "lock")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 500 {
				file, err := lockFile(path, "out")
				switch {
				case err == nil:
					_ = os.Remove(path)
					if err := file.Close(); err != nil {
						t.Error(err)
					}
					_ = os.Remove(filepath.Dir(path)) // unless another one has its lock in it by now
				case !strings.Contains(err.Error(), "by another run"):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
