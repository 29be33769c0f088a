package postgres

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// batch collects the rows of the commits of one call, by statement, and is used again for the next call.
type batch struct {
	slots map[int64]*slotRows
	// create holds rows of executions that go on, ended of those that have ended at once. change and end hold updates of
	// executions that this process knows to be live; changeAny and endAny look for them in both tables.
	create, ended, change, end, changeAny, endAny          *rows
	keys, spawned, seen, waits, waitEnds, blobs, outgoing  *rows
	replaced, outside, taken, fence, forget, counts, usage *rows
	all                                                    []*rows // of them those behind the steps, in the order of sending

	updates map[int64]*update
	order   []int64 // executions with an update
	list    []statement
}

// slotRows are the rows for the tables of one slot.
type slotRows struct {
	log, steps, upserts, supersede *rows
	extra                          []byte // scratch
}

// update is what a call changes of an execution's row: the last update, with the last start.
type update struct {
	create *store.Execution
	to     *store.Update // nil: it is created, and that is all
	start  int64
	live   bool // the row is in execution_live, for certain
}

const (
	i2, i4, i8 = pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID
	str, raw   = pgtype.TextOID, pgtype.ByteaOID
	flag       = pgtype.BoolOID
)

func newBatch() *batch {
	b := &batch{slots: map[int64]*slotRows{}, updates: map[int64]*update{}}
	b.create = newRows(sqlCreate("execution_live", "execution_past"), executionTypes...)
	b.ended = newRows(sqlCreate("execution_past", "execution_live"), executionTypes...)
	for to, sql := range map[**rows]string{&b.change: sqlChange, &b.end: sqlEnd, &b.changeAny: sqlChangeAny, &b.endAny: sqlEndAny} {
		*to = newRows(sql, i8, i2, i8, i8, str, str, str)
	}
	b.keys = newRows(sqlStartKeys, str, raw, i8, i8)
	b.spawned = newRows(sqlSpawned, i8, i4, str, i8)
	b.seen = newRows(sqlSeen, i8, i4, i8, i8)
	b.waits = newRows(sqlWaits, i8, i4, str)
	b.waitEnds = newRows(sqlWaitEnds, i8)
	b.blobs = newRows(sqlBlobUses, i8, str)
	b.outgoing = newRows(sqlOutgoing, str, str, str, i8)
	b.replaced = newRows(sqlOutsideReplaced, i8, i4, i8)
	b.outside = newRows(sqlOutside, outsideTypes...)
	b.taken = newRows(sqlTaken, i8, str)
	b.fence = newRows(sqlFence, i8, i4, i8)
	b.forget = newRows(sqlForget, i8, i4)
	b.counts = newRows(sqlCounts, str, i8, i8, i8)
	b.usage = newRows(sqlUsage, str, str, i8, i8, i8, i8)
	b.all = []*rows{b.spawned, b.seen, b.waitEnds, b.waits, b.blobs, b.outgoing, b.replaced, b.outside, b.taken, b.fence, b.forget, b.counts, b.usage}
	return b
}

// slot is the rows of an execution's slot. Without a table of its own they go through the parent.
func (b *batch) slot(execution int64, tables map[int64]bool) *slotRows {
	no, end := slotOf(execution), ""
	if tables[no] {
		end = suffix(no)
	} else {
		no = -1
	}
	s := b.slots[no]
	if s == nil {
		stepTypes := []uint32{i8, i4, i8, i4, i4, i2, i8, i8, i8, str, str, str, str, str}
		s = &slotRows{
			log:       newRows(strings.ReplaceAll(sqlLog, "{slot}", end), i8, i8, i8, str, str, str),
			steps:     newRows(strings.ReplaceAll(sqlSteps, "{slot}", end), stepTypes...),
			upserts:   newRows(strings.ReplaceAll(sqlSteps+sqlStepsAgain, "{slot}", end), stepTypes...),
			supersede: newRows(strings.ReplaceAll(sqlSupersede, "{slot}", end), i8, i4, str, flag),
		}
		b.slots[no] = s
	}
	return s
}

// maxSlots bounds the slots whose rows are kept for the next call.
const maxSlots = 16

func (b *batch) reset() {
	if len(b.slots) > maxSlots {
		clear(b.slots)
	}
	for _, s := range b.slots {
		for _, r := range [...]*rows{s.log, s.steps, s.upserts, s.supersede} {
			r.reset()
		}
	}
	for _, r := range b.heads() {
		r.reset()
	}
	for _, r := range b.all {
		r.reset()
	}
	clear(b.updates)
	b.order = b.order[:0]
	clear(b.list)
	b.list = b.list[:0]
}

func (b *batch) heads() [7]*rows {
	return [...]*rows{b.create, b.ended, b.keys, b.end, b.endAny, b.change, b.changeAny}
}

// statements are those of the rows: the log first, whose key refuses a lost race before anything else is written.
func (b *batch) statements() []statement {
	for _, s := range b.slots {
		b.list = s.log.statements(b.list)
	}
	for _, r := range b.heads() {
		b.list = r.statements(b.list)
	}
	for _, s := range b.slots {
		for _, r := range [...]*rows{s.steps, s.upserts, s.supersede} {
			b.list = r.statements(b.list)
		}
	}
	for _, r := range b.all {
		b.list = r.statements(b.list)
	}
	return b.list
}

// logRow adds a commit's row of the log.
func (b *batch) logRow(c *store.Commit, s *slotRows) error {
	at, queued, err := headOf(c)
	if err != nil {
		return err
	}
	row := s.log.row()
	row[0].int(c.Execution)
	row[1].int(c.Version)
	row[2].int(at)
	row[3].json(queued)
	row[4].textOrNull(c.Unnamed())
	row[5].json(c.Log)
	return nil
}

// headOf takes a batch's time and the steps that it queues, as they are written, out of its record, whose form is
// engine.AppendBatch's: {"t":…,"e":[…],"q":[[first,count],…]}.
func headOf(c *store.Commit) (at int64, queued []byte, err error) {
	rest, ok := bytes.CutPrefix(c.Log, []byte(`{"t":`))
	n := 0
	for n < len(rest) && n < 18 && rest[n] >= '0' && rest[n] <= '9' {
		at = 10*at + int64(rest[n]-'0')
		n++
	}
	if !ok || n == 0 || !bytes.HasPrefix(rest[n:], []byte(`,"e":[`)) {
		b, err := engine.DecodeBatch(c.Version, c.Log)
		if err != nil {
			return 0, nil, err
		}
		return b.At, runsOf(b.Queued), nil
	}
	if !bytes.HasSuffix(rest, []byte("]]}")) {
		return at, nil, nil
	}
	// The last list of the record is "q" if all up to the end is such a list: within an event more than one bracket follows.
	i := bytes.LastIndex(rest, []byte(`],"q":[`))
	if i < 0 || !runs(rest[i+len(`],"q":`):len(rest)-1]) {
		return at, nil, nil
	}
	return at, rest[i+len(`],"q":`) : len(rest)-1], nil
}

// runs reports whether a text is made of digits, commas and brackets, and closes its outer bracket with its end.
func runs(s []byte) bool {
	depth := 0
	for i, c := range s {
		switch {
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 && i != len(s)-1 {
				return false
			}
		case c != ',' && (c < '0' || c > '9'):
			return false
		}
	}
	return depth == 0
}

func runsOf(queued []int32) []byte {
	if len(queued) == 0 {
		return nil
	}
	list := make([][2]int32, 0, len(queued))
	for _, idx := range queued {
		list = append(list, [2]int32{idx, 1})
	}
	out, _ := json.Marshal(list) // numbers always can be
	return out
}

// add adds everything of a commit but its log and its steps' rows.
func (b *batch) add(c *store.Commit, live, waits bool) error {
	if c.Create != nil || c.Update != nil {
		u := b.updates[c.Execution]
		if u == nil {
			u = &update{live: live}
			b.updates[c.Execution] = u
			b.order = append(b.order, c.Execution)
		}
		if c.Create != nil {
			u.create = c.Create
		}
		if c.Update != nil {
			u.to = c.Update
			if c.Update.Started != 0 {
				u.start = c.Update.Started
			}
			if c.Update.Status.Terminal() && waits {
				b.waitEnds.row()[0].int(c.Execution)
			}
		}
	}
	return b.optional(c)
}

// optional adds the parts that most commits lack.
func (b *batch) optional(c *store.Commit) error {
	seen, spawned, err := c.Reports()
	if err != nil {
		return err
	}
	for _, a := range seen {
		row := b.seen.row()
		row[0].int(c.Execution)
		row[1].int(int64(a.Idx))
		row[2].int(int64(a.Epoch))
		row[3].int(c.Version)
	}
	for _, x := range spawned {
		row := b.spawned.row()
		row[0].int(c.Execution)
		row[1].int(int64(x.Idx))
		row[2].text(x.DependsOn)
		row[3].int(x.Created)
	}
	for _, hash := range c.BlobHashes() {
		row := b.blobs.row()
		row[0].int(c.Execution)
		row[1].text(hash)
	}
	for i := range c.Outbox {
		o := &c.Outbox[i]
		row := b.outgoing.row()
		row[0].text(o.Kind)
		row[1].text(o.Execution)
		row[2].json(o.Body)
		row[3].int(o.At.UnixMicro())
	}
	for i := range c.Outside {
		b.outsideRow(&c.Outside[i])
	}
	for _, key := range c.Taken {
		row := b.taken.row()
		row[0].int(c.Execution)
		row[1].text(key)
	}
	b.rewind(c)
	b.usageRows(c)
	return b.progress(c)
}

// rewind adds what a restart undoes.
func (b *batch) rewind(c *store.Commit) {
	for _, f := range c.Forget {
		row := b.fence.row()
		row[0].int(c.Execution)
		row[1].int(int64(f.Idx))
		row[2].int(int64(f.Epoch))
		row = b.forget.row()
		row[0].int(c.Execution)
		row[1].int(int64(f.Idx))
	}
}

// supersede adds the steps whose keys belong to newer instances.
func (s *slotRows) superseded(c *store.Commit) {
	for _, x := range c.Superseded {
		row := s.supersede.row()
		row[0].int(c.Execution)
		row[1].int(int64(x.Below))
		row[2].text(x.Key)
		row[3].bool(x.Self)
	}
}

// stepRow adds a step's row. One that may be there replaces it.
func (s *slotRows) stepRow(c *store.Commit, r *engine.StepRow, replaces bool) error {
	to := s.steps
	if replaces {
		to = s.upserts
	}
	rare := store.ExtraOf(r)
	rare.Key, rare.External = "", ""
	extra, err := rare.Append(s.extra[:0], r.Input)
	if err != nil {
		return err
	}
	s.extra = extra
	row := to.row()
	row[0].int(c.Execution)
	row[1].int(int64(r.Idx))
	row[2].int(c.Version)
	row[3].intOrNull(int64(r.Seq))
	row[4].int(int64(r.Attempt))
	row[5].int(int64(r.Status))
	row[6].intOrNull(r.Queued)
	row[7].intOrNull(r.Started)
	row[8].intOrNull(r.Ended)
	row[9].textOrNull(r.Worker)
	row[10].textOrNull(r.Key)
	row[11].textOrNull(r.External)
	row[12].json(r.Output)
	row[13].jsonOrNull(extra)
	return nil
}

// waitRows adds the waits that begin, and reports whether there are some.
func (b *batch) waitRows(c *store.Commit) (some bool) {
	for i := range c.Steps {
		if r := &c.Steps[i]; r.External != "" && r.Status == stepwell.StepWaiting {
			some = true
			row := b.waits.row()
			row[0].int(c.Execution)
			row[1].int(int64(r.Idx))
			row[2].text(r.External)
		}
	}
	return some
}

// executions adds the executions' own rows, sorted, so that two processes lock them in one order.
func (b *batch) executions(careful bool) error {
	slices.Sort(b.order)
	for _, no := range b.order {
		u := b.updates[no]
		if u.create != nil {
			if err := b.created(no, u); err != nil {
				return err
			}
			continue
		}
		to := b.change
		switch ends := u.to.Status.Terminal(); {
		case ends && u.live && !careful:
			to = b.end
		case ends:
			to = b.endAny
		case !u.live || careful:
			to = b.changeAny
		}
		failure, progress, err := outcome(u.to.Failure, u.to.Progress)
		if err != nil {
			return err
		}
		row := to.row()
		row[0].int(no)
		row[1].int(int64(u.to.Status))
		row[2].intOrNull(u.start)
		row[3].intOrNull(u.to.Ended)
		row[4].json(failure)
		row[5].json(progress)
		row[6].json(u.to.Outputs)
	}
	return nil
}

func outcome(f *engine.Failure, p engine.Progress) (failure, progress []byte, err error) {
	if f != nil {
		if failure, err = json.Marshal(f); err != nil {
			return nil, nil, err
		}
	}
	if p != (engine.Progress{}) {
		progress, err = p.AppendJSON(nil)
	}
	return failure, progress, err
}
