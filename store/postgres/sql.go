package postgres

import "strings"

// The statements of a commit. Each takes its rows as arrays; {slot} is the end of the names of a slot's tables.

const sqlLog = `INSERT INTO step_log{slot} (execution, version, at, queued, unnamed, body)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])`

// executionColumns are the columns of both tables of executions.
const executionColumns = `no, id, owner, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress,
    params, outputs, workflow, workflow_version, job, actor, concurrency, priority, project, lesson, partition_key`

var executionTypes = []uint32{i8, str, i8, str, i2, raw, str, str, str, i8, i8, i8, str, str, str, str, str, i4, str, str, str, i4, str, str, str}

// In these statements = ANY (ARRAY[…]) makes a lookup by the key for each row. With a plain = the server may as well read a whole index:
// its plans for small tables do, among them that of executions under way, whose dead entries it reads too.

// sqlCreate inserts into one table. An id that is in the other one becomes NULL, which the table refuses.
func sqlCreate(table, other string) string {
	return `INSERT INTO ` + table + ` (` + executionColumns + `)
SELECT u.no, CASE WHEN NOT EXISTS (SELECT 1 FROM ` + other + ` x WHERE x.id = ANY (ARRAY[u.id])) THEN u.id END, ` + of("u", "owner, "+after(executionColumns, "owner, ")) + `
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::smallint[], $6::bytea[], $7::text[], $8::text[], $9::text[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::int[], $19::text[], $20::text[],
    $21::text[], $22::int[], $23::text[], $24::text[], $25::text[]) AS u (` + executionColumns + `)`
}

// of puts the name of a table before each column.
func of(table, columns string) string {
	list := strings.Split(columns, ",")
	for i, c := range list {
		list[i] = table + "." + strings.TrimSpace(c)
	}
	return strings.Join(list, ", ")
}

func after(s, head string) string {
	_, rest, _ := strings.Cut(s, head)
	return rest
}

// The updates of executions. Each counts the rows that it has changed and fails with a division by zero when one is missing, which
// undoes the whole batch: an execution that has been removed cannot go on.
const (
	updateRows = `unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[]) AS u (no, status, started, ended, failure, progress, outputs)`
	updateSet  = `SET status = u.status, started = coalesce(u.started, x.started), ended = u.ended, failure = u.failure, progress = u.progress, outputs = u.outputs`
	allChanged = `SELECT 1 / (CASE WHEN count(*) = cardinality($1::bigint[]) THEN 1 ELSE 0 END) FROM `

	// movedColumns are executionColumns of a row x that is moved with an update u.
	movedColumns = `x.no, x.id, x.owner, x.pipeline, u.status, x.definition, x.parent, x.caused_by, x.dir, x.created, coalesce(u.started, x.started) AS started,
    u.ended, u.failure, u.progress, x.params, u.outputs, x.workflow, x.workflow_version, x.job, x.actor, x.concurrency, x.priority, x.project, x.lesson, x.partition_key`

	changeLive = `UPDATE execution_live x ` + updateSet + ` FROM ` + updateRows + ` WHERE x.no = ANY (ARRAY[u.no]) RETURNING 1`
	changePast = `UPDATE execution_past x ` + updateSet + ` FROM ` + updateRows + ` WHERE x.no = ANY (ARRAY[u.no]) RETURNING 1`
	toPast     = `d AS (DELETE FROM execution_live x USING ` + updateRows + ` WHERE x.no = ANY (ARRAY[u.no]) RETURNING ` + movedColumns + `),
    i AS (INSERT INTO execution_past (` + executionColumns + `) SELECT ` + executionColumns + ` FROM d RETURNING 1)`
	toLive = `d AS (DELETE FROM execution_past x USING ` + updateRows + ` WHERE x.no = ANY (ARRAY[u.no]) RETURNING ` + movedColumns + `),
    i AS (INSERT INTO execution_live (` + executionColumns + `) SELECT ` + executionColumns + ` FROM d RETURNING 1)`

	sqlChange    = `WITH c AS (` + changeLive + `) ` + allChanged + `c`
	sqlEnd       = `WITH ` + toPast + ` ` + allChanged + `i`
	sqlChangeAny = `WITH ` + toLive + `, c AS (` + changeLive + `) ` + allChanged + `(SELECT * FROM i UNION ALL SELECT * FROM c) n`
	sqlEndAny    = `WITH ` + toPast + `, c AS (` + changePast + `) ` + allChanged + `(SELECT * FROM i UNION ALL SELECT * FROM c) n`
)

const (
	sqlSteps = `INSERT INTO step{slot} AS s (execution, idx, version, seq, attempt, status, queued, started, ended, worker, key, external, output, rare)
SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::int[], $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])`
	sqlStepsAgain = `
ON CONFLICT (execution, idx) DO UPDATE SET version = excluded.version, seq = excluded.seq, attempt = excluded.attempt, status = excluded.status,
    superseded = NULL, queued = excluded.queued, started = excluded.started, ended = excluded.ended, worker = excluded.worker,
    key = excluded.key, external = excluded.external, output = excluded.output, rare = excluded.rare`
	sqlSupersede = `UPDATE step{slot} s SET superseded = true
FROM unnest($1::bigint[], $2::int[], $3::text[], $4::boolean[]) AS u (execution, below, key, self)
WHERE s.execution = ANY (ARRAY[u.execution]) AND s.idx < u.below AND s.key IS NOT NULL
    AND (u.self AND s.key = u.key OR left(s.key, length(u.key) + 1) IN (u.key || '.', u.key || '['))`

	sqlStartKeys = `INSERT INTO start_key (key, hash, execution, created)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[]) AS u (key, hash, execution, created) ORDER BY key`
	sqlSpawned = `INSERT INTO spawned (execution, idx, depends_on, created)
SELECT * FROM unnest($1::bigint[], $2::int[], $3::text[], $4::bigint[]) ON CONFLICT DO NOTHING`
	sqlSeen = `INSERT INTO seen (execution, idx, epoch, version)
SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING`
	sqlWaits = `INSERT INTO waiting (execution, idx, external)
SELECT DISTINCT ON (execution, idx) execution, idx, external
FROM unnest($1::bigint[], $2::int[], $3::text[]) WITH ORDINALITY AS u (execution, idx, external, n) ORDER BY execution, idx, n DESC
ON CONFLICT (execution, idx) DO UPDATE SET external = excluded.external`
	sqlWaitEnds = `DELETE FROM waiting WHERE execution = ANY ($1::bigint[])`
	sqlBlobUses = `INSERT INTO blob_use (execution, hash)
SELECT execution, decode(hash, 'hex') FROM unnest($1::bigint[], $2::text[]) AS u (execution, hash) ON CONFLICT DO NOTHING`
	sqlOutgoing = `INSERT INTO outgoing (kind, execution, body, at) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])`
	sqlTaken    = `UPDATE signal s SET taken = u.execution FROM unnest($1::bigint[], $2::text[]) AS u (execution, key) WHERE s.key = u.key AND s.taken IS NULL`
	// A memo that is being stored holds its fence's row; so what is forgotten behind this statement is all there is.
	sqlFence = `INSERT INTO memo_fence AS f (execution, step, epoch)
SELECT execution, step, max(epoch) FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS u (execution, step, epoch) GROUP BY execution, step ORDER BY execution, step
ON CONFLICT (execution, step) DO UPDATE SET epoch = greatest(f.epoch, excluded.epoch)`
	sqlForget = `DELETE FROM memo m USING unnest($1::bigint[], $2::int[]) AS u (execution, step) WHERE m.execution = ANY (ARRAY[u.execution]) AND m.step = u.step`

	sqlOutsideReplaced = `DELETE FROM outside_work w USING unnest($1::bigint[], $2::int[], $3::bigint[]) AS u (execution, idx, epoch)
WHERE w.execution = ANY (ARRAY[u.execution]) AND w.idx = u.idx AND w.epoch < u.epoch AND w.held`
	sqlOutside = `INSERT INTO outside_work (execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error)
SELECT DISTINCT ON (execution, idx, epoch) execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error
FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::int[], $11::bigint[],
    $12::text[]) WITH ORDINALITY AS u (execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error, n)
ORDER BY execution, idx, epoch, n DESC
ON CONFLICT (execution, idx, epoch) DO UPDATE SET attempt = excluded.attempt, state = excluded.state, since = excluded.since, held = excluded.held,
    tries = excluded.tries, next = excluded.next, error = excluded.error`
)

var outsideTypes = []uint32{i8, i4, i8, i4, str, str, str, i8, flag, i4, i8, str}

const sqlLines = `INSERT INTO log_line{slot} (execution, seq, step, attempt, at, level, step_key, message, attrs)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::bigint[], $6::smallint[], $7::text[], $8::text[], $9::text[])`
