package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// usage adds what the attempts of a commit have used.
func (w *writer) usage(c *store.Commit) error {
	for i := range c.Usage {
		u := &c.Usage[i]
		if err := w.run("usage_add", u.Kind, u.ID, u.InputTokens, u.OutputTokens, u.AudioMillis, u.Cost); err != nil {
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
