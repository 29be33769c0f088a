package memory

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// reported is what a commit's log says that later reads need.
type reported struct {
	seen []engine.Attempt
	at   int64 // µs, of the batch; 0: not read
}

// Commit implements store.Committer. Everything that can fail comes first, so that all commits are made, or none.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) error {
	if err := ctx.Err(); err != nil || len(commits) == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]reported, len(commits))
	for i := range commits {
		if err := commits[i].OnlyFirstCreates(); err != nil {
			return err
		}
		if err := found[i].read(&commits[i]); err != nil {
			return err
		}
	}
	if err := store.Refuse(commits, s.stored(commits)); err != nil {
		return err
	}
	for i := range commits {
		if err := s.apply(&commits[i], &found[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reported) read(c *store.Commit) (err error) {
	if r.seen, _, err = c.Reports(); err != nil || len(c.Progress) == 0 {
		return err
	}
	b, err := engine.DecodeBatch(c.Version, c.Log)
	if err == nil {
		r.at = b.At
	}
	return err
}

// stored says what is here of the keys of commits.
func (s *Store) stored(commits []store.Commit) func(i int) (store.Stored, error) {
	return func(i int) (store.Stored, error) {
		c := &commits[i]
		x := s.find(c.Execution)
		out := store.Stored{Taken: x != nil && c.Version <= x.row.Version, Before: x != nil && c.Version-1 <= x.row.Version && c.Version > 1}
		if c.Create != nil {
			_, out.ID = s.ids[c.Create.ID]
			_, out.Key = s.keys[c.Create.Key]
		}
		return out, nil
	}
}

// apply makes a commit that can be made.
func (s *Store) apply(c *store.Commit, found *reported) error {
	if c.Create != nil {
		s.create(c.Execution, c.Create)
	}
	x := s.find(c.Execution)
	x.row.Version = c.Version
	x.log = append(x.log, clone(c.Log))
	x.unnamed = append(x.unnamed, c.Unnamed())
	if c.Update != nil {
		x.update(c.Update)
	}
	for _, a := range found.seen {
		if _, ok := x.seen[a]; !ok {
			if x.seen == nil {
				x.seen = map[engine.Attempt]int64{}
			}
			x.seen[a] = c.Version
		}
	}
	for _, hash := range c.BlobHashes() {
		if x.blobs == nil {
			x.blobs = map[string]bool{}
		}
		x.blobs[hash] = true
	}
	x.rows(c)
	for i := range c.Outbox {
		s.out(c.Outbox[i])
	}
	for i := range c.Outside {
		x.work(c.Outside[i])
	}
	for _, key := range c.Taken {
		for _, one := range s.signals[key] {
			one.taken = true
		}
	}
	for i := range c.Usage {
		s.use(&c.Usage[i])
	}
	if len(c.Progress) == 0 {
		return nil
	}
	changes := make([]store.ProgressChange, len(c.Progress))
	for i := range c.Progress {
		changes[i].Count = c.Progress[i]
	}
	_, err := s.change(changes, time.UnixMicro(found.at).UTC())
	return err
}

// create inserts an execution.
func (s *Store) create(no int64, given *store.Execution) {
	x := &execution{row: *given, steps: map[int32]*step{}}
	row := &x.row
	row.No, row.Key, row.KeyHash = no, "", nil
	row.Created, row.Started, row.Ended = micros(row.Created), micros(row.Started), micros(row.Ended)
	row.Definition, row.Params, row.Outputs, row.Failure = clone(row.Definition), clone(row.Params), clone(row.Outputs), copied(row.Failure)
	s.executions[no], s.ids[row.ID], s.next = x, no, max(s.next, no+1)
	at, _ := slices.BinarySearch(s.numbers, no)
	s.numbers = slices.Insert(s.numbers, at, no)
	if given.Key != "" {
		s.keys[given.Key] = store.StartKey{Key: given.Key, Hash: clone(given.KeyHash), Execution: row.ID, Created: row.Created}
	}
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func (x *execution) update(u *store.Update) {
	x.row.Status, x.row.Outputs, x.row.Failure, x.row.Progress = u.Status, clone(u.Outputs), copied(u.Failure), u.Progress
	if u.Started != 0 {
		x.row.Started = time.UnixMicro(u.Started).UTC()
	}
	x.row.Ended = time.Time{}
	if u.Ended != 0 {
		x.row.Ended = time.UnixMicro(u.Ended).UTC()
	}
	if u.Status.Terminal() {
		clear(x.waiting)
	}
}

// rows stores the rows of steps, and then what a restart gives up.
func (x *execution) rows(c *store.Commit) {
	for i := range c.Steps {
		row := &step{StepRow: c.Steps[i], version: c.Version}
		row.Input, row.Output, row.Error, row.Counted = clone(row.Input), clone(row.Output), copied(row.Error), copied(row.Counted)
		row.Again = false
		x.steps[row.Idx] = row
		if row.External != "" && row.Status == stepwell.StepWaiting {
			if x.waiting == nil {
				x.waiting = map[int32]string{}
			}
			x.waiting[row.Idx] = row.External
		}
	}
	for _, f := range c.Forget {
		x.forget(f)
	}
	for i := range c.Superseded {
		x.supersede(&c.Superseded[i])
	}
}

func (x *execution) forget(f engine.Forgotten) {
	for k := range x.memos {
		if k.step == f.Idx {
			delete(x.memos, k)
		}
	}
	if x.fences == nil {
		x.fences = map[int32]uint32{}
	}
	x.fences[f.Idx] = f.Epoch
}

func (x *execution) supersede(gone *engine.Superseded) {
	for idx, row := range x.steps {
		if inner, ok := strings.CutPrefix(row.Key, gone.Key); ok && row.Key != "" && idx < gone.Below {
			row.superseded = row.superseded || gone.Self && inner == "" || inner != "" && (inner[0] == '.' || inner[0] == '[')
		}
	}
}

// out puts an entry into the outbox.
func (s *Store) out(o store.Outgoing) {
	s.outgoingNo++
	o.No, o.Body, o.At = s.outgoingNo, clone(o.Body), micros(o.At)
	s.outbox = append(s.outbox, o)
}

// maxSum is where a sum of usage ends.
const maxSum = 9e18

func (s *Store) use(u *store.Used) {
	add := func(to *int64, n int64) {
		if sum := *to + n; sum > maxSum || sum < *to {
			*to = maxSum
		} else {
			*to = sum
		}
	}
	sum := s.usage[[2]string{u.Kind, u.ID}]
	add(&sum.InputTokens, u.InputTokens)
	add(&sum.OutputTokens, u.OutputTokens)
	add(&sum.AudioMillis, u.AudioMillis)
	add(&sum.Cost, u.Cost)
	s.usage[[2]string{u.Kind, u.ID}] = sum
}

// AppendLogs implements store.Committer.
func (s *Store) AppendLogs(ctx context.Context, lines []store.LogLine) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range lines {
		if _, err := store.LevelNumber(lines[i].Level); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lines {
		x := s.find(l.Execution)
		if x == nil {
			continue // nobody would find it
		}
		s.lineSeq++
		l.Seq, l.At, l.Attrs = s.lineSeq, micros(l.At), clone(l.Attrs)
		x.lines = append(x.lines, l)
	}
	return nil
}

// PutDefinition implements store.Committer.
func (s *Store) PutDefinition(ctx context.Context, hash, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.definitions[string(hash)] == nil {
		s.definitions[string(hash)] = s.shared.snapshot(hash, body)
	}
	return nil
}

// PutRequest implements store.Committer.
func (s *Store) PutRequest(ctx context.Context, r store.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requestNo++
	r.No, r.Body = s.requestNo, clone(r.Body)
	s.requests = append(s.requests, r)
	return nil
}

// TakeRequests implements store.Committer.
func (s *Store) TakeRequests(ctx context.Context, owner int64, limit int) (out []store.Request, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(r store.Request) bool {
		take := len(out) < limit && (r.Owner == 0 || r.Owner == owner)
		if take {
			out = append(out, r)
		}
		return take
	})
	return out, nil
}

// RequestDone implements store.Committer: TakeRequests has removed it.
func (s *Store) RequestDone(context.Context, int64) error { return nil }

// StartKey implements store.Committer.
func (s *Store) StartKey(_ context.Context, key string) (*store.StartKey, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k, ok := s.keys[key]
	if _, there := s.ids[k.Execution]; !ok || !there {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "nothing was started under the key %q", key)
	}
	return &k, nil
}

// Numbers implements store.Loader.
func (s *Store) Numbers(ctx context.Context, n int) (first int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.next
	s.next = min(first+int64(n), math.MaxInt64-1)
	return first, nil
}
