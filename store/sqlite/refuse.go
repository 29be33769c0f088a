package sqlite

import (
	"context"
	"errors"

	"github.com/stepwell/stepwell/store"
)

// refusals finds the commits of a call that cannot be made, and the reasons.
func (w *writer) refusals(commits []store.Commit) error {
	err := store.Refuse(commits, func(i int) (s store.Stored, err error) {
		x := commits[i].Create
		if x == nil {
			x = &store.Execution{}
		}
		err = w.conn.QueryRowContext(context.Background(), w.queries["refusal"], commits[i].Execution, commits[i].Version, x.ID, x.Key).Scan(&s.Taken, &s.Before, &s.ID, &s.Key)
		return s, err
	})
	if err == nil {
		return errors.New("what refused the commit is no longer there") // removed meanwhile: the same call may succeed
	}
	return err
}
