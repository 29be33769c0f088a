package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Prune implements store.Keeper. Definitions stay: one that no execution has may be about to get one.
func (s *Store) Prune(ctx context.Context, r store.Retention) (removed store.Removed, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return removed, false, err
	}
	s.mu.Lock()
	batch := store.Limit(r.Batch, 100, 10_000)
	if !r.Executions.IsZero() {
		more = s.removeExecutions(r.Executions, batch, &removed)
	}
	if !r.Logs.IsZero() {
		s.removeLines(r.Logs, &removed)
	}
	if !r.Keys.IsZero() {
		s.removeKeys(r.Keys, &removed)
	}
	if !r.Audit.IsZero() {
		before := len(s.audit)
		s.audit = slices.DeleteFunc(s.audit, func(e store.AuditEntry) bool { return e.At.Before(r.Audit) })
		removed.Audit = int64(before - len(s.audit))
	}
	if !r.Firings.IsZero() {
		before := len(s.objects)
		maps.DeleteFunc(s.objects, func(k objectKey, o *store.Object) bool {
			return k.kind == store.KindFirings && o.Updated.Before(r.Firings)
		})
		removed.Firings = int64(before - len(s.objects))
	}
	if !r.Ends.IsZero() {
		maps.DeleteFunc(s.usage, func(key [2]string, _ stepwell.Spending) bool {
			return slices.Contains(store.EndKinds(), key[0]) && key[1] < store.EndsFrom(r.Ends)
		})
	}
	s.mu.Unlock()
	if (r.Blobs || !r.Executions.IsZero()) && !more {
		removed.Blobs, more, err = s.sweep.Run(ctx, s.now(), nil, s.blobs, s.blobsUsed)
	}
	return removed, more, err
}

// removeExecutions removes the oldest ones that have ended before a time.
func (s *Store) removeExecutions(before time.Time, batch int, removed *store.Removed) (more bool) {
	var old []*execution
	for _, no := range s.numbers {
		if x := s.executions[no]; x.endedBefore(before) && !x.owes() {
			old = append(old, x)
		}
	}
	slices.SortStableFunc(old, func(a, b *execution) int { return a.row.Ended.Compare(b.row.Ended) })
	more = len(old) >= batch
	for _, x := range old[:min(len(old), batch)] {
		for hash := range x.blobs {
			_ = s.blobs.Touch(hash, s.now()) // of memory: it cannot fail
		}
		removed.Executions++
		removed.Lines += int64(len(x.lines))
		delete(s.executions, x.row.No)
		delete(s.ids, x.row.ID)
		maps.DeleteFunc(s.keys, func(_ string, k store.StartKey) bool { return k.Execution == x.row.ID })
		if at, ok := slices.BinarySearch(s.numbers, x.row.No); ok {
			s.numbers = slices.Delete(s.numbers, at, at+1)
		}
	}
	return more
}

func (x *execution) endedBefore(t time.Time) bool {
	return x.row.Status.Terminal() && !x.row.Ended.IsZero() && x.row.Ended.Before(t)
}

// owes reports whether work outside is still to be stopped.
func (x *execution) owes() bool {
	for _, w := range x.outside {
		if !w.Held && !w.Next.IsZero() {
			return true
		}
	}
	return false
}

func (s *Store) removeLines(before time.Time, removed *store.Removed) {
	for _, x := range s.executions {
		if x.endedBefore(before) {
			removed.Lines += int64(len(x.lines))
			x.lines = nil
		}
	}
}

func (s *Store) removeKeys(before time.Time, removed *store.Removed) {
	count := func(gone bool) bool {
		if gone {
			removed.Keys++
		}
		return gone
	}
	maps.DeleteFunc(s.keys, func(_ string, k store.StartKey) bool { return count(k.Created.Before(before)) })
	for key, list := range s.signals {
		if s.signals[key] = slices.DeleteFunc(list, func(x *signal) bool { return count(x.At.Before(before)) }); len(s.signals[key]) == 0 {
			delete(s.signals, key)
		}
	}
	for _, items := range s.items {
		maps.DeleteFunc(items, func(_ string, at int64) bool { return count(cmp.Less(at, before.UnixMicro())) })
	}
}

// blobsUsed returns those of the blobs that something refers to.
func (s *Store) blobsUsed(_ context.Context, hashes []string) (map[string]bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	used := map[string]bool{}
	for _, hash := range hashes {
		for _, x := range s.executions {
			used[hash] = used[hash] || x.blobs[hash]
		}
		for _, list := range s.blobsOf {
			used[hash] = used[hash] || slices.Contains(list, hash)
		}
	}
	return used, nil
}
