package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// usage adds what the attempts of commits have used, each sum once.
func (w *writer) usage(commits []store.Commit) error {
	for _, u := range mergeUsage(commits) {
		if err := w.addUsage.exec(w.conn, u.Kind, u.ID, u.InputTokens, u.OutputTokens, u.AudioMillis, u.Cost); err != nil {
			return err
		}
	}
	return nil
}

// UsageOf reads a sum of usage.
func (s *Store) UsageOf(ctx context.Context, kind, id string) (u stepwell.Spending, err error) {
	err = s.read.QueryRowContext(ctx, s.sql["usage_of"], kind, id).Scan(&u.InputTokens, &u.OutputTokens, &u.AudioMillis, &u.Cost)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return u, fault("read "+s.path, err)
}

// UsageIn lists sums of usage in order of their ids.
func (s *Store) UsageIn(ctx context.Context, kind, from, before string, limit int) ([]store.Used, error) {
	return list(ctx, s, func(rows *sql.Rows, u *store.Used) error {
		u.Kind = kind
		return rows.Scan(&u.ID, &u.InputTokens, &u.OutputTokens, &u.AudioMillis, &u.Cost)
	}, s.sql["usage_in"], kind, from, before, limit)
}

// EndedIn lists the ends of executions in order of their times.
func (s *Store) EndedIn(ctx context.Context, from, before time.Time, limit int) ([]store.Ended, error) {
	return list(ctx, s, func(rows *sql.Rows, e *store.Ended) error {
		var at, took int64
		err := rows.Scan(&at, &took, &e.Workflow, &e.Status, &e.Cost)
		e.At, e.Took = time.UnixMicro(at).UTC(), time.Duration(took)*time.Microsecond
		return err
	}, s.sql["ended_in"], from.UnixMicro(), before.UnixMicro(), limit)
}

// mergeUsage merges the sums of commits, so that a batch writes each of its rows once.
func mergeUsage(commits []store.Commit) []store.Used {
	var out []store.Used
	at := map[[2]string]int{}
	for i := range commits {
		for _, u := range commits[i].Usage {
			key := [2]string{u.Kind, u.ID}
			n, there := at[key]
			if !there {
				n = len(out)
				at[key] = n
				out = append(out, store.Used{Kind: u.Kind, ID: u.ID})
			}
			out[n].Spending = out[n].Plus(u.Spending)
		}
	}
	return out
}
