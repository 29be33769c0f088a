package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
)

// Output is the stored output of one completed step by its key; CodeNotFound if there is none. A top-level step costs
// a look-up; any other, whose key is in its row, a scan of the execution's rows.
func (s *Store) Output(ctx context.Context, execution int64, key string) ([]byte, error) {
	ids, err := s.stepIDs(ctx, execution)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	query, arg := s.sql["output_of"], any(key)
	if idx := slices.Index(ids, key); idx >= 0 {
		query, arg = s.sql["output_at"], idx
	}
	var output []byte
	err = s.read.QueryRowContext(ctx, query, execution, arg).Scan(&output)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("step %q has not completed", key)}
	}
	if output == nil && err == nil {
		output = []byte("{}")
	}
	return output, fault("read "+s.path, err)
}
