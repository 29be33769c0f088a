package conductor

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/store"
)

// Refold folds the step log of an execution, whatever its status, and compares what this program decides with what was decided when it
// was recorded. *engine.Diverged says where they differ; other errors say why the log cannot be folded. It changes nothing and takes
// nothing up; the cost is that of recovering the execution.
func (c *Conductor) Refold(ctx context.Context, row *store.Execution) error {
	l, err := c.rebuild(ctx, row, 0)
	if err != nil {
		return err
	}
	now, err := c.o.Store.Execution(ctx, row.ID) // it may have gone on since
	if err != nil {
		return err
	}
	if status := l.run.Status(); status != row.Status && status != now.Status {
		return damaged(row.ID, fmt.Sprintf("leads to %s, and the execution is %s", status, row.Status))
	}
	return nil
}
