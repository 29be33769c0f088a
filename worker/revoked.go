package worker

// revoked holds tasks revoked before they were pulled. A task that had ended already never comes and would stay for
// ever: so there are two generations, and when the younger is full the older is dropped. A dropped task runs in vain,
// no more.
type revoked struct{ young, old map[taskID]struct{} }

// maxRevoked is more than the tasks of a few executions that wait in the queue at once.
const maxRevoked = 50_000

func (r *revoked) add(id taskID) {
	if len(r.young) >= maxRevoked {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = map[taskID]struct{}{}
	}
	r.young[id] = struct{}{}
}

// remove reports whether a task was revoked, and forgets it.
func (r *revoked) remove(id taskID) bool {
	if len(r.young)+len(r.old) == 0 {
		return false
	}
	_, young := r.young[id]
	_, old := r.old[id]
	delete(r.young, id)
	delete(r.old, id)
	return young || old
}
