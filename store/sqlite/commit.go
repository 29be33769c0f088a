package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// errRefused is a commit that cannot be made; which and why is found after the rollback.
var errRefused = errors.New("refused")

// Commit stores all commits in one transaction, or none: *store.RefusedError when some of them cannot be made. A done
// ctx stops it before it begins, never halfway. It keeps no reference to its arguments.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) error {
	if err := ctx.Err(); err != nil || len(commits) == 0 {
		return err
	}
	w, err := s.writing()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err = w.transaction(func(w *writer) error { return w.commits(commits) })
	if err == nil {
		w.forgetEnded(commits)
	} else {
		clear(w.latest)
		w.logs.drop()
		w.steps.drop()
	}
	if errors.Is(err, errRefused) {
		err = w.refusals(commits)
	}
	return fault("commit to "+s.path, err)
}

func (w *writer) commits(commits []store.Commit) error {
	for i := range commits {
		if err := w.head(&commits[i]); err != nil {
			return err
		}
	}
	if err := w.logs.flush(w.conn); err != nil {
		return refused(err)
	}
	if err := w.stepRows(commits); err != nil {
		return err
	}
	if err := w.usage(commits); err != nil {
		return err
	}
	for i := range commits {
		for _, f := range commits[i].Forget {
			if err := w.forgetMemos(commits[i].Execution, f); err != nil {
				return err
			}
		}
		for _, s := range commits[i].Superseded {
			if err := execute(w.supersede, commits[i].Execution, int64(s.Below), s.Key, s.Self); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetMemos removes the memos of a step and lets its former attempts record no more of them.
func (w *writer) forgetMemos(execution int64, f engine.Forgotten) error {
	if err := w.run("forget", execution, int64(f.Idx)); err != nil {
		return err
	}
	return w.run("memo_fence", execution, int64(f.Idx), int64(f.Epoch))
}

// head writes everything of a commit but its step rows.
func (w *writer) head(c *store.Commit) error {
	if err := w.follows(c); err != nil {
		return err
	}
	if err := w.logs.add(w.conn, c.Execution, c.Version, string(c.Log), c.Unnamed()); err != nil {
		return refused(err)
	}
	if c.Create != nil {
		if err := w.createRow(c.Execution, c.Create); err != nil {
			return err
		}
	}
	if c.Update != nil {
		if err := w.updateRow(c.Execution, c.Update); err != nil {
			return err
		}
	}
	return w.writeOptional(c)
}

// follows sees to it that no version is left out.
func (w *writer) follows(c *store.Commit) error {
	if err := c.OnlyFirstCreates(); err != nil {
		return err
	}
	if c.Version > 1 && w.latest[c.Execution] != c.Version-1 { // another process has written it, or an earlier one
		var yes bool
		if err := w.before.QueryRowContext(context.Background(), c.Execution, c.Version-1).Scan(&yes); err != nil {
			return err
		}
		if !yes {
			return errRefused
		}
	}
	w.latest[c.Execution] = c.Version
	return nil
}

// forgetEnded forgets the versions of executions that the calls' last commits have ended.
func (w *writer) forgetEnded(commits []store.Commit) {
	for i := range commits {
		if c := &commits[i]; c.Update != nil && c.Update.Status.Terminal() && w.latest[c.Execution] == c.Version {
			delete(w.latest, c.Execution)
		}
	}
}

// refused recognises a key that exists already.
func refused(err error) error {
	if code := rescode(err); code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || code == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return errRefused
	}
	return err
}

func (w *writer) createRow(no int64, x *store.Execution) error {
	failure, progress, err := outcome(x.Failure, x.Progress)
	if err != nil {
		return err
	}
	err = w.create.exec(w.conn, no, x.ID, x.Pipeline, int64(x.Status), x.Definition, text(x.Parent), x.Trigger, x.Dir,
		x.Created.UnixMicro(), micros(x.Started), micros(x.Ended), failure, progress, blob(x.Params), blob(x.Outputs),
		text(x.Workflow), number(int64(x.WorkflowVersion)), text(x.Job), text(x.Actor), text(x.Concurrency), number(int64(x.Priority)), number(x.Owner), text(x.Project), text(x.Lesson), text(x.Partition))
	if err == nil && x.Key != "" {
		err = w.run("start_key_put", x.Key, x.KeyHash, no, x.Created.UnixMicro())
	}
	return refused(err)
}

func (w *writer) updateRow(no int64, u *store.Update) error {
	failure, progress, err := outcome(u.Failure, u.Progress)
	if err != nil {
		return err
	}
	if err := w.update.exec(w.conn, no, int64(u.Status), number(u.Started), number(u.Ended), failure, progress, blob(u.Outputs)); err != nil {
		return err
	}
	return w.endWaits(no, u.Status)
}

func outcome(f *engine.Failure, p engine.Progress) (failure, progress any, err error) {
	if f != nil {
		if failure, err = jsonText(f); err != nil {
			return nil, nil, err
		}
	}
	if p != (engine.Progress{}) {
		var raw []byte
		raw, err = p.AppendJSON(make([]byte, 0, 160))
		progress = string(raw)
	}
	return failure, progress, err
}

func jsonText(v any) (any, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}

// stepRows writes the rows of all commits together.
func (w *writer) stepRows(commits []store.Commit) error {
	for i := range commits {
		c := &commits[i]
		for j := range c.Steps {
			r := &c.Steps[j]
			rare := store.ExtraOf(r)
			extra, err := rare.Append(w.extra[:0], r.Input)
			if err != nil {
				return fmt.Errorf("step %d: %w", r.Idx, err)
			}
			w.extra = extra
			if err := w.steps.add(w.conn, c.Execution, int64(r.Idx), c.Version, int64(r.Status), int64(r.Attempt), number(int64(r.Seq)),
				number(r.Queued), number(r.Started), number(r.Ended), text(r.Worker), blob(r.Output), text(string(extra))); err != nil {
				return err
			}
		}
	}
	return w.steps.flush(w.conn)
}

// number is NULL for 0.
func number(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// text is NULL for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob is text, or NULL for nil: JSON is stored as text, so that views and people can read it.
func blob(raw []byte) any {
	if raw == nil {
		return nil
	}
	return string(raw)
}

// micros is NULL for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}
