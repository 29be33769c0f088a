package ledger

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/partition"
)

// One says in which state one partition of a stored pipeline is, by its Key; its cost does not grow with the number of partitions.
// CodeNotFound: there is no such pipeline, or the key names none of its partitions; CodeInvalid: the pipeline has no partitions.
func (g *Ledger) One(ctx context.Context, idOrName, key string) (*Partition, error) {
	d, err := g.o.Library.Snapshot(ctx, idOrName, 0, nil)
	if err != nil {
		return nil, err
	}
	p, err := g.o.Library.Pipeline(ctx, idOrName)
	if err != nil {
		return nil, err
	}
	setting, err := settingOf(d)
	if err != nil {
		return nil, err
	}
	axes, err := setting.Axes(enumsOf(d), g.o.Now())
	if err != nil {
		return nil, err
	}
	values, ok := partition.ValuesOf(key, axes)
	if !ok {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "stepwell pipelines partitions "+p.Name+" shows them", "the pipeline %s has no partition %q", p.Name, stepwell.Clip(key, 100))
	}
	key = partition.KeyOf(values)
	o, err := g.entry(ctx, entryID(p.ID, key))
	if err != nil {
		return nil, err
	}
	e, err := glanceOf(o)
	if err != nil {
		return nil, err
	}
	running, err := g.runningFor(ctx, p.ID, key, setting)
	if err != nil {
		return nil, err
	}
	now, err := g.judge(d)
	if err != nil {
		return nil, err
	}
	out := &Partition{Key: key, Values: values}
	if err := g.state(ctx, out, &e, running, now); err != nil {
		return nil, err
	}
	return out, out.tried(p.ID, &e, running)
}
