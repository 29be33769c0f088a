package trigger

import (
	"slices"
	"strings"
)

// Listening are the enabled jobs of type event. They are read only.
func (s *Schedules) Listening() []Job {
	s.followedMu.RLock()
	defer s.followedMu.RUnlock()
	return s.listening
}

// ListensToExecutions reports whether the pattern of an enabled job of type event begins with Stepwell's own kinds of
// events, those about executions. Its cost is constant.
func (s *Schedules) ListensToExecutions() bool { return s.internal.Load() }

// executions begins the types of events about executions.
const executions = "execution."

// listens keeps the list of enabled jobs of type event. The caller holds the lock.
func (s *Schedules) listens(e *entry) {
	mine := e.Schedule.Type == TypeEvent && !e.gone && e.enabled()
	same := func(j Job) bool { return j.ID == e.ID }
	s.followedMu.Lock()
	defer s.followedMu.Unlock()
	if !mine && !slices.ContainsFunc(s.listening, same) {
		return
	}
	others := slices.DeleteFunc(slices.Clone(s.listening), same) // readers continue with the old list
	if mine {
		others = append(others, e.Job)
	}
	s.listen(others)
}

// listen replaces the list.
func (s *Schedules) listen(jobs []Job) {
	s.listening = jobs
	s.internal.Store(slices.ContainsFunc(jobs, func(j Job) bool { return strings.HasPrefix(j.Schedule.Expression, executions) }))
}
