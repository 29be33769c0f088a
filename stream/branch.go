package stream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/stream/durable"
)

// A module that cannot work ends its step, the steps behind it, and the steps before it whose items no other step
// takes. The other branches continue (semantics §8: branches that fail). The segment fails when its last branch has
// ended; the checkpoint lists the completed branches, and the next attempt skips them.

// errLost is the cause of the contexts of steps that do not go on.
var errLost = errors.New("the step does not continue")

// enterSteps gives every step its context and skips steps that an earlier attempt completed.
func (s *segment) enterSteps(ctx context.Context, done map[string]json.RawMessage) error {
	var ends uint64
	for _, n := range s.graph.nodes {
		n.ctx, n.leave = context.WithCancelCause(ctx)
		if raw := done[n.step.ID]; raw != nil {
			var err error
			if n.done, err = s.doneStep(raw); err != nil {
				return err
			}
			if n.end >= 0 {
				ends |= 1 << n.end
			}
		}
	}
	for _, n := range s.graph.nodes {
		n.ends &^= ends
	}
	for _, r := range s.graph.roots {
		r.ends &^= ends
	}
	return nil
}

// doneStep is the outcome of a step that completed in an earlier attempt of a segment that failed.
type doneStep struct {
	Outputs map[string]any `json:"outputs"`
	Result  stepResult     `json:"result"`
	Failed  int64          `json:"failed"` // items that failed on the way to it, or there
}

func (s *segment) doneStep(raw []byte) (*doneStep, error) {
	opened, err := s.opened(raw)
	if err != nil {
		return nil, err
	}
	d := new(doneStep)
	if err := json.Unmarshal(opened, d); err != nil {
		return nil, durable.Damaged("the outcome of a step: %v", err)
	}
	return d, nil
}

// faultless are those of the steps that a later run need not look at: no item has failed there, or on the way to them.
func (s *segment) faultless(done map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, n := range slices.Backward(s.graph.nodes) {
		raw := done[n.step.ID]
		if raw == nil || slices.ContainsFunc(n.outs, func(next *node) bool { return out[next.step.ID] == nil }) {
			continue
		}
		d, err := s.doneStep(raw)
		if err != nil {
			return nil, err
		}
		if d.Failed == 0 {
			out[n.step.ID] = raw
		}
	}
	return out, nil
}

// works reports whether the step takes part in this attempt, and still does.
func (n *node) works() bool { return n.done == nil && n.ctx.Err() == nil }

// lose ends a step that cannot work, and all that goes on for it alone. When nothing is left, the segment ends.
func (s *segment) lose(n *node, err error) {
	s.losing.Lock()
	defer s.losing.Unlock()
	if n.ctx == nil || n.ctx.Err() != nil || n.done != nil {
		return // it was ended before
	}
	n.failed, n.err = true, permanent(err)
	s.lost = append(s.lost, n)
	s.endBehind(n, n)
	s.endIdle(n)
	if s.settings.Strict || s.settings.StopAll || !slices.ContainsFunc(s.graph.ends, (*node).works) {
		s.once.Do(func() {
			s.cause = s.blame(len(s.lost) > 1)
			s.cancel(s.cause)
		})
	}
}

// endBehind ends a step and those behind it.
func (s *segment) endBehind(n, because *node) {
	if !n.works() {
		return
	}
	n.because = because
	n.leave(errLost)
	for _, next := range n.outs {
		s.endBehind(next, because)
	}
}

// endIdle ends the steps whose items no step takes any more.
func (s *segment) endIdle(because *node) {
	for again := true; again; {
		again = false
		for _, n := range s.graph.nodes {
			if n.works() && len(n.outs) > 0 && !slices.ContainsFunc(n.outs, (*node).works) {
				s.endBehind(n, because)
				again = true
			}
		}
	}
}

// empty notes that a source has found nothing to read. That ends only itself where others have items for the ends that
// its items would have reached; the ends that it alone feeds are ended too. It reports whether something is left.
func (s *segment) empty(n *node, err error) bool {
	r := n.root
	if r == nil || r.handOff || len(n.inputs) > 0 || stepwell.CodeOf(err) != stepwell.CodeNotFound || n.counts.made.Load() > 0 || s.settings.Strict || s.settings.StopAll {
		return false
	}
	s.losing.Lock()
	defer s.losing.Unlock()
	var alone []*node
	left := false
	for _, end := range s.graph.ends {
		switch {
		case !end.works() || !slices.Contains(end.roots, r):
		case slices.ContainsFunc(end.roots, func(other *root) bool { return other != r && other.node.works() && !other.node.failed }):
			left = true
		default:
			alone = append(alone, end)
		}
	}
	if !left || !n.works() {
		return false
	}
	n.failed, n.err = true, permanent(err)
	s.lost = append(s.lost, n)
	for _, end := range alone {
		s.endBehind(end, n)
	}
	s.endIdle(n)
	return true
}

// blame is the failure of the segment: that of the first step whose failure another attempt may cure, else of the first.
func (s *segment) blame(several bool) error {
	first := s.lost[0]
	if several {
		if at := slices.IndexFunc(s.lost, func(n *node) bool { return !action.IsFail(n.err) }); at >= 0 {
			first = s.lost[at]
		}
	}
	return &action.MemberError{Member: first.step.ID, Err: first.err}
}

// inParts reports whether the segment came to its end although some of its steps failed.
func (s *segment) inParts() bool { return s.cause == nil && len(s.lost) > 0 }

// members returns the outcome of each step of a segment that has ended.
func (s *segment) members() action.Members {
	m := action.Members{Outputs: map[string]any{}, Counts: s.tallies(), Partial: s.spool != nil && s.spool.failures() > 0, Footprints: s.hasFootprints()}
	if len(s.lost) > 0 {
		m.Failed, m.Stopped = map[string]error{}, map[string]string{}
	}
	for _, n := range s.graph.nodes {
		switch {
		case n.failed:
			m.Failed[n.step.ID] = s.named(n.err)
		case n.because != nil:
			m.Stopped[n.step.ID] = n.because.step.ID
		default:
			m.Outputs[n.step.ID] = n.describe()
		}
	}
	return m
}

// completed are the steps that need not run again: they completed, and so did all ends that their items reach.
func (s *segment) completed() (map[string]json.RawMessage, error) {
	behind, unfinished := map[*node]bool{}, map[*node]bool{} // behind: steps behind a failed one, including a source that was empty
	for _, n := range s.graph.nodes {
		behind[n] = n.failed || n.because != nil || slices.ContainsFunc(n.inputs, func(in *node) bool { return behind[in] })
	}
	for _, n := range slices.Backward(s.graph.nodes) {
		unfinished[n] = behind[n] || slices.ContainsFunc(n.outs, func(next *node) bool { return unfinished[next] })
	}
	out := map[string]json.RawMessage{}
	for _, n := range s.graph.nodes {
		if unfinished[n] {
			continue
		}
		d := n.done
		if d == nil {
			_, failed := n.behind()
			d = &doneStep{n.describe(), n.result(), failed}
		}
		raw, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		out[n.step.ID] = s.sealed(raw)
	}
	return out, nil
}
