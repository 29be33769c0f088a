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
	{"slots that are still held", `SELECT s.execution::text FROM seat s JOIN execution x ON x.no = s.execution WHERE x.pipeline = $1 AND $2 > 0`},
	{"start keys with more than one execution", `SELECT params FROM execution WHERE pipeline = $1 AND $2 > 0 GROUP BY params HAVING count(*) > 1`},
}

// check reads the books. What is only delivered after the end of an execution has a while to get empty.
func (t *trial) check(ctx context.Context) error {
	for _, q := range questions {
		rows, err := t.db.Query(ctx, q.query+" LIMIT 5", t.name, stepsEach)
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		for _, f := range found {
			t.wrong("%s: %s", q.what, f)
		}
	}
	if err := t.checkOutputs(ctx); err != nil {
		return err
	}
	return t.checkOutbox(ctx)
}

// checkOutputs compares the outputs of all executions with what they should be, and their number with that of the starts.
func (t *trial) checkOutputs(ctx context.Context) error {
	rows, err := t.db.Query(ctx, `SELECT id, (params::json ->> 'n')::int, outputs FROM execution WHERE pipeline = $1 AND outputs IS NOT NULL`, t.name)
	if err != nil {
		return err
	}
	var id, out string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&id, &n, &out}, func() error {
		t.result.Executions++
		t.result.Steps += stepsEach
		if why := differs(n, []byte(out)); why != "" {
			t.wrong("outputs of %s: %s", id, why)
		}
		return nil
	})
	if started := int(t.next.Load()); err == nil && t.result.Executions != started {
		t.wrong("%d executions were started, %d have outputs", started, t.result.Executions)
	}
	return err
}

func (t *trial) checkOutbox(ctx context.Context) error {
	left := 0
	for range 50 {
		if err := t.db.QueryRow(ctx, `SELECT count(*) FROM outgoing`).Scan(&left); err != nil || left == 0 {
			return err
		}
		wait(ctx, 200*time.Millisecond)
	}
	t.wrong("the outbox still holds %d entries", left)
	return nil
}
