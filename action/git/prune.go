package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxAge is how long a repository stays in the cache that nobody uses.
const maxAge = 30 * 24 * time.Hour

// prune removes repositories from the cache that were not used for long, and those that were used longest ago until it is
// small enough. One that is in use stays.
func (h *handler) prune() {
	locks, err := filepath.Glob(filepath.Join(h.o.Cache, "*.git.lock"))
	if err != nil {
		return
	}
	type cached struct {
		lock string
		used time.Time
		size int64
	}
	var list []cached
	total := int64(0)
	for _, path := range locks {
		if info, err := os.Stat(path); err == nil {
			c := cached{path, info.ModTime(), sizeOf(strings.TrimSuffix(path, ".lock"))}
			list, total = append(list, c), total+c.size
		}
	}
	slices.SortFunc(list, func(a, b cached) int { return a.used.Compare(b.used) })
	for _, c := range list {
		if total <= h.o.CacheBytes && time.Since(c.used) < maxAge {
			return
		}
		f, err := tryLock(c.lock)
		if err != nil || f == nil {
			continue
		}
		if os.RemoveAll(strings.TrimSuffix(c.lock, ".lock")) == nil { // the lock file stays: another may be waiting for it
			total -= c.size
		}
		f.Close()
	}
}
