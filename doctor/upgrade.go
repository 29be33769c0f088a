package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// maxDivergences bounds how many executions an Upgrade names.
const maxDivergences = 100

// Upgrade says whether this program decides as the one did that has recorded the executions of a database.
type Upgrade struct {
	Executions int          `json:"executions"`
	Alike      int          `json:"alike" doc:"Executions whose steps this program would have queued in the same order."`
	Held       int          `json:"held" doc:"Those of the others that have not ended: a server of this version would hold them."`
	Others     []Divergence `json:"others" nullable:"false" doc:"At most 100 of them."`
}

// Divergence is an execution that this program would have run in another way, or cannot read.
type Divergence struct {
	ID       string `json:"execution_id"`
	Pipeline string `json:"pipeline"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	Hint     string `json:"hint,omitempty"`
}

// ExamineUpgrade folds the step logs of all executions of a database with this program, and only reads. progress gets how many are
// done, after each.
func ExamineUpgrade(ctx context.Context, o app.Options, progress func(int)) (*Upgrade, error) {
	u := &Upgrade{Others: []Divergence{}}
	err := app.Refold(ctx, o, func(x *store.Execution, wrong error) error {
		switch u.Executions++; {
		case store.IsAway(wrong):
			return wrong
		case wrong == nil:
			u.Alike++
		default:
			if !x.Status.Terminal() {
				u.Held++
			}
			if len(u.Others) < maxDivergences {
				u.Others = append(u.Others, Divergence{ID: x.ID, Pipeline: x.Pipeline, Status: x.Status.String(), Reason: reason(wrong), Hint: stepwell.HintOf(wrong)})
			}
		}
		progress(u.Executions)
		return nil
	})
	return u, err
}

// reason is what is wrong, with what the engine says of it.
func reason(err error) string {
	text := err.Error()
	if d := divergence(err); d != "" && !strings.Contains(text, d) {
		text += ": " + d
	}
	return text
}

// WriteText writes the result for people.
func (u *Upgrade) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d executions fold to the same decisions\n", u.Alike, u.Executions)
	for _, d := range u.Others {
		fmt.Fprintf(&b, "✘ %s  %s  %s: %s\n", d.ID, d.Pipeline, d.Status, d.Reason)
	}
	if rest := u.Executions - u.Alike - len(u.Others); rest > 0 {
		fmt.Fprintf(&b, "and %d more\n", rest)
	}
	if u.Held > 0 {
		fmt.Fprintf(&b, "→ %d of them have not ended: let them end with the version that began them, or cancel them, before this one takes over\n", u.Held)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// divergence is where the decisions differ; "": that is not what is wrong.
func divergence(err error) string {
	if d, ok := errors.AsType[*engine.Diverged](err); ok {
		return d.Error()
	}
	return ""
}
