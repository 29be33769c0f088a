package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

var (
	_ store.Nodes   = (*Store)(nil)
	_ store.Changes = (*Store)(nil)
)

// microseconds is a lease as a parameter of statements: $n * interval '1 microsecond'.
func microseconds(d time.Duration) int64 { return d.Microseconds() }

// nodeKept is for how long the row of a node is kept after its end, so that a late one finds itself.
const nodeKept = "interval '1 day'"

// firstNode is the lowest number of a node; smaller ones are for owners that are no nodes.
const firstNode = "1000"

// Join implements store.Nodes. It removes the rows of nodes that ended long ago and own nothing.
func (s *Store) Join(ctx context.Context, address string, lease time.Duration) (no int64, now time.Time, err error) {
	var place *string
	if address != alone {
		place = s.place(ctx)
	}
	err = s.transaction(ctx, "join the nodes", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM node n WHERE until < clock_timestamp() - `+nodeKept+` AND since < clock_timestamp() - `+nodeKept+`
    AND NOT EXISTS (SELECT 1 FROM execution_live x WHERE x.owner = n.no)`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `INSERT INTO node (address, until, since, place) VALUES ($1, clock_timestamp() + $2 * interval '1 microsecond', clock_timestamp(), $3)
RETURNING no, clock_timestamp()`, encode(address), microseconds(lease), place).Scan(&no, &now)
	})
	if err != nil || address == alone {
		return no, now, err
	}
	s.announce(ctx, store.TopicNodes)
	if err := s.lookForBlobs(ctx); err != nil {
		s.o.Log.Error("the large outputs of the database are not where this server has them: executions that need one are held", "error", err, "hint", stepwell.HintOf(err))
	}
	var taken bool
	if _, err = s.one(ctx, []any{&taken}, `SELECT EXISTS (SELECT 1 FROM node WHERE address = $1 AND until > clock_timestamp())`, encode(alone)); err == nil && taken {
		err = errAlone
	}
	if err == nil {
		err = s.samePlace(ctx, no)
	}
	if err != nil {
		return 0, now, errors.Join(err, s.Leave(ctx, no))
	}
	return no, now, nil
}

// fitting leaves out executions that only a later engine can take up: their owner is its revision (Yield).
var fitting = fmt.Sprintf(`(o.owner >= `+firstNode+` OR o.owner <= %d)`, engine.Revision)

// Two parts of statements that name the node $1 and the lease $2.
var (
	// mayJudge reports whether a row of node may call another one dead.
	mayJudge = `since <= clock_timestamp() - $2::bigint * interval '1 microsecond'`
	// orphaned are the owners whose executions the node of me may take; owners are few.
	orphaned = `owners AS (
    SELECT min(owner) AS owner FROM execution_live
    UNION ALL
    SELECT (SELECT min(owner) FROM execution_live x WHERE x.owner > o.owner) FROM owners o WHERE o.owner IS NOT NULL
), orphaned AS MATERIALIZED (
    SELECT o.owner FROM owners o CROSS JOIN me LEFT JOIN node n ON n.no = o.owner
    WHERE o.owner IS NOT NULL AND o.owner <> me.no AND ` + fitting + ` AND (n.until IS NULL OR n.until = 'epoch' OR n.until <= clock_timestamp() AND me.judges)
)`
)

var sqlBeat = `WITH RECURSIVE was AS MATERIALIZED (
    SELECT no, until > clock_timestamp() AS alive, since FROM node WHERE no = $1 AND until > 'epoch' FOR UPDATE
), me AS (
    UPDATE node n SET until = clock_timestamp() + $2::bigint * interval '1 microsecond', since = CASE WHEN was.alive THEN n.since ELSE clock_timestamp() END
    FROM was WHERE n.no = was.no RETURNING n.no, n.until, was.alive, was.alive AND n.` + mayJudge + ` AS judges
), given AS (
    UPDATE role r SET until = 'epoch' FROM me WHERE r.node = me.no AND r.name <> ALL ($3::text[]) AND r.until > 'epoch'
), had AS (
    INSERT INTO role AS r (name, node, until) SELECT u.name, me.no, me.until FROM me, unnest($3::text[]) AS u (name) ORDER BY u.name
    ON CONFLICT (name) DO UPDATE SET node = excluded.node, until = excluded.until
    WHERE r.node = excluded.node OR r.until = 'epoch' OR r.until <= clock_timestamp() AND (SELECT judges FROM me)
    RETURNING r.name
), ` + orphaned + `
SELECT clock_timestamp(), NOT me.alive, ARRAY(SELECT name FROM had ORDER BY name),
    EXISTS (SELECT 1 FROM orphaned) OR EXISTS (SELECT 1 FROM execution_live WHERE owner IS NULL),
    coalesce(n.no, 0), coalesce(n.address, ''), coalesce(n.until > clock_timestamp(), false),
    coalesce(extract(epoch FROM n.until - clock_timestamp()) * 1000000, 0)::bigint, (SELECT oldest FROM identity)
FROM me LEFT JOIN node n ON n.no <> me.no AND n.until > clock_timestamp() - interval '1 minute' ORDER BY n.no`

// Beat implements store.Nodes, in one statement. The row of the node is locked first, so that its lease is judged as it is.
func (s *Store) Beat(ctx context.Context, no int64, roles []string, lease time.Duration) (*store.Beat, error) {
	if s.readOnly {
		return nil, errReadOnly
	}
	b := &store.Beat{}
	there := false
	defer func() { b.Session = s.sessions.Load() }()
	if roles == nil {
		roles = []string{}
	}
	rows, err := s.beats.Query(ctx, sqlBeat, no, microseconds(lease), roles)
	if err != nil {
		return nil, fault("renew a lease", err)
	}
	var other store.NodeRow
	oldest, ends := 0, int64(0)
	_, err = pgx.ForEachRow(rows, []any{&b.Now, &b.Late, &b.Roles, &b.Orphans, &other.No, &other.Address, &other.Alive, &ends, &oldest}, func() error {
		if there = true; other.No != 0 {
			other.Address = decode(other.Address)
			b.Others = append(b.Others, other)
			if left := time.Duration(ends) * time.Microsecond; other.Alive && (b.Ends == 0 || left < b.Ends) {
				b.Ends = left
			}
		}
		return nil
	})
	if err == nil {
		err = tooNew(oldest, stepwell.CodeConflict)
	}
	if err == nil && !there {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("node %d has left, or has been away for a day", no), Hint: "start it again: it joins as a new one"}
	}
	if err != nil {
		return nil, fault("renew a lease", err)
	}
	return b, nil
}

// Leave implements store.Nodes.
func (s *Store) Leave(ctx context.Context, no int64) error {
	_, err := s.change(ctx, "leave the nodes", `WITH r AS (UPDATE role SET until = 'epoch' WHERE node = $1) UPDATE node SET until = 'epoch' WHERE no = $1`, no)
	if err == nil {
		s.announce(ctx, store.TopicNodes)
	}
	return err
}

// Adopt implements store.Nodes. Survivors share the executions of a dead node: each skips those that another is taking.
func (s *Store) Adopt(ctx context.Context, no int64, lease time.Duration, limit int) (list []store.Execution, err error) {
	err = s.transaction(ctx, "adopt executions", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `WITH RECURSIVE me AS MATERIALIZED (
    SELECT no, `+mayJudge+` AS judges FROM node WHERE no = $1 AND until > clock_timestamp()
), `+orphaned+`, free AS MATERIALIZED (
    SELECT no FROM execution_live x
    WHERE EXISTS (SELECT 1 FROM me) AND (x.owner IS NULL OR x.owner = ANY (ARRAY(SELECT owner FROM orphaned)))
    ORDER BY priority DESC, no LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE execution_live x SET owner = $1 FROM free WHERE x.no = free.no RETURNING `+of("x", readColumns)+lastVersion+", x.outputs", no, microseconds(lease), limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scanExecution)
		return err
	})
	for i := range list {
		list[i].Owner = no
	}
	slices.SortFunc(list, func(a, b store.Execution) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.No, b.No)) })
	return list, err
}

// AdoptOne implements store.Nodes.
func (s *Store) AdoptOne(ctx context.Context, no int64, lease time.Duration, id string) (bool, error) {
	n, err := s.change(ctx, "adopt an execution", `WITH me AS MATERIALIZED (
    SELECT no, `+mayJudge+` AS judges FROM node WHERE no = $1 AND until > clock_timestamp()
)
UPDATE execution_live x SET owner = me.no FROM me
WHERE x.id = $3 AND (x.owner IS NULL OR x.owner = me.no OR NOT EXISTS (
    SELECT 1 FROM node n WHERE n.no = x.owner AND n.until > 'epoch' AND (n.until > clock_timestamp() OR NOT me.judges)))`, no, microseconds(lease), encode(id))
	return n > 0, err
}

const sqlOwner = `SELECT coalesce(n.no, 0), coalesce(n.address, ''), coalesce(n.until > clock_timestamp(), false), x.ended
FROM (SELECT owner, false AS ended FROM execution_live WHERE id = $1 UNION ALL SELECT owner, true FROM execution_past WHERE id = $1) x
    LEFT JOIN node n ON n.no = x.owner`

// OwnerOf implements store.Nodes.
func (s *Store) OwnerOf(ctx context.Context, id string, node int64, take bool) (*store.Ownership, error) {
	if take {
		if _, err := s.change(ctx, "take an execution", `UPDATE execution_past SET owner = $2 WHERE id = $1`, encode(id), node); err != nil {
			return nil, err
		}
	}
	o := &store.Ownership{}
	there, err := s.one(ctx, []any{&o.No, &o.Address, &o.Alive, &o.Ended}, sqlOwner, encode(id))
	if err == nil && !there {
		err = notFound("no execution %q", id)
	}
	o.Address = decode(o.Address)
	return o, err
}

// Yield implements store.Nodes.
func (s *Store) Yield(ctx context.Context, no, execution int64, revision int) error {
	_, err := s.change(ctx, "give an execution up", `UPDATE execution_live SET owner = $3 WHERE no = $1 AND owner = $2`, execution, no, min(int64(revision), 999))
	return err
}

// Versions implements store.Nodes.
func (s *Store) Versions(ctx context.Context, owner int64, executions []int64) (map[int64]int64, error) {
	rows, err := s.pool.Query(ctx, `SELECT u.no, coalesce((SELECT max(l.version) FROM step_log l WHERE l.execution = u.no), 0) FROM unnest($2::bigint[]) AS u (no)
WHERE NOT EXISTS (SELECT 1 FROM execution_live x WHERE x.no = u.no AND x.owner <> $1)`, owner, executions)
	if err != nil {
		return nil, fault("read versions", err)
	}
	found := make(map[int64]int64, len(executions))
	var no, version int64
	_, err = pgx.ForEachRow(rows, []any{&no, &version}, func() error {
		found[no] = version
		return nil
	})
	return found, fault("read versions", err)
}

// Owned implements store.Nodes.
func (s *Store) Owned(ctx context.Context, no, after int64, limit int) ([]store.Execution, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (x store.Execution, err error) {
		var id text
		err = row.Scan(&x.No, &id)
		x.ID, x.Owner = string(id), no
		return x, err
	}, `SELECT no, id FROM execution_live WHERE owner = $1 AND no > $2 ORDER BY no LIMIT $3`, no, after, limit)
}
