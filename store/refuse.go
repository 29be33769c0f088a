package store

import (
	"fmt"

	"github.com/stepwell/stepwell"
)

// Stored says what a database has of a commit's keys.
type Stored struct {
	Taken  bool // its version, or the number of the execution that it creates
	Before bool // the version before its own
	ID     bool // the id of the execution that it creates
	Key    bool // its start key
}

// Refuse finds the commits of a call that cannot be made, and the reasons: the first one for each execution. It returns
// nil if all can be made.
func Refuse(commits []Commit, look func(i int) (Stored, error)) error {
	type logKey struct{ execution, version int64 }
	found := &RefusedError{}
	here, out := map[logKey]bool{}, map[int64]bool{}
	ids, keys := map[string]bool{}, map[string]bool{}
	for i := range commits {
		c := &commits[i]
		if out[c.Execution] {
			continue
		}
		s, err := look(i)
		if err != nil {
			return err
		}
		x := c.Create
		if x == nil {
			x = &Execution{}
		}
		s.Taken = s.Taken || here[logKey{c.Execution, c.Version}]
		s.Before = s.Before || here[logKey{c.Execution, c.Version - 1}]
		s.ID, s.Key = s.ID || ids[x.ID], s.Key || keys[x.Key]
		why, err := s.refuses(c)
		if err != nil {
			found.Refusals = append(found.Refusals, Refusal{Execution: c.Execution, Why: why, Err: err})
			out[c.Execution] = true
			continue
		}
		here[logKey{c.Execution, c.Version}] = true
		ids[x.ID], keys[x.Key] = x.ID != "", x.Key != ""
	}
	if len(found.Refusals) == 0 {
		return nil
	}
	return found
}

// refuses words a refusal; a nil error: there is none.
func (s *Stored) refuses(c *Commit) (Why, error) {
	conflict := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Taken:
		return VersionTaken, conflict("version %d of execution %d exists already: another process has written it", c.Version, c.Execution)
	case c.Version > 1 && !s.Before:
		return VersionGap, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("version %d of execution %d has none before it", c.Version, c.Execution)}
	case c.Create != nil && s.ID:
		return IDTaken, conflict("an execution %s exists already", c.Create.ID)
	case c.Create != nil && s.Key:
		return KeyTaken, conflict("an execution was started under the key %q already", c.Create.Key)
	}
	return 0, nil
}

// OnlyFirstCreates is an error unless version 1, and no other, creates the execution.
func (c *Commit) OnlyFirstCreates() error {
	if (c.Create != nil) == (c.Version == 1) {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("version %d of execution %d: version 1, and no other, creates", c.Version, c.Execution)}
}
