package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// stepWindow is how many indexes are looked at together.
const stepWindow = 2_000

// stepList is a page of Steps that is being made.
type stepList struct {
	execution int64
	f         store.StepFilter
	statuses  uint64 // mask; 0: all
	outline   outline
	runs      []store.QueuedRun
	last      int32 // the highest index that there may be
	n         int
	out       []store.Step
}

// Steps lists an execution's steps in order of index, also those without a row: pending ones, or queued ones by the
// log. Every step has its key and action. A page costs the rows that are looked at, and the lists of queued steps of a
// running execution's log.
func (s *Store) Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error) {
	p := &stepList{execution: execution, f: f, n: store.Limit(f.Limit, 1000, 10_000)}
	for _, status := range f.Statuses {
		p.statuses |= 1 << status
	}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		var status stepwell.ExecutionStatus
		var hash []byte
		err := tx.QueryRow(ctx, `SELECT status, definition FROM execution WHERE no = $1`, execution).Scan(&status, &hash)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if p.outline, err = s.outline(ctx, tx, hash); err != nil {
			return err
		}
		if p.odd() {
			return p.ended(ctx, tx)
		}
		if !status.Terminal() {
			if err := p.queued(ctx, tx); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(idx), -1) FROM step WHERE execution = $1`, execution).Scan(&p.last); err != nil {
			return err
		}
		p.last = max(p.last, int32(len(p.outline))-1)
		for _, r := range p.runs {
			p.last = max(p.last, r.End-1)
		}
		window := int32(stepWindow)
		if p.statuses == 0 && f.Key == "" { // nearly always the indexes have no gaps
			window = int32(p.n)
		}
		for from := max(f.From, 0); from <= p.last && len(p.out) < p.n; from += window {
			if err := p.window(ctx, tx, from, min(from+window, p.last+1)); err != nil {
				return err
			}
		}
		return nil
	})
	return p.out, err
}

// odd reports whether only steps that ended otherwise than completed are asked for: an index has them.
func (p *stepList) odd() bool {
	return p.f.Key == "" && p.statuses != 0 && p.statuses&(1<<(stepwell.StepCompleted+1)-1) == 0
}

func (p *stepList) ended(ctx context.Context, tx pgx.Tx) error {
	var statuses []int16
	for _, status := range p.f.Statuses {
		statuses = append(statuses, int16(status))
	}
	rows, err := tx.Query(ctx, `SELECT `+stepColumns+` FROM step r WHERE execution = $1 AND status > 5 AND status = ANY ($2) AND idx >= $3 AND superseded IS NULL ORDER BY idx LIMIT $4`,
		p.execution, statuses, p.f.From, p.n)
	if err != nil {
		return err
	}
	p.out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Step, error) {
		r, err := scanStep(row)
		p.name(&r.Step)
		return r.Step, err
	})
	if len(p.out) == 0 {
		p.out = nil
	}
	return err
}

// StepsAt implements store.Reader.
func (s *Store) StepsAt(ctx context.Context, execution int64, of []int32) ([]store.Step, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (store.Step, error) {
		r, err := scanStep(row)
		return r.Step, err
	}, `SELECT `+stepColumns+` FROM step r WHERE execution = $1 AND idx = ANY ($2) AND superseded IS NULL ORDER BY idx`, execution, of)
}

// queued reads which steps the log has queued.
func (p *stepList) queued(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT version, at, queued FROM step_log WHERE execution = $1 AND queued IS NOT NULL`, p.execution)
	if err != nil {
		return err
	}
	var version, at int64
	var list value
	_, err = pgx.ForEachRow(rows, []any{&version, &at, &list}, func() error {
		queued, err := engine.AppendRuns(nil, list)
		for _, idx := range queued {
			if n := len(p.runs) - 1; n >= 0 && p.runs[n].Version == version && p.runs[n].End == idx {
				p.runs[n].End++
			} else {
				p.runs = append(p.runs, store.QueuedRun{First: idx, End: idx + 1, Version: version, At: at})
			}
		}
		return err
	})
	return err
}

// stepRow is a step's row.
type stepRow struct {
	store.Step
	version    int64
	superseded bool
	named      bool // the row has a key or other rare columns: the step is listed even if nothing else has it
}

const stepColumns = `r.idx, r.version, r.seq, r.status, r.attempt, r.key, r.external, r.output, r.worker, r.queued, r.started, r.ended, r.rare, r.superseded IS NOT NULL`

func scanStep(row pgx.CollectableRow, before ...any) (r stepRow, err error) {
	var key, external, worker text
	var seq, queued, started, ended number
	var output, rare value
	err = row.Scan(append(before, &r.Idx, &r.version, &seq, &r.Status, &r.Attempt, &key, &external, &output, &worker, &queued, &started, &ended, &rare, &r.superseded)...)
	if err != nil {
		return r, err
	}
	err = store.DecodeExtra(rare, &r.StepRow)
	r.Key, r.External, r.Output, r.Worker, r.Seq = string(key), string(external), output, string(worker), int32(seq)
	r.Queued, r.Started, r.Ended = int64(queued), int64(started), int64(ended)
	r.named = key != "" || external != "" || rare != nil
	return r, err
}

// window lists the steps from one index to before another.
func (p *stepList) window(ctx context.Context, tx pgx.Tx, from, until int32) error {
	rows, err := tx.Query(ctx, `SELECT `+stepColumns+` FROM step r WHERE execution = $1 AND idx >= $2 AND idx < $3 ORDER BY idx`, p.execution, from, until)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stepRow, error) { return scanStep(row) })
	if err != nil {
		return err
	}
	versions, at := make([]int64, until-from), make([]int64, until-from)
	for _, r := range p.runs {
		for idx := max(r.First, from); idx < min(r.End, until); idx++ {
			versions[idx-from], at[idx-from] = max(versions[idx-from], r.Version), max(at[idx-from], r.At)
		}
	}
	for idx := from; idx < until && len(p.out) < p.n; idx++ {
		var r stepRow
		there := len(found) > 0 && found[0].Idx == idx
		if there {
			r, found = found[0], found[1:]
		}
		version := versions[idx-from]
		if r.superseded || int(idx) >= len(p.outline) && !(there && r.named) && version == 0 {
			continue
		}
		// A row that has not ended is older than a later queueing.
		if r.Idx = idx; !r.Status.Terminal() && version > 0 && version >= r.version {
			r.Status, r.Queued = stepwell.StepQueued, at[idx-from]
		}
		p.name(&r.Step)
		if (p.statuses == 0 || p.statuses&(1<<r.Status) != 0) && (p.f.Key == "" || p.f.Key == r.Key) {
			p.out = append(p.out, r.Step)
		}
	}
	return nil
}

// name completes a step with what the definition says. A step inside a group or for_each that is queued for the first
// time has no name yet.
func (p *stepList) name(x *store.Step) { p.outline.name(x) }

func (o outline) name(x *store.Step) {
	if int(x.Idx) < len(o) {
		d := &o[x.Idx]
		x.Name = d.Name
		if x.Key == "" {
			x.Key = d.ID
		}
		if x.Action == "" {
			x.Action = d.Action
		}
	}
	if x.Key == "" {
		x.Key = fmt.Sprintf("#%d", x.Idx)
	}
}

// WaitingSteps lists steps that wait for a signal, also while their handler polls. The cost depends on their number
// alone.
func (s *Store) WaitingSteps(ctx context.Context, prefix string, after *store.WaitingStep, n int) ([]store.WaitingStep, error) {
	no, idx := int64(0), int32(-1)
	if after != nil {
		idx = after.Idx
		there, err := s.one(ctx, []any{&no}, `SELECT no FROM execution WHERE id = $1`, encode(after.Execution))
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, notFound("no execution %q", after.Execution)
		}
	}
	hashes := map[int][]byte{}
	out, err := list(ctx, s, func(row pgx.CollectableRow) (w store.WaitingStep, err error) {
		var id, pipeline text
		var hash []byte
		r, err := scanStep(row, &id, &pipeline, &hash)
		w.Step, w.Execution, w.Pipeline = r.Step, string(id), string(pipeline)
		hashes[len(hashes)] = slices.Clone(hash)
		return w, err
	}, `SELECT x.id, x.pipeline, x.definition, `+stepColumns+`
FROM waiting w JOIN execution_live x ON x.no = w.execution JOIN step r ON r.execution = w.execution AND r.idx = w.idx
WHERE (w.execution, w.idx) > ($1, $2) AND ($3 = '' OR starts_with(w.external, $3)) AND r.status = 4 AND r.superseded IS NULL AND r.external = w.external
ORDER BY w.execution, w.idx LIMIT $4`, no, idx, encode(prefix), store.Limit(n, 1000, 10_000))
	if err != nil {
		return nil, err
	}
	for i := range out {
		o, err := s.outline(ctx, s.pool, hashes[i])
		if err != nil {
			return nil, fault("read", err)
		}
		o.name(&out[i].Step)
	}
	return out, nil
}
