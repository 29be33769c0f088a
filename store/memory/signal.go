package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/stepwell/stepwell/store"
)

// signal is a stored signal; taken: no step gets it any more.
type signal struct {
	store.Signal
	taken bool
}

// PutSignal implements store.Signals.
func (s *Store) PutSignal(ctx context.Context, x store.Signal) (fresh bool, err error) {
	_, fresh, err = s.putSignal(ctx, x, false)
	return fresh, err
}

// KeepFirst implements store.Signals.
func (s *Store) KeepFirst(ctx context.Context, x store.Signal) (json.RawMessage, error) {
	first, _, err := s.putSignal(ctx, x, true)
	return first, err
}

func (s *Store) putSignal(ctx context.Context, x store.Signal, taken bool) (first json.RawMessage, fresh bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.signals[x.Key] {
		if one.ID == x.ID {
			return clone(one.Body), false, nil
		}
	}
	x.Body, x.At = clone(x.Body), micros(x.At)
	s.signals[x.Key] = append(s.signals[x.Key], &signal{x, taken})
	return clone(x.Body), true, nil
}

// SignalsFor implements store.Signals.
func (s *Store) SignalsFor(_ context.Context, keys []string) (out []store.Signal, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, key := range keys {
		var oldest *signal
		for _, one := range s.signals[key] {
			if !one.taken && (oldest == nil || cmp.Or(one.At.Compare(oldest.At), cmp.Compare(one.ID, oldest.ID)) < 0) {
				oldest = one
			}
		}
		if oldest != nil {
			x := oldest.Signal
			x.Body = clone(x.Body)
			out = append(out, x)
		}
	}
	return out, nil
}

// Awaiting implements store.Signals.
func (s *Store) Awaiting(_ context.Context, keys []string) (out []store.Waiter, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.now()
	s.waiters(func(x *execution, row *step) bool {
		if slices.Contains(keys, row.External) {
			out = append(out, store.Waiter{Key: row.External, Execution: x.row.ID, Owner: x.row.Owner, Step: row.Idx, Seen: now})
		}
		return true
	})
	return out, nil
}

// signalSize is about what a signal takes beside its texts, in bytes.
const signalSize = 200

// Kept implements store.Signals.
func (s *Store) Kept(context.Context) (bytes int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, list := range s.signals {
		for _, one := range list {
			if !one.taken {
				bytes += int64(len(key) + len(one.Body) + signalSize)
			}
		}
	}
	return bytes, nil
}

// Outbox implements store.Outbox.
func (s *Store) Outbox(_ context.Context, after int64, limit int) (out []store.Outgoing, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, o := range s.outbox {
		if o.No > after && len(out) < store.Limit(limit, 1000, 10_000) {
			o.Body = clone(o.Body)
			out = append(out, o)
		}
	}
	return out, nil
}

// Delivered implements store.Outbox.
func (s *Store) Delivered(ctx context.Context, nos []int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox = slices.DeleteFunc(s.outbox, func(o store.Outgoing) bool { return slices.Contains(nos, o.No) })
	return nil
}

// AppendAudit implements store.Audit.
func (s *Store) AppendAudit(ctx context.Context, entries []store.AuditEntry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.auditNo++
		e.No, e.At, e.Detail = s.auditNo, micros(e.At), clone(e.Detail)
		s.audit = append(s.audit, e)
	}
	return nil
}

// AuditEntries implements store.Audit.
func (s *Store) AuditEntries(_ context.Context, f store.AuditFilter) (out []store.AuditEntry, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := len(s.audit) - 1; i >= 0 && len(out) < store.Limit(f.Limit, 100, 1000); i-- {
		e := s.audit[i]
		if (f.Before <= 0 || e.No < f.Before) && !e.At.Before(f.Since) && (f.Actor == "" || f.Actor == e.Actor) &&
			(f.Action == "" || f.Action == e.Action) && (f.Object == "" || f.Object == e.Object) {
			e.Detail = clone(e.Detail)
			out = append(out, e)
		}
	}
	return out, nil
}
