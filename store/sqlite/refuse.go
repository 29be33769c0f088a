package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// logKey is a key of the step log.
type logKey struct{ execution, version int64 }

// refusals finds the commits of a call that cannot be made, and the reasons: the first one for each execution.
func (w *writer) refusals(commits []store.Commit) error {
	found := &store.RefusedError{}
	here, out := map[logKey]bool{}, map[int64]bool{}
	ids, keys := map[string]bool{}, map[string]bool{}
	for i := range commits {
		c := &commits[i]
		if out[c.Execution] {
			continue
		}
		x := c.Create
		if x == nil {
			x = &store.Execution{}
		}
		var taken, before, id, key bool
		err := w.conn.QueryRowContext(context.Background(), w.queries["refusal"], c.Execution, c.Version, x.ID, x.Key).Scan(&taken, &before, &id, &key)
		if err != nil {
			return err
		}
		why, err := why(c, taken || here[logKey{c.Execution, c.Version}], before || here[logKey{c.Execution, c.Version - 1}], id || ids[x.ID], key || keys[x.Key])
		if err != nil {
			found.Refusals = append(found.Refusals, store.Refusal{Execution: c.Execution, Why: why, Err: err})
			out[c.Execution] = true
			continue
		}
		here[logKey{c.Execution, c.Version}] = true
		ids[x.ID], keys[x.Key] = x.ID != "", x.Key != ""
	}
	if len(found.Refusals) == 0 {
		return errors.New("what refused the commit is no longer there") // removed meanwhile: the same call may succeed
	}
	return found
}

// why words a refusal; nil: there is none.
func why(c *store.Commit, taken, before, id, key bool) (store.Why, error) {
	conflict := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case taken:
		return store.VersionTaken, conflict("version %d of execution %d exists already: another process has written it", c.Version, c.Execution)
	case c.Version > 1 && !before:
		return store.VersionGap, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("version %d of execution %d has none before it", c.Version, c.Execution)}
	case id:
		return store.IDTaken, conflict("an execution %s exists already", c.Create.ID)
	case key:
		return store.KeyTaken, conflict("an execution was started under the key %q already", c.Create.Key)
	}
	return 0, nil
}
