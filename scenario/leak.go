package scenario

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
)

// leaks finds secrets in what people see. The product hides them there: what it had to hide is a mistake of the pipeline all the same.
func (r *run) leaks(ctx context.Context) error {
	if len(r.t.Secrets) == 0 {
		return nil
	}
	told := map[string]bool{}
	look := func(where string, raw []byte) {
		if told[where] {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(r.t.Secrets)) {
			if value := r.t.Secrets[name]; value != "" && bytes.Contains(raw, []byte(value)) {
				told[where] = true
				r.add(r.t.Pos, fmt.Sprintf("the secret %s shows up in %s", name, where), "")
				return
			}
		}
		if secret.Sealed(raw) || !r.o.Recorded && bytes.Contains(raw, []byte(secret.Hidden)) {
			told[where] = true
			r.add(r.t.Pos, "a secret is put into "+where+", where Stepwell hides it", "hand secrets to steps in params only")
		}
	}
	for _, l := range r.lines {
		look("the log of "+l.StepKey, []byte(l.Message))
		look("the log of "+l.StepKey, l.Attrs)
	}
	for _, key := range r.keys {
		s := r.steps[key]
		out := s.Output
		if engine.IsRef(out) {
			var err error
			if out, err = r.world.Store.Blobs().Load(ctx, string(out)); err != nil {
				return err
			}
		}
		look("the outputs of "+key, out)
		if s.Error != nil {
			look("the error of "+key, []byte(s.Error.Message))
		}
	}
	look("the outputs of the pipeline", r.x.Outputs)
	look("the events", []byte(strings.Join(r.lastEvents(ctx), "\n")))
	return nil
}
