package stream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell/stream/durable"
)

// keepCheckpoints is how long the checkpoint of a segment is kept whose config is no longer used.
const keepCheckpoints = 90 * 24 * time.Hour

// sweep removes checkpoints of older configs of this segment that are unused for long. A locked checkpoint is in use
// and stays.
func (s *segment) sweep(ctx context.Context, now time.Time) error {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(s.base), durable.EscapeGlob(s.name)+"-*.ckpt"))
	own := s.catalog.sharedName(s.base)
	err = errors.Join(err, s.catalog.sweepShared(ctx, strings.TrimSuffix(own, s.hash[:12]), now.Add(-keepCheckpoints), func(name string) string { return name }, own))
	for _, path := range paths {
		info, ierr := os.Stat(path)
		if base := strings.TrimSuffix(path, ".ckpt"); ierr == nil && base != s.base && now.Sub(info.ModTime()) > keepCheckpoints {
			lock, lerr := lockCheckpoint(path)
			if lerr != nil {
				continue
			}
			err = errors.Join(err, os.RemoveAll(base+".data"), os.RemoveAll(base+pagesSuffix), os.RemoveAll(base+spoolSuffix), os.Remove(path), os.Remove(path+".lock"), lock.Unlock())
		}
	}
	return err
}
