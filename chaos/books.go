package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stepwell/stepwell"
)

// alone is CodeConflict when the database holds executions of others: their processes would be cut off too.
func (t *trial) alone(ctx context.Context) error {
	if err := t.db.Ping(ctx); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the database cannot be reached", Err: err}
	}
	var others bool
	err := t.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM execution WHERE pipeline NOT LIKE $1 || '%')`, pipelinePrefix).Scan(&others)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" { // it has no tables yet
		return nil
	}
	if err == nil && others {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the database holds executions of other pipelines", Hint: "create a database for this alone: everything on it is disturbed"}
	}
	return err
}

// questions are asked of the tables themselves, of the executions of pipeline $1. Each row of an answer is a fault; $2 is the number of steps of
// an execution.
var questions = []struct{ what, query string }{
	{"executions that have not completed", `SELECT id || ' is ' || status FROM execution WHERE pipeline = $1 AND status <> 4 AND $2 > 0`},
	{"gaps in a step log", `SELECT x.id || ' has ' || count(*) || ' entries up to ' || max(l.version) FROM execution x JOIN step_log l ON l.execution = x.no
		WHERE x.pipeline = $1 AND $2 > 0 GROUP BY x.id HAVING min(l.version) <> 1 OR max(l.version) <> count(*)`},
	{"steps that are not there", `SELECT x.id || ' has ' || count(s.idx) || ' completed steps' FROM execution x LEFT JOIN step s ON s.execution = x.no AND s.status = 5
		WHERE x.pipeline = $1 GROUP BY x.id HAVING count(s.idx) <> $2`},
	{"steps that have not ended", `SELECT x.id || ':' || s.idx || ' is ' || s.status FROM execution x JOIN step s ON s.execution = x.no WHERE x.pipeline = $1 AND s.status <> 5 AND $2 > 0`},
	{"steps that completed more than once", `SELECT execution_id || ' ' || step_key || ' ' || count(*) FROM pipeline_step_log WHERE event_type = 'completed' AND step_key IS NOT NULL
		AND execution_id IN (SELECT id FROM execution WHERE pipeline = $1) AND $2 > 0 GROUP BY execution_id, step_key HAVING count(*) <> 1`},
	{"executions that are still live", `SELECT id FROM execution_live WHERE pipeline = $1 AND $2 > 0`},
	{"start keys with more than one execution", `SELECT params FROM execution WHERE pipeline = $1 AND $2 > 0 GROUP BY params HAVING count(*) > 1`},
}

// check reads the books. What is only delivered after the end of an execution has a while to get empty.
func (t *trial) check(ctx context.Context) (executions int, err error) {
	for _, q := range questions {
		found, err := read(ctx, t.db, pgx.RowTo[string], q.query+" LIMIT 5", t.name, stepsEach)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", q.what, err)
		}
		for _, f := range found {
			t.wrong("%s: %s", q.what, f)
		}
	}
	if executions, err = t.checkOutputs(ctx); err != nil {
		return executions, err
	}
	for what, query := range left {
		if err := t.checkLeft(ctx, what, func() (int, error) {
			n, err := read(ctx, t.db, pgx.RowTo[int], query)
			return append(n, 0)[0], err
		}); err != nil {
			return executions, err
		}
	}
	if err := t.checkLeft(ctx, "attempts that workers hold", func() (int, error) { return t.held(ctx) }); err != nil || t.redis == nil {
		return executions, err
	}
	return executions, t.checkLeft(ctx, "messages in the lists", func() (int, error) { return t.listed(ctx) })
}

// ended is an execution that has outputs.
type ended struct {
	ID      string
	N       int
	Outputs string
}

// checkOutputs compares the outputs of the round's executions with what they should be, and their number with that of the starts.
func (t *trial) checkOutputs(ctx context.Context) (executions int, err error) {
	all, err := read(ctx, t.db, pgx.RowToStructByPos[ended], `SELECT id, (params::json ->> 'n')::int, outputs FROM execution WHERE pipeline = $1 AND outputs IS NOT NULL`, t.name)
	for _, x := range all {
		if why := differs(x.N, []byte(x.Outputs)); why != "" {
			t.wrong("outputs of %s: %s", x.ID, why)
		}
	}
	if started := int(t.next.Load()); err == nil && len(all) != started {
		t.wrong("%d executions were started, %d have outputs", started, len(all))
	}
	return len(all), err
}

// left counts what an end leaves for a moment and nothing leaves for good.
var left = map[string]string{
	"entries of the outbox":    `SELECT count(*) FROM outgoing`,
	"slots that are held":      `SELECT count(*) FROM seat`,
	"permits in use":           `SELECT coalesce(sum(demand), 0) FROM permit`,
	"requests to executions":   `SELECT count(*) FROM request`,
	"signals that nobody took": `SELECT count(*) FROM signal WHERE taken IS NULL`,
}

// checkLeft waits a while for nothing to be left.
func (t *trial) checkLeft(ctx context.Context, what string, count func() (int, error)) error {
	n, err := 0, error(nil)
	for i := range 100 {
		if n, err = count(); err == nil && n == 0 {
			return nil
		}
		if i%10 == 9 {
			t.say("%d %s are left (%v)", n, what, err)
		}
		if wait(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err == nil {
		t.wrong("%d %s are left", n, what)
	}
	return err
}

// held counts the attempts that workers hold, as the servers know it.
func (t *trial) held(ctx context.Context) (n int, err error) {
	for _, m := range t.nodes {
		var list struct{ Workers []struct{ Held int } }
		c := m.client()
		if c == nil {
			return 0, errAway
		}
		if err := c.Call(ctx, "GET", "/api/v1/workers", nil, nil, &list); err != nil {
			return 0, err
		}
		for _, w := range list.Workers {
			n += w.Held
		}
	}
	return n, nil
}

// listed counts the lists in Redis: an empty one does not exist.
func (t *trial) listed(ctx context.Context) (int, error) {
	keys, err := t.redis.Do(ctx, t.redis.B().Keys().Pattern(lists).Build()).AsStrSlice()
	return len(keys), err
}
