package sqlite

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// spawnedRows stores the dependencies of spawned steps, which only the spawning event has.
func (w *writer) spawnedRows(c *store.Commit, b *engine.Batch) error {
	type origin struct {
		spawn *engine.Spawn
		at    int64
	}
	from := map[string]origin{}
	for i := range b.Events {
		for j := range b.Events[i].Spawns {
			x := &b.Events[i].Spawns[j]
			from[x.Key] = origin{x, b.Events[i].At}
		}
	}
	for i := range c.Steps {
		r := &c.Steps[i]
		o, ok := from[r.Key]
		if !ok || r.Status != stepwell.StepPending {
			continue
		}
		deps, err := jsonText(append([]string{}, o.spawn.DependsOn...))
		if err != nil {
			return err
		}
		if _, err := w.spawned.ExecContext(context.Background(), c.Execution, int64(r.Idx), deps, o.at); err != nil {
			return err
		}
	}
	return nil
}
