package conductor

import (
	"context"
	"errors"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
)

// Reuse says how an execution would begin with results of one that has ended.
type Reuse struct {
	Execution string   // that has ended; "": nothing is taken over
	Steps     int      // the first ones, whose results are taken over
	Why       []string // of each step after them: why it runs

	row   *store.Execution // of Execution
	run   *live            // rebuilt from it
	seeds []engine.Seed
}

// PreviewReuse says what the executions of Request.Reuse would give to one that is started now: the longest beginning of unchanged steps
// (plan.Plan.Changes) that completed in one of them; of equal ones the first's. A step is not taken over either when a parameter, or a field of the
// project or the lesson that its templates read has another value, and none is when the lesson has another file.
func (c *Conductor) PreviewReuse(ctx context.Context, req Request) (*Reuse, error) {
	id, err := c.o.NewID()
	if err != nil {
		return nil, err
	}
	defer c.o.Secrets.Forget(id)
	params, err := c.checkParams(id, &req)
	if err != nil {
		return nil, err
	}
	return c.longest(ctx, id, &req, params)
}

// takeOver fills in what a new execution takes over. An execution that is changed or removed while it is read gives nothing.
func (c *Conductor) takeOver(ctx context.Context, id string, req *Request, params map[string]any) error {
	for left := req.Reuse; len(left) > 0; {
		from := *req
		from.Reuse = left
		best, err := c.longest(ctx, id, &from, params)
		if err != nil || best.Steps == 0 {
			return err
		}
		whole, err := c.readSeeds(ctx, req.Pipeline.plan, best)
		if err != nil {
			return err
		}
		if whole {
			req.seeds, req.reused = best.seeds, best.Execution
			return nil
		}
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool { return id == best.Execution })
	}
	return nil
}

// readSeeds fills in the outputs of the steps that are taken over, under the ids that they have now. It reports false when the execution
// has changed since its row was read, or is being removed. What is read stays: blobs outlive their last use by a day.
func (c *Conductor) readSeeds(ctx context.Context, now *plan.Plan, u *Reuse) (bool, error) {
	for i := range u.seeds {
		u.seeds[i].Read = now.Graph.Steps[i].Keep
	}
	err := holding(c.seedOutputs(ctx, u.row, u.run, u.seeds))
	if err != nil && !isHeld(err) {
		return false, err
	}
	for i := range u.seeds {
		u.seeds[i].Key = now.Graph.Steps[i].ID
	}
	row, gone := c.o.Store.Execution(ctx, u.row.ID)
	if gone != nil {
		if stepwell.CodeOf(gone) == stepwell.CodeNotFound {
			gone = nil
		}
		return false, gone
	}
	return err == nil && row.Version == u.row.Version, nil
}

func isHeld(err error) bool {
	_, held := errors.AsType[*heldError](err)
	return held
}

// longest finds the execution with the longest beginning; when none has one, why that of the first cannot be taken over.
func (c *Conductor) longest(ctx context.Context, id string, req *Request, params map[string]any) (best *Reuse, err error) {
	steps := len(req.Pipeline.plan.Graph.Steps)
	for _, from := range req.Reuse {
		least := -1
		if best != nil {
			least = best.Steps
		}
		one, err := c.beginning(ctx, id, from, req, params, least)
		if err != nil {
			return nil, err
		}
		if one.Steps > least {
			best = one
		}
		if best.Steps == steps {
			break
		}
	}
	if best == nil {
		best = unusable(steps, "nothing has ended whose results it could take over")
	}
	if best.Steps == 0 {
		best.Execution = ""
	}
	return best, nil
}

// unusable is a Reuse of nothing.
func unusable(steps int, why string) *Reuse {
	u := &Reuse{Why: make([]string, steps)}
	for i := range u.Why {
		u.Why[i] = why
	}
	return u
}

// beginning compares an execution that has ended with a request. One that cannot give more than least steps is not read.
func (c *Conductor) beginning(ctx context.Context, id, from string, req *Request, params map[string]any, least int) (*Reuse, error) {
	now := req.Pipeline.plan
	steps := len(now.Graph.Steps)
	row, err := c.o.Store.Execution(ctx, from)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return unusable(steps, "the earlier one is not there any more"), nil
	case err != nil:
		return nil, err
	case !row.Status.Terminal():
		return unusable(steps, "the earlier one has not ended: it is "+row.Status.String()), nil
	}
	p, err := c.snapshot(ctx, row.Definition)
	if err != nil {
		return c.unreadable(steps, row, holding(err))
	}
	u := &Reuse{Execution: row.ID, Why: now.Changes(p.plan), row: row}
	if most := now.Unchanged(p.plan, slices.Clone(u.Why)); most > max(least, 0) {
		if u.run, err = c.rebuild(ctx, row, 0); err != nil {
			return c.unreadable(steps, row, holding(err))
		}
		if err := c.compare(ctx, id, req, params, u); err != nil {
			return nil, err
		}
	}
	u.Steps = now.Unchanged(p.plan, u.Why)
	u.Why, u.seeds = u.Why[u.Steps:], u.seeds[:min(u.Steps, len(u.seeds))]
	return u, nil
}

// unreadable is for an execution that this program cannot read, unless the error passes.
func (c *Conductor) unreadable(steps int, row *store.Execution, err error) (*Reuse, error) {
	if !isHeld(err) {
		return nil, err
	}
	c.o.Log.Warn("an execution cannot be read; nothing of it is taken over", "execution", row.ID, "error", err)
	return unusable(steps, "the earlier one cannot be read any more"), nil
}

// compare fills in the results of the steps at the beginning, and why others cannot be taken over although they have not changed.
func (c *Conductor) compare(ctx context.Context, id string, req *Request, params map[string]any, u *Reuse) error {
	why := func(i int, text string) {
		if i < len(u.Why) && u.Why[i] == "" {
			u.Why[i] = text
		}
	}
	if u.run.run.Revision() != engine.Revision {
		why(0, "an earlier release has begun that one, whose templates had other rules")
		return nil
	}
	if items := req.Pipeline.plan.Items; items > 0 && req.Project != "" && !req.Uncounted {
		why(int(items)-1, "its items count for the project")
	}
	if err := c.compareValues(id, req, params, u, why); err != nil {
		return err
	}
	u.seeds = u.run.run.Beginning()
	n := len(u.seeds)
	if n >= len(u.Why) || u.Why[n] != "" {
		return nil
	}
	rows, err := c.o.Store.Steps(ctx, u.row.No, store.StepFilter{From: int32(n), Limit: 1})
	if err != nil {
		return err
	}
	text := "it did not complete whole there, or has added steps"
	if len(rows) > 0 && rows[0].Status != stepwell.StepCompleted {
		text = "it did not complete there: it is " + rows[0].Status.String()
	}
	why(n, text)
	return nil
}

// address is the member of the lesson's file that is this server's, and file is the member of the lesson that is compared apart.
var address, file = map[string]bool{"url": true}, map[string]bool{"media": true}

// compareValues compares the file of the lesson, and the values that the templates of each step read. Secret parameters are not
// compared, as secrets are not: the answer would say whether a guess is right.
func (c *Conductor) compareValues(id string, req *Request, params map[string]any, u *Reuse, why func(i int, text string)) error {
	about, err := decodeObject(req.About)
	if err != nil {
		return err
	}
	secret := map[string]bool{}
	for _, p := range append(slices.Clone(req.Pipeline.Parameters), u.run.pipeline.Parameters...) {
		secret[p.Name] = secret[p.Name] || p.Secret
	}
	now := map[string]any{"params": without(params, secret), "project": about["project"], "lesson": about["lesson"]}
	known := u.run.run.About()
	then := map[string]any{"project": known["project"], "lesson": known["lesson"]}
	if !equal(without(plan.About(about).Media(), address), without(known.Media(), address)) {
		why(0, "the lesson has another file")
		return nil
	}
	for i := range u.Why {
		for _, path := range req.Pipeline.plan.Seen(int32(i)) {
			if path[0] == "params" && then["params"] == nil {
				opened, err := c.o.Secrets.OpenParams(id, u.row.Params)
				if err != nil { // its key is gone
					why(i, "the parameters of that one cannot be read any more")
					return nil
				}
				before, err := decodeObject(opened)
				if err != nil {
					return err
				}
				then["params"] = without(before, secret)
			}
			if name, same := compareAt(now, then, path); !same {
				why(i, name+" changed")
			}
		}
	}
	return nil
}

// without is a copy of an object without some members.
func without(m map[string]any, names map[string]bool) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if !names[k] {
			out[k] = v
		}
	}
	return out
}

// compareAt compares the values at a path: the first member below the root, or all. The file of the lesson is compared apart.
func compareAt(now, then map[string]any, path []string) (name string, same bool) {
	a, b := object(now[path[0]]), object(then[path[0]])
	if len(path) > 1 {
		name = path[0] + "." + path[1]
		if name == "lesson.media" {
			return name, true
		}
		x, there := a[path[1]]
		y, before := b[path[1]]
		return name, there == before && equal(x, y)
	}
	return path[0], equal(without(a, file), without(b, file))
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// equal compares JSON values.
func equal(a, b any) bool {
	x, err := expr.Marshal(a)
	y, err2 := expr.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}
