package durable

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// maxFiles bounds the files of a Set, each of which takes two open files.
const maxFiles = 500

// SetOptions say how the files of a Set are written.
type SetOptions struct {
	Options
	Policy Policy
	// Key is the key of a row. Defaults to none: Upsert is not possible then.
	Key func(row *item.Value) (Key, bool)
	// Journal is the name of a file in Data that tells of the files that Publish moves.
	Journal string
	// HandOver stores the files of Data for the worker that may go on, and is ErrFenced when one does; see stream.Env.HandOver.
	// nil: they stay on this machine. Files of Places that are Versions are published over the version that was seen.
	HandOver func(ctx context.Context) error
	// Claim reserves a place among the streams of the execution, Lock among executions. See stream.Env.Claims.
	Claim func(dest string, share bool) error
	Lock  func(dest string, alone bool, clear func() error) (*Lock, error)
	// LockPath is the file of Lock.
	LockPath func(dest string) string
	// Count is how many rows a finished file has; false when it is not read for that.
	Count func(ctx context.Context, dest string) (int64, bool, error)
}

// Set is the files that one sink writes.
//
// Rows go to hidden spools, whose names hold the token of the state, so that no stream opens another's. Sync writes
// self-contained blocks; the State after it is the offsets at which a later Set truncates the spools. Publish ends the
// spools, merges them with the published files as the Policy says, and renames them. A crash before the new state is
// stored leaves a state that refers to spools which are files by now: the journal, written before, has their sizes, to
// recognise them. Not safe for concurrent use.
type Set struct {
	Order             []*Member
	Repeated, LeftOut int64 // rows that were not written as their key was there

	o     *SetOptions
	token string
	files map[string]*Member // by path
}

// Member is one file of a Set.
type Member struct {
	*File
	lock *Lock
	keys *Keys // nil: rows have no keys
	late bool  // published by this run, which was cut off right then
}

// SetState is the stored state of a Set: the files by path.
type SetState struct {
	Token string           `json:"token"`
	Files map[string]State `json:"files"`
	// Live are those of a journal's files that have been published.
	Live []string `json:"live,omitempty"`
}

// NewToken makes a token that no other run has.
func NewToken() string { return strings.ToLower(rand.Text()[:TokenLength]) }

// OpenSet goes on from a state; the zero state begins a Set, which changes nothing on disk. ErrGone: a file does not match
// the state.
func OpenSet(ctx context.Context, o *SetOptions, state SetState) (*Set, error) {
	s := &Set{o: o, token: cmp.Or(state.Token, NewToken()), files: map[string]*Member{}}
	if len(state.Files) == 0 {
		return s, nil
	}
	if err := s.goOn(ctx, state); err != nil {
		return nil, errors.Join(err, s.Leave())
	}
	return s, nil
}

func (s *Set) goOn(ctx context.Context, state SetState) error {
	closed, err := s.closed()
	if err != nil {
		return err
	}
	for _, dest := range slices.Sorted(maps.Keys(state.Files)) {
		m, err := s.add(dest)
		if err != nil {
			return err
		}
		if err := s.seeRival(ctx, m, closed); err != nil {
			return err
		}
		if m.State = state.Files[dest]; !m.State.Done {
			found, err := s.goOnOne(ctx, m, closed.Files[m.Dest])
			if err != nil {
				return err
			}
			if found {
				continue
			}
			if last, ok := closed.Files[dest]; !ok || last.No < m.State.No {
				return ErrGone // the journal describes an earlier spool
			}
			m.State.Size, m.State.Done, m.late = -1, true, true // one of the journal's
		}
		if err := s.stillThere(ctx, m, closed); err != nil {
			return err
		}
		if err := s.tidy(m); err != nil {
			return err
		}
	}
	return nil
}

// seeRival corrects the journal where a worker that lived on has published the same rows before: its file may have another
// size, as rows come in another order.
func (s *Set) seeRival(ctx context.Context, m *Member, closed SetState) error {
	last, ok := closed.Files[m.Dest]
	if m.over == nil || !ok || !last.Done {
		return nil
	}
	now, err := m.over.Version(ctx, m.Dest)
	if err != nil || now.Mark != m.mark(last) {
		return err
	}
	if last.Size, err = s.Size(ctx, m.Dest); err != nil {
		return err
	}
	closed.Files[m.Dest] = last
	return nil
}

// tidy removes the remains of a dead run next to a finished file: its lock, and the spool of a next version that was
// never committed.
func (s *Set) tidy(m *Member) error {
	if _, err := os.Stat(s.o.LockPath(m.Dest)); err == nil {
		if err := s.lock(m); err != nil {
			return err
		}
	}
	return m.Drop()
}

func (s *Set) journalPath() string { return filepath.Join(s.o.Data, s.o.Journal) }

// closed is the journal of a Publish of the runs that this one goes on from; empty when there was none.
func (s *Set) closed() (SetState, error) {
	var c SetState
	raw, err := os.ReadFile(s.journalPath())
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("%s: %w", s.o.Journal, err)
	}
	if c.Token != s.token {
		c = SetState{}
	}
	return c, nil
}

// goOnOne resumes the spool of one file, and reports whether there is one to resume; last is its entry in the journal. A
// spool that has been appended to its file counts as none: the run died before the spool was removed.
func (s *Set) goOnOne(ctx context.Context, m *Member, last State) (bool, error) {
	if err := s.lock(m); err != nil { // first: another stream of the execution that comes now clears nothing
		return false, err
	}
	if s.o.Policy.Mode == Append && last.Done && last.Own > 0 && last.No >= m.State.No {
		if size, err := s.Size(ctx, m.Dest); err != nil || size == last.Size {
			return false, err
		}
	}
	found, err := m.GoOn(ctx)
	if err != nil || !found {
		return false, err
	}
	if m.State.Later && s.o.Policy.Mode == Replace { // it builds on the file that the run before has published
		if size, err := s.Size(ctx, m.Dest); err != nil || max(size, 0) != m.State.Size {
			return false, errors.Join(err, m.Discard(), ErrGone)
		}
	}
	return true, s.openKeys(m)
}

// Size is a file's size, -1 when there is none.
func (s *Set) Size(ctx context.Context, dest string) (int64, error) {
	in, size, err := s.o.Places.OpenFile(ctx, dest)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return size, in.Close()
}

// stillThere checks that a finished file matches the state, or a Publish after it. A file that is appended to or
// upserted into may have rows of others, but never loses any.
func (s *Set) stillThere(ctx context.Context, m *Member, closed SetState) error {
	last := closed.Files[m.Dest]
	if m.State.Items == 0 && m.State.Size == 0 && m.isMaker() && last.Size == 0 {
		return nil // there never was one
	}
	size, err := s.Size(ctx, m.Dest)
	if err != nil {
		return err
	}
	if size < 0 {
		return ErrGone
	}
	noted := int64(0) // rows known to be done among those that the journal's Publish added
	if m.State.Size < 0 {
		noted = m.State.Prior + m.State.Items
	}
	switch {
	case size == m.State.Size:
		m.State.Prior = 0
		return nil
	case last.Done && size == last.Size:
		m.State = last
		m.State.Cut(noted)
		return nil
	}
	live := slices.Contains(closed.Live, m.Dest)
	if s.o.Policy.Mode == Replace || m.State.Size < 0 && !live {
		return ErrGone
	}
	if live {
		m.State = last
	}
	n, counted, err := s.o.Count(ctx, m.Dest)
	if err != nil || counted && n < m.State.Items || !counted && size < m.State.Size {
		return errors.Join(err, ErrGone)
	}
	m.State.Size = size
	return nil
}

func (s *Set) add(dest string) (*Member, error) {
	if len(s.Order) == maxFiles {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("more than %d collections, one file each", maxFiles),
			Hint: "write them into one file, or in several runs"}
	}
	f, err := NewFile(&s.o.Options, dest, s.token)
	if err != nil {
		return nil, err
	}
	if s.o.HandOver != nil && s.o.Remote {
		f.over, _ = s.o.Places.(Versions)
	}
	m := &Member{File: f}
	s.files[dest] = m
	s.Order = append(s.Order, m)
	return m, nil
}

// lock locks the place of a file, and removes the remains of dead runs.
func (s *Set) lock(m *Member) (err error) {
	if m.lock != nil {
		return nil
	}
	alone := s.o.Policy.Mode == Replace
	if err := s.o.Claim(m.Dest, !alone); err != nil {
		return err
	}
	m.lock, err = s.o.Lock(m.Dest, alone, m.Clear)
	return err
}

// Has reports whether the Set has a file at dest.
func (s *Set) Has(dest string) bool { return s.files[dest] != nil }

// File is the file at dest, open. vacant may refuse one that no run before has written; nil: it is begun.
func (s *Set) File(dest string, vacant func() error) (m *Member, err error) {
	if m = s.files[dest]; m != nil && m.Open() {
		return m, nil
	}
	later := m != nil // it was finished by a run that this one goes on from, and is added to
	if m == nil {
		if m, err = s.add(dest); err != nil {
			return nil, err
		}
	}
	if err := s.lock(m); err != nil {
		return nil, err
	}
	if m.State.Later = later; !later && vacant != nil {
		if err := vacant(); err != nil {
			return nil, err
		}
	}
	if err := m.Begin(); err != nil {
		return nil, err
	}
	return m, s.openKeys(m)
}

// openKeys opens the keys of a file's spool.
func (s *Set) openKeys(m *Member) (err error) {
	if s.o.Key == nil {
		return nil
	}
	name := fmt.Sprintf("keys-%016x-%s", xxh3.HashString(m.Dest), s.token)
	m.keys, err = OpenKeys(filepath.Join(s.o.Data, name), m.State.Items, s.o.Policy.Keep)
	return err
}

// ErrNoKey is a row without a key.
var ErrNoKey = errors.New("the row has no key")

// ErrSameKey is a row whose key another one of the run has.
var ErrSameKey = errors.New("another row of the run has the same key")

// Write puts a row into a file, unless its key says otherwise. A Refusal (ErrNoKey and ErrSameKey among them) is of the
// row.
func (s *Set) Write(m *Member, row *item.Value) error {
	var key Key
	var content uint64
	if m.keys != nil {
		var ok bool
		if key, ok = s.o.Key(row); !ok {
			return Refusal{ErrNoKey}
		}
		content = xxh3.Hash(row.Bytes())
		switch m.keys.Judge(key, content) {
		case Repeated:
			s.Repeated++
			return nil
		case LeftOut:
			s.LeftOut++
			return nil
		case Refused:
			return Refusal{ErrSameKey}
		case Replaced:
			s.LeftOut++
		}
	}
	err := m.Put(row, max(BlockSize/16, min(BlockSize, 16*BlockSize/len(s.Order))))
	if err == nil && m.keys != nil {
		err = m.keys.Add(key, content, m.Items-1)
	}
	return err
}

// Written is how many rows this run has put into the files; before Publish.
func (s *Set) Written() (n int64) {
	for _, m := range s.Order {
		switch {
		case m.late:
			n += m.File.State.Own
		case m.Open():
			n += m.Items
			if m.keys != nil {
				n -= m.keys.LeftOut()
			}
		}
	}
	return n
}

// Sync makes the written rows durable.
func (s *Set) Sync() error {
	for _, m := range s.Order {
		if m.Open() && m.keys != nil {
			if err := m.keys.Sync(); err != nil {
				return err
			}
		}
		if err := m.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// State is the state to go on from. It is durable right behind Sync.
func (s *Set) State() SetState {
	state := SetState{Token: s.token, Files: make(map[string]State, len(s.Order))}
	for _, m := range s.Order {
		state.Files[m.Dest] = m.File.State
	}
	return state
}

// journal records the sizes of the finished files, and which of them are published.
func (s *Set) journal(ctx context.Context) error {
	state := s.State()
	for _, m := range s.Order {
		if m.File.State.Done && !m.Open() {
			state.Live = append(state.Live, m.Dest)
		}
	}
	err := WriteFile(s.journalPath(), func(f *os.File) error { return json.NewEncoder(f).Encode(state) })
	if err != nil || s.o.HandOver == nil {
		return err
	}
	return s.o.HandOver(ctx)
}

// Leave closes all files and releases their places. Spools that a state refers to stay.
func (s *Set) Leave() error {
	var errs []error
	for _, m := range s.Order {
		errs = append(errs, m.Leave(), m.done(false))
	}
	return errors.Join(errs...)
}

// Done releases the places of all files after Publish, and removes their keys.
func (s *Set) Done() error {
	var errs []error
	for _, m := range s.Order {
		errs = append(errs, m.done(true))
	}
	return errors.Join(errs...)
}

// done closes a file's keys, which are of no more use when it was published, and releases its place.
func (m *Member) done(published bool) error {
	var errs []error
	if m.keys != nil {
		errs = append(errs, m.keys.Close(published))
		m.keys = nil
	}
	if m.lock != nil {
		errs = append(errs, m.lock.Release())
		m.lock = nil
	}
	return errors.Join(errs...)
}
