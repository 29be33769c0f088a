package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// The codes of the Failure and the Reason of an execution that is held: its log does not lead to it, it cannot be taken up for another
// reason, or a newer program has begun it.
const (
	CodeDiverged stepwell.Code = "diverged"
	CodeHeld     stepwell.Code = "held"
	CodeNewer    stepwell.Code = "newer"
)

// Held reports whether it is the failure of an execution that is held.
func (f *Failure) Held() bool {
	return f != nil && (f.Code == CodeDiverged || f.Code == CodeHeld || f.Code == CodeNewer)
}

// Diverged says that a batch of the log now decides otherwise than when it was recorded, because this program or an
// action's defaults (if the snapshot lacks them) have changed. It is CodeConflict.
type Diverged struct {
	Version  int64    // of the batch
	Recorded []string // keys of the steps that the batch queued and no longer would, at most 20
	Now      []string // keys of steps that it would queue now and did not then
}

func (d *Diverged) Error() string {
	list := func(keys []string) string {
		if len(keys) == 0 {
			return "nothing"
		}
		return strings.Join(keys, ", ")
	}
	return fmt.Sprintf("at version %d of its log it queued %s where it would now queue %s", d.Version, list(d.Recorded), list(d.Now))
}

// Failure is recorded for the execution while it is held.
func (d *Diverged) Failure() *Failure {
	return &Failure{Code: CodeDiverged, Message: "held, because it would not continue as it started: " + d.Error(),
		Hint: "recover it with the version of the program, and of its actions, that began it; or cancel it and start over"}
}

// diverged compares the steps a batch queues now with the recorded ones. Where only the order differs, it names all
// of them.
func (r *Run) diverged(b *Batch, queued []*Task) error {
	recorded, now := map[int32]bool{}, map[int32]bool{}
	for _, idx := range b.Queued {
		recorded[idx] = true
	}
	d := &Diverged{Version: b.Version}
	for _, t := range queued {
		if now[t.Idx] = true; !recorded[t.Idx] {
			d.Now = append(d.Now, t.Key)
		}
	}
	for _, idx := range b.Queued {
		if !now[idx] {
			d.Recorded = append(d.Recorded, r.keyOf(idx))
		}
	}
	if d.Now == nil && d.Recorded == nil {
		for _, t := range queued {
			d.Now = append(d.Now, t.Key)
		}
		for _, idx := range b.Queued {
			d.Recorded = append(d.Recorded, r.keyOf(idx))
		}
	}
	d.Now, d.Recorded = slices.Clip(d.Now[:min(len(d.Now), mostReasonSteps)]), slices.Clip(d.Recorded[:min(len(d.Recorded), mostReasonSteps)])
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution does not continue as it started", Err: d, Hint: d.Failure().Hint}
}

// keyOf is the key of a step, or "#" and the index if there is no such step.
func (r *Run) keyOf(idx int32) string {
	if p, ok := r.find(idx); ok {
		return p.key()
	}
	return fmt.Sprintf("#%d", idx)
}
