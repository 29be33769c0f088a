package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// sqlUsage adds to sums, whose rows all processes take in one order. They stop far from the greatest number, where PostgreSQL would
// refuse the commit.
const sqlUsage = `INSERT INTO usage AS s (kind, id, input, output, audio, cost)
SELECT kind, id, least(9e18, sum(input))::bigint, least(9e18, sum(output))::bigint, least(9e18, sum(audio))::bigint, least(9e18, sum(cost))::bigint
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS u (kind, id, input, output, audio, cost) GROUP BY kind, id ORDER BY kind, id
ON CONFLICT (kind, id) DO UPDATE SET input = least(9e18, s.input::numeric + excluded.input)::bigint, output = least(9e18, s.output::numeric + excluded.output)::bigint,
    audio = least(9e18, s.audio::numeric + excluded.audio)::bigint, cost = least(9e18, s.cost::numeric + excluded.cost)::bigint`

// usageRows adds what the attempts of a commit have used.
func (b *batch) usageRows(c *store.Commit) {
	for i := range c.Usage {
		u := &c.Usage[i]
		row := b.usage.row()
		row[0].text(u.Kind)
		row[1].text(u.ID)
		row[2].int(u.InputTokens)
		row[3].int(u.OutputTokens)
		row[4].int(u.AudioMillis)
		row[5].int(u.Cost)
	}
}

// UsageOf reads a sum of usage.
func (s *Store) UsageOf(ctx context.Context, kind, id string) (u stepwell.Spending, err error) {
	_, err = s.one(ctx, []any{&u.InputTokens, &u.OutputTokens, &u.AudioMillis, &u.Cost}, `SELECT input, output, audio, cost FROM usage WHERE kind = $1 AND id = $2`, kind, encode(id))
	return u, err
}

// UsageIn lists sums of usage in order of their ids.
func (s *Store) UsageIn(ctx context.Context, kind, from, before string, limit int) ([]store.Used, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, input, output, audio, cost FROM usage WHERE kind = $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT $4`, kind, encode(from), encode(before), limit)
	if err != nil {
		return nil, fault("read", err)
	}
	var out []store.Used
	u := store.Used{Kind: kind}
	_, err = pgx.ForEachRow(rows, []any{&u.ID, &u.InputTokens, &u.OutputTokens, &u.AudioMillis, &u.Cost}, func() error {
		v := u
		v.ID = decode(u.ID)
		out = append(out, v)
		return nil
	})
	return out, fault("read", err)
}

// EndedIn lists the ends of executions in order of their times.
func (s *Store) EndedIn(ctx context.Context, from, before time.Time, limit int) ([]store.Ended, error) {
	rows, err := s.pool.Query(ctx, `SELECT ended, ended - coalesce(started, ended), coalesce(workflow, ''), status, coalesce(substring(progress FROM '"cost_micros":([0-9]+)')::bigint, 0)
FROM execution_past WHERE ended >= $1 AND ended < $2 ORDER BY ended DESC LIMIT $3`, from.UnixMicro(), before.UnixMicro(), limit)
	if err != nil {
		return nil, fault("read", err)
	}
	var out []store.Ended
	var at, took int64
	var e store.Ended
	_, err = pgx.ForEachRow(rows, []any{&at, &took, &e.Workflow, &e.Status, &e.Cost}, func() error {
		e.At, e.Took, e.Workflow = time.UnixMicro(at).UTC(), time.Duration(took)*time.Microsecond, decode(e.Workflow)
		out = append(out, e)
		return nil
	})
	slices.Reverse(out)
	return out, fault("read", err)
}

// ends removes one batch, of each kind, of counts of executions that ended long ago.
func (p *pruning) ends(before int64) error {
	for _, kind := range store.EndKinds() {
		var n int64
		err := p.change(func(tx pgx.Tx) error {
			tag, err := tx.Exec(p.ctx, `DELETE FROM usage WHERE kind = $1 AND id IN (SELECT id FROM usage WHERE kind = $1 AND id < $2 ORDER BY id LIMIT $3)`,
				kind, store.EndsFrom(time.UnixMicro(before)), pruneRows)
			n = tag.RowsAffected()
			return err
		})
		if p.more = p.more || n == pruneRows; err != nil {
			return err
		}
	}
	return nil
}
