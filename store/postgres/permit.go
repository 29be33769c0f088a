package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

var _ store.Permits = (*Store)(nil)

// turnSeconds is for how long a node keeps the remainder of a limit while others want it too.
const turnSeconds = 5

// part is a row of permit.
type part struct {
	node, most, demand, part int64
}

// Share implements store.Permits. A call locks the limits, so that calls follow one another.
func (s *Store) Share(ctx context.Context, node int64, lease time.Duration, wants []store.Permit) (parts []int64, err error) {
	if len(wants) == 0 {
		return nil, nil
	}
	names := make([]string, len(wants))
	for i := range wants {
		names[i] = encode(wants[i].Name)
	}
	err = s.transaction(ctx, "share limits", func(tx pgx.Tx) error {
		now, all, err := lockPermits(ctx, tx, node, lease, names)
		if err != nil {
			return err
		}
		parts = make([]int64, len(wants))
		mine, news := [3][]int64{}, false
		for i := range wants {
			w := part{node, wants[i].Limit, wants[i].Demand, wants[i].Held}
			others := slices.Clone(all[wants[i].Name])
			was := part{}
			if at := slices.IndexFunc(others, func(p part) bool { return p.node == node }); at >= 0 {
				was, others = others[at], slices.Delete(others, at, at+1)
			}
			parts[i] = shareOf(w, others, now.Unix()/turnSeconds)
			// The others may have what this node gives up, or are to give up what it begins to want.
			news = news || max(parts[i], w.part) < was.part || was.demand <= was.part && w.demand > max(parts[i], was.demand)
			mine[0], mine[1], mine[2] = append(mine[0], w.most), append(mine[1], w.demand), append(mine[2], max(parts[i], w.part))
		}
		_, err = tx.Exec(ctx, `INSERT INTO permit AS p (name, node, most, demand, part) SELECT u.name, $1, u.most, u.demand, u.part FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS u (name, most, demand, part)
ON CONFLICT (name, node) DO UPDATE SET most = excluded.most, demand = excluded.demand, part = excluded.part
WHERE (p.most, p.demand, p.part) <> (excluded.most, excluded.demand, excluded.part)`, node, names, mine[0], mine[1], mine[2])
		if err == nil && news {
			err = s.announceIn(ctx, tx, store.TopicPermits)
		}
		return err
	})
	return parts, err
}

// lockPermits keeps other nodes from changing limits until the end of the transaction, and reads the parts of those that live. The row of
// a dead node goes.
func lockPermits(ctx context.Context, tx pgx.Tx, node int64, lease time.Duration, names []string) (now time.Time, all map[string][]part, err error) {
	if _, err = tx.Exec(ctx, `INSERT INTO permit_limit (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`, names); err != nil {
		return now, nil, err
	}
	if _, err = tx.Exec(ctx, `SELECT FROM permit_limit WHERE name = ANY ($1) ORDER BY name FOR UPDATE`, names); err != nil {
		return now, nil, err
	}
	if _, err = tx.Exec(ctx, `DELETE FROM permit p USING node me WHERE me.no = $1 AND p.name = ANY ($3) AND p.node <> me.no AND NOT EXISTS (
    SELECT 1 FROM node n WHERE n.no = p.node AND n.until > 'epoch' AND (n.until > clock_timestamp() OR NOT (me.until > clock_timestamp() AND me.`+mayJudge+`)))`,
		node, microseconds(lease), names); err != nil {
		return now, nil, err
	}
	rows, err := tx.Query(ctx, `SELECT clock_timestamp(), coalesce(p.name, ''), coalesce(p.node, 0), coalesce(p.most, 0), coalesce(p.demand, 0), coalesce(p.part, 0)
FROM (SELECT) one LEFT JOIN permit p ON p.name = ANY ($1) ORDER BY p.node`, names)
	if err != nil {
		return now, nil, err
	}
	all = map[string][]part{}
	var name text
	var p part
	_, err = pgx.ForEachRow(rows, []any{&now, &name, &p.node, &p.most, &p.demand, &p.part}, func() error {
		if p.node != 0 {
			all[string(name)] = append(all[string(name)], p)
		}
		return nil
	})
	return now, all, err
}

// shareOf is what a node may use: its fair part, as far as the others leave it.
func shareOf(mine part, others []part, turn int64) int64 {
	all := append(slices.Clone(others), mine)
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(a.node, b.node) })
	limit, left, at, demands := mine.most, int64(0), 0, make([]int64, len(all))
	for i, p := range all {
		limit, demands[i] = min(limit, p.most), p.demand
		if p.node == mine.node {
			at = i
		} else {
			left -= p.part
		}
	}
	return max(0, min(store.ShareLimit(limit, turn, demands)[at], left+limit))
}
