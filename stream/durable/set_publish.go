package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// MayReplace is Policy.MayReplace for the rows and places of the Set; past are the other files that Replace would remove.
func (s *Set) MayReplace(ctx context.Context, place string, given Given, past []string) error {
	for _, m := range s.Order {
		given.Rows += m.Items
		if m.File.State.Later || m.File.State.Done { // it adds to the files of the run that it resumes
			return nil
		}
	}
	return s.o.Policy.MayReplace(place, given, func() (bool, error) {
		for _, m := range s.Order {
			if there, err := m.HasRows(ctx); there || err != nil {
				return there, err
			}
		}
		return len(past) > 0, nil
	})
}

// Publish completes all open files and moves them to their places; with Replace it moves none before all are complete. A
// Maker's file without rows is not made: empty are the places of those that the run would have replaced.
func (s *Set) Publish(ctx context.Context) (empty []string, err error) {
	var ready []*Member
	for _, m := range s.Order {
		switch {
		case !m.Open(): // nothing has come for it
		case m.Items == 0 && m.isMaker():
			if !m.File.State.Later && s.o.Policy.Mode == Replace {
				empty = append(empty, m.Dest)
			}
			m.File.State = State{Done: true}
			if err := m.Discard(); err != nil {
				return nil, err
			}
		default:
			ready = append(ready, m)
		}
	}
	if s.o.Policy.Mode == Replace {
		return empty, s.publish(ctx, ready)
	}
	for _, m := range ready {
		done := m.lock.Publishing()
		err := s.publish(ctx, []*Member{m})
		done()
		if err != nil {
			return nil, err
		}
	}
	return empty, nil
}

func (o *File) isMaker() bool {
	_, ok := o.o.Format.Encoder(nil).(Maker)
	return ok
}

func (s *Set) publish(ctx context.Context, ready []*Member) error {
	made := make([]string, len(ready))
	for i, m := range ready {
		err := m.seeVersion(ctx)
		if err != nil {
			return err
		}
		if made[i], err = m.Complete(ctx, s.merging(m)); err != nil {
			return err
		}
	}
	if err := s.journal(ctx); err != nil {
		return err
	}
	for i, m := range ready {
		if err := m.Publish(ctx, made[i]); err != nil {
			return err
		}
	}
	return s.journal(ctx)
}

// merging describes the contents of a file besides the rows of this run.
func (s *Set) merging(m *Member) Merging {
	out := Merging{Base: m.File.State.Later || s.o.Policy.Mode != Replace, Keys: m.keys}
	if m.keys == nil {
		return out
	}
	out.LeftOut = m.keys.LeftOut()
	if s.o.Policy.Mode != Append {
		out.Drop = func(row *item.Value) bool {
			key, ok := s.o.Key(row)
			return ok && m.keys.Has(key)
		}
	}
	return out
}

// Past are the files of a former state that are not in this Set, which replaces them: those that are as they were left. A
// state that is none of a Set has no files.
func (s *Set) Past(ctx context.Context, state []byte) (left []string, err error) {
	var former SetState
	if s.o.Policy.Mode != Replace || json.Unmarshal(state, &former) != nil {
		return nil, nil
	}
	for dest, f := range former.Files {
		if s.files[dest] != nil || !f.Done || f.Size == 0 {
			continue
		}
		size, err := s.Size(ctx, dest)
		if err != nil {
			return nil, err
		}
		if size == f.Size {
			left = append(left, dest)
		}
	}
	slices.Sort(left)
	return left, nil
}

// Found is a finished file as it lies there.
type Found struct {
	Path  string
	Items int64
	Bytes int64
}

// Check verifies the finished files on disk, and fails when one differs from what was written. unchecked counts the
// rows of files that are not read.
func (s *Set) Check(ctx context.Context) (files []Found, unchecked int64, err error) {
	alone := s.o.Policy.Mode == Replace
	for _, m := range s.Order {
		was := m.File.State
		if was.Size == 0 && was.Items == 0 && m.isMaker() {
			continue
		}
		n, counted, err := s.o.Count(ctx, m.Dest)
		if err != nil {
			return nil, 0, fmt.Errorf("the finished file cannot be read: %w", err)
		}
		size, err := s.Size(ctx, m.Dest)
		if err != nil {
			return nil, 0, err
		}
		if !counted {
			n = was.Items
			unchecked += n
		}
		if n < was.Items || alone && (n != was.Items || size != was.Size) {
			return nil, 0, &stepwell.Error{Code: stepwell.CodeFailed,
				Message: fmt.Sprintf("%s holds %d items in %d bytes, but %d in %d bytes were written", m.Dest, n, size, was.Items, was.Size),
				Hint:    "something else has changed the file; run the step again"}
		}
		files = append(files, Found{m.Dest, n, size})
	}
	return files, unchecked, nil
}
