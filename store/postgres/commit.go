package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// committer is the one connection that commits.
type committer struct {
	s    *Store
	mu   sync.Mutex
	link link
	rows *batch

	last  map[int64]last  // the last commit of executions that go on
	waits map[int64]bool  // executions with a step that has waited for a signal
	doubt map[int64]int64 // versions whose commit has ended with an unknown outcome
	here  map[int64]int64 // scratch: the last version in this call
}

// last is the last commit of an execution by this process.
type last struct {
	version int64
	sum     uint64 // of its log
	live    bool   // the execution's row is in execution_live
	opened  int    // the connection that has made it, or on which it has been found again
}

// maxLast bounds the executions that are remembered. One that is forgotten costs a look at its log.
const maxLast = 1 << 20

// The tries of a commit while the connection is lost or others are in the way, and the pauses between them.
const (
	commitTries = 5
	commitPause = 20 * time.Millisecond
)

// errRefused is a commit that cannot be made; which and why is found afterwards.
var errRefused = errors.New("refused")

// Commit stores all commits in one transaction, or none: *store.RefusedError when some of them cannot be made. A done
// ctx stops it before it begins, never halfway. A lost connection is opened again, and the commit is found there or made
// anew: the key of the log keeps it from being made twice. CodeUnavailable: it may have been made or not, and the same
// call will tell.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) error {
	if err := ctx.Err(); err != nil || len(commits) == 0 {
		return err
	}
	if s.readOnly {
		return errReadOnly
	}
	for i := range commits {
		if err := commits[i].OnlyFirstCreates(); err != nil {
			return err
		}
	}
	c := s.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.commit(context.WithoutCancel(ctx), commits)
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		for i := range refused.Refusals {
			delete(c.last, refused.Refusals[i].Execution)
		}
	}
	return fault("commit", err)
}

func (c *committer) commit(ctx context.Context, commits []store.Commit) error {
	careful, unsure := false, false
	for i := range commits {
		unsure = unsure || c.doubt[commits[i].Execution] == commits[i].Version
	}
	for try := 1; ; try++ {
		err := c.try(ctx, commits, careful)
		if err == nil || errors.Is(err, errRefused) && unsure && c.made(ctx, commits) {
			c.remember(commits)
			return nil
		}
		_, lost := errors.AsType[*unknownError](err)
		unsure = unsure || lost
		switch {
		case errors.Is(err, errCareful) && !careful:
			careful = true
			continue
		case errors.Is(err, errRefused) || errors.Is(err, errCareful):
			if err := c.refusals(ctx, commits); err != nil || try == commitTries {
				return cmp.Or(err, errGone)
			}
			continue // what refused it is no longer there
		}
		if try == commitTries || !again(err) && !store.IsAway(fault("", err)) {
			c.doubts(commits, unsure)
			return err
		}
		time.Sleep(commitPause << (try - 1))
	}
}

// bounded ends the wait for a server that has fallen silent.
func (c *committer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*c.link.patience())
}

// errCareful is a batch that took something for granted which is not so: it is sent again with statements that do not.
var errCareful = errors.New("not as it was remembered")

var errGone error = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "commit: what refuses it changes all the time", Hint: "try again"}

var stepTable = regexp.MustCompile(`^step(_\d+)?$`)

// try makes the commits once.
func (c *committer) try(ctx context.Context, commits []store.Commit, careful bool) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if err := c.link.open(ctx); err != nil {
		return err
	}
	if err := c.follows(ctx, commits); err != nil {
		return err
	}
	list, err := c.build(ctx, commits, careful)
	if err != nil {
		return err
	}
	err = c.link.send(ctx, list)
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch {
	case e.Code == uniqueViolation && stepTable.MatchString(e.TableName), e.Code == divisionByZero:
		return errCareful
	case e.Code == uniqueViolation, e.Code == notNullViolation && e.ColumnName == "id":
		return errRefused
	case e.Code == undefinedTable || e.Code == noPartition:
		if err := c.s.slots.restore(ctx, commits); err != nil {
			return err
		}
		return errCareful
	}
	return err
}

// follows sees to it that no version is left out, and after a new connection that the database still has this process's
// last ones: a standby that took over may lack them.
func (c *committer) follows(ctx context.Context, commits []store.Commit) error {
	clear(c.here)
	var executions, versions []int64
	for i := range commits {
		x := &commits[i]
		before, here := c.here[x.Execution]
		c.here[x.Execution] = x.Version
		if x.Version == 1 || here && before == x.Version-1 {
			continue
		}
		if l := c.last[x.Execution]; l.version == x.Version-1 && l.opened == c.link.opened {
			continue
		}
		executions, versions = append(executions, x.Execution), append(versions, x.Version-1)
	}
	if executions == nil {
		return nil
	}
	found := 0
	var execution, version int64
	var body value
	rows, err := c.s.pool.Query(ctx, `SELECT execution, version, body FROM step_log WHERE (execution, version) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))`, executions, versions)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&execution, &version, &body}, func() error {
		found++
		if l, ok := c.last[execution]; ok && l.version == version && l.sum != xxhash.Sum64(body) {
			return &store.RefusedError{Refusals: []store.Refusal{{Execution: execution, Why: store.VersionTaken, Err: &stepwell.Error{Code: stepwell.CodeConflict,
				Message: fmt.Sprintf("version %d of execution %d is not the one of this process: another process has written it", version, execution)}}}}
		}
		return nil
	})
	if err == nil && found < len(executions) {
		return errRefused
	}
	return err
}

// build makes the statements. Careful ones look for rows where the others know.
func (c *committer) build(ctx context.Context, commits []store.Commit, careful bool) ([]statement, error) {
	b := c.rows
	b.reset()
	tables, err := c.s.slots.tables(ctx, commits)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(commits))
	for i := range order {
		order[i] = i
	}
	// In one order by all processes, so that they do not wait for each other in a circle.
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(commits[i].Execution, commits[j].Execution), cmp.Compare(commits[i].Version, commits[j].Version))
	})
	for _, i := range order {
		if err := b.logRow(&commits[i], b.slot(commits[i].Execution, tables)); err != nil {
			return nil, err
		}
	}
	for i := range commits {
		x := &commits[i]
		if b.waitRows(x) {
			c.waits[x.Execution] = true
		}
		if err := b.add(x, c.last[x.Execution].live || x.Create != nil, c.waits[x.Execution]); err != nil {
			return nil, err
		}
		b.slot(x.Execution, tables).superseded(x)
	}
	if err := b.executions(careful); err != nil {
		return nil, err
	}
	if err := b.steps(commits, tables, careful); err != nil {
		return nil, err
	}
	return b.statements(), nil
}

// steps adds the rows of steps: of those that may be there, only the last of each.
func (b *batch) steps(commits []store.Commit, tables map[int64]bool, careful bool) error {
	type place struct {
		execution int64
		idx       int32
	}
	var seen map[place]bool
	for i := len(commits) - 1; i >= 0; i-- {
		c := &commits[i]
		if len(c.Steps) == 0 {
			continue
		}
		s := b.slot(c.Execution, tables)
		for j := range c.Steps {
			if r := &c.Steps[j]; !r.Again && !careful {
				if err := s.stepRow(c, r, false); err != nil {
					return fmt.Errorf("step %d: %w", r.Idx, err)
				}
			}
		}
		for j := len(c.Steps) - 1; j >= 0; j-- {
			r := &c.Steps[j]
			if !r.Again && !careful || seen[place{c.Execution, r.Idx}] {
				continue
			}
			if seen == nil {
				seen = map[place]bool{}
			}
			seen[place{c.Execution, r.Idx}] = true
			if err := s.stepRow(c, r, true); err != nil {
				return fmt.Errorf("step %d: %w", r.Idx, err)
			}
		}
	}
	return nil
}

// created adds the row of a new execution, as the call's updates have left it.
func (b *batch) created(no int64, u *update) error {
	x := *u.create
	if u.to != nil {
		x.Status, x.Outputs, x.Failure, x.Progress = u.to.Status, u.to.Outputs, u.to.Failure, u.to.Progress
		x.Ended = micro(u.to.Ended)
		if u.start != 0 {
			x.Started = micro(u.start)
		}
	}
	failure, progress, err := outcome(x.Failure, x.Progress)
	if err != nil {
		return err
	}
	to := b.create
	if x.Status.Terminal() {
		to = b.ended
	}
	row := to.row()
	row[0].int(no)
	row[1].text(x.ID)
	row[2].intOrNull(x.Owner)
	row[3].text(x.Pipeline)
	row[4].int(int64(x.Status))
	row[5].bytes(append([]byte{}, x.Definition...))
	row[6].textOrNull(x.Parent)
	row[7].text(x.Trigger)
	row[8].text(x.Dir)
	row[9].int(x.Created.UnixMicro())
	row[10].intOrNull(micros(x.Started))
	row[11].intOrNull(micros(x.Ended))
	row[12].json(failure)
	row[13].json(progress)
	row[14].json(x.Params)
	row[15].json(x.Outputs)
	row[16].textOrNull(x.Workflow)
	row[17].intOrNull(int64(x.WorkflowVersion))
	row[18].textOrNull(x.Job)
	row[19].textOrNull(x.Actor)
	row[20].textOrNull(x.Concurrency)
	row[21].int(int64(x.Priority))
	row[22].textOrNull(x.Project)
	row[23].textOrNull(x.Lesson)
	row[24].textOrNull(x.Partition)
	if x.Key != "" {
		row := b.keys.row()
		row[0].text(x.Key)
		row[1].bytes(x.KeyHash)
		row[2].int(no)
		row[3].int(x.Created.UnixMicro())
	}
	return nil
}

// outsideRow adds a row of work outside. Held work of former attempts makes room for it.
func (b *batch) outsideRow(o *store.OutsideWork) {
	if o.Held {
		row := b.replaced.row()
		row[0].int(o.Execution)
		row[1].int(int64(o.Step))
		row[2].int(int64(o.Epoch))
	}
	row := b.outside.row()
	row[0].int(o.Execution)
	row[1].int(int64(o.Step))
	row[2].int(int64(o.Epoch))
	row[3].int(int64(o.Attempt))
	row[4].text(o.StepKey)
	row[5].text(o.Action)
	row[6].json(o.State)
	row[7].int(o.Since.UnixMicro())
	row[8].bool(o.Held)
	row[9].int(int64(o.Tries))
	row[10].int(micros(o.Next))
	row[11].textOrNull(o.Error)
}

// micro is a time; zero for 0.
func micro(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// micros is a time in µs; 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// remember keeps what the next commits need to know of these.
func (c *committer) remember(commits []store.Commit) {
	if len(c.last) > maxLast {
		clear(c.last)
	}
	if len(c.waits) > maxLast {
		clear(c.waits)
	}
	for i := range commits {
		x := &commits[i]
		l := c.last[x.Execution]
		status := statusOf(x)
		switch {
		case status == nil:
		case status.Terminal():
			delete(c.last, x.Execution)
			delete(c.waits, x.Execution)
			continue
		default:
			l.live = true
		}
		l.version, l.sum, l.opened = x.Version, xxhash.Sum64(x.Log), c.link.opened
		c.last[x.Execution] = l
		if len(c.doubt) > 0 {
			delete(c.doubt, x.Execution)
		}
	}
}

// statusOf is the status that a commit gives its execution; nil: it leaves it.
func statusOf(c *store.Commit) *stepwell.ExecutionStatus {
	switch {
	case c.Update != nil:
		return &c.Update.Status
	case c.Create != nil:
		return &c.Create.Status
	}
	return nil
}

// doubts remembers the commits whose outcome is unknown.
func (c *committer) doubts(commits []store.Commit, unsure bool) {
	if !unsure {
		return
	}
	if len(c.doubt) > maxLast {
		clear(c.doubt)
	}
	for i := range commits {
		c.doubt[commits[i].Execution] = commits[i].Version
	}
}

// made reports whether the log has these very commits.
func (c *committer) made(ctx context.Context, commits []store.Commit) bool {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for i := range commits {
		x := &commits[i]
		var body value
		err := c.s.pool.QueryRow(ctx, `SELECT body FROM step_log WHERE execution = $1 AND version = $2`, x.Execution, x.Version).Scan(&body)
		if err != nil || string(body) != string(x.Log) {
			return false
		}
	}
	return true
}

// refusals finds the commits that cannot be made, and why; nil: all can be made now.
func (c *committer) refusals(ctx context.Context, commits []store.Commit) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	executions, versions := make([]int64, len(commits)), make([]int64, len(commits))
	ids, keys := make([]string, len(commits)), make([]string, len(commits))
	for i := range commits {
		x := &commits[i]
		executions[i], versions[i] = x.Execution, x.Version
		if x.Create != nil {
			ids[i], keys[i] = encode(x.Create.ID), encode(x.Create.Key)
		}
	}
	rows, err := c.s.pool.Query(ctx, `SELECT EXISTS (SELECT 1 FROM step_log WHERE execution = u.execution AND version = u.version) OR u.version = 1 AND EXISTS (SELECT 1 FROM execution WHERE no = u.execution),
    EXISTS (SELECT 1 FROM step_log WHERE execution = u.execution AND version = u.version - 1) AND NOT EXISTS (SELECT 1 FROM gone WHERE no = u.execution),
    EXISTS (SELECT 1 FROM execution WHERE id = u.id), EXISTS (SELECT 1 FROM start_key WHERE key = u.key)
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY AS u (execution, version, id, key, n)
ORDER BY n`, executions, versions, ids, keys)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[store.Stored])
	if err != nil {
		return err
	}
	return store.Refuse(commits, func(i int) (store.Stored, error) { return found[i], nil })
}
