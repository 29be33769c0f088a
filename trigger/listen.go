package trigger

import "slices"

// Listening are the enabled jobs of type event. They are read only.
func (s *Schedules) Listening() []Job {
	s.followedMu.RLock()
	defer s.followedMu.RUnlock()
	return s.listening
}

// listens keeps the list of enabled jobs of type event. The caller holds the lock.
func (s *Schedules) listens(e *entry) {
	s.followedMu.Lock()
	defer s.followedMu.Unlock()
	others := slices.DeleteFunc(slices.Clone(s.listening), func(j Job) bool { return j.ID == e.ID })
	if e.Schedule.Type == TypeEvent && !e.gone && e.enabled() {
		others = append(others, e.Job)
	}
	s.listening = others
}
