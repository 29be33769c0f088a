package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// work is what a step does to a release, from before helm begins until it has ended: so that a cancel is carried out although
// this process dies before helm has marked the release.
type work struct {
	Cluster   string    `json:"cluster"`
	Namespace string    `json:"namespace"`
	Release   string    `json:"release"`             // "": the state of a step that waits
	Key       string    `json:"key,omitempty"`       // of the revisions of an installation
	Rollbacks []int     `json:"rollbacks,omitempty"` // revisions that a repair makes; helm gives them none of the step's labels
	First     int64     `json:"first,omitempty"`     // of an uninstallation: when the release was first deployed
	Keep      bool      `json:"keep,omitempty"`      // of an uninstallation: the record stays
	Machine   string    `json:"machine"`
	Until     time.Time `json:"until"` // when its helm has certainly ended
}

// own makes the work durable, as Cancel needs it.
func (s *session) own(ctx context.Context, w work) error {
	w.Cluster, w.Namespace, w.Release, w.Machine, w.Until = s.cluster.ID(), s.namespace, s.t.Release, machine(), s.ends()
	raw, err := json.Marshal(w)
	if err != nil {
		return action.Fail(err)
	}
	return s.call.Host.Own(ctx, raw)
}

// cancelSeconds is what helm gets for the repair of a release whose step was cancelled; a call of Cancel has 30 seconds.
const cancelSeconds = 20

// Cancel implements action.Canceler: the release of a cancelled step whose helm could not mark it is repaired. What helm
// has marked, what is another's, and what has been repaired already stays as it is.
func (h *handler) Cancel(ctx context.Context, call *action.Call) error {
	var w work
	if err := json.Unmarshal(call.State, &w); err != nil {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "state of the work on a release", Err: err})
	}
	if w.Release == "" {
		return nil // the step waited for somebody else's work
	}
	s, err := h.open(ctx, call, &target{Cluster: w.Cluster, Release: w.Release, Namespace: w.Namespace, Seconds: cancelSeconds})
	if err != nil {
		return err
	}
	defer s.close()
	done := h.turn(ctx, s.id())
	if done == nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "another step of this server works on the release " + w.Release}
	}
	defer done()
	r, err := s.read(ctx)
	if err != nil {
		return err
	}
	switch {
	case r == nil || !r.pending() || !w.made(r):
		return nil
	case !(w.Machine == machine() && s.programs.Alone()) && time.Now().Before(w.Until):
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: fmt.Sprintf("the helm of the cancelled step may be at work on the release %s until %s", w.Release, w.Until.UTC().Format(time.RFC3339))}
	case w.Key == "":
		_, err = s.delete(ctx, r, &uninstallParams{target: *s.t, KeepHistory: w.Keep})
		return err
	}
	return s.repair(ctx, r, false)
}

// made reports whether the step has left a release as it is.
func (w *work) made(r *release) bool {
	if w.Key == "" {
		return r.Status == "uninstalling" && r.First.UnixMilli() == w.First
	}
	return r.of(w.Key) || r.Status == "pending-rollback" && slices.Contains(w.Rollbacks, r.Revision)
}
