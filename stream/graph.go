package stream

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// node is one step of the segment.
type node struct {
	step   Step
	module *Module
	config map[string]any // checked and completed
	shown  map[string]any // config without secrets
	inputs []*node
	outs   []*node // that take its items, in the order of the segment

	meeting *meeting // of a step with several inputs

	end   int // bit of a step behind which nothing comes, -1: none
	roots []*root
	ends  uint64 // that its items may reach
	root  *root  // of a source
	pages *pages // of a Remote source, nil: nothing is kept

	env    *Env
	host   action.Host
	level  slog.Level
	opened any
	leaf   *leaf // of a step behind which nothing comes
	counts counts

	ctx     context.Context // done when the step does not go on
	leave   context.CancelCauseFunc
	failed  bool // its module could not work, as err says
	err     error
	because *node                      // the step that failed, itself or another, so that this one did not finish
	done    *doneStep                  // it completed in an earlier attempt
	outputs map[string]json.RawMessage // the module's own
	missing int64                      // items of a source that a retry looked for in vain
	own     bool                       // what is done already, this execution has done
	resumed int64                      // items that had come before the stream was cut off
	sample  []missingItem
	began   time.Time
	took    time.Duration
}

// role is the step's role here: some modifiers are sources when they have no input.
func (n *node) role() spec.Role {
	if about := n.module.Spec.Stream; about.AlsoSource && len(n.inputs) == 0 {
		return spec.Source
	}
	return n.module.Spec.Stream.Role
}

// maxEnds is how many steps without others behind them a segment may have: one bit each.
const maxEnds = 64

// graph is the steps of a segment in an order in which each comes behind those whose items it takes.
type graph struct {
	nodes []*node
	roots []*root
	ends  []*node
}

// connect links every step to the steps that take its items.
func connect(nodes []*node) (*graph, error) {
	byID := make(map[string]*node, len(nodes))
	for _, n := range nodes {
		if byID[n.step.ID] != nil {
			return nil, topology("two steps of the segment are called %q", n.step.ID)
		}
		byID[n.step.ID] = n
	}
	for _, n := range nodes {
		for _, id := range n.step.Inputs {
			from := byID[id]
			if from == nil {
				return nil, topology("step %s takes the items of %q, which is not in the segment", n.step.ID, id)
			}
			if slices.Contains(n.inputs, from) {
				return nil, topology("step %s takes the items of %s twice", n.step.ID, id)
			}
			n.inputs = append(n.inputs, from)
			from.outs = append(from.outs, n)
		}
	}
	g := &graph{}
	var err error
	if g.nodes, err = sorted(nodes); err != nil {
		return nil, err
	}
	for _, n := range g.nodes {
		if err := checkInputs(n); err != nil {
			return nil, err
		}
	}
	if err := g.colour(); err != nil {
		return nil, err
	}
	known := map[*root]*ancestry{}
	for _, n := range g.nodes {
		if len(n.inputs) > 1 {
			if err := g.meet(n, known); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// sorted orders the nodes topologically (Kahn); ties keep the order of the segment.
func sorted(nodes []*node) ([]*node, error) {
	missing := make(map[*node]int, len(nodes))
	var ready, done []*node
	for _, n := range nodes {
		if missing[n] = len(n.inputs); len(n.inputs) == 0 {
			ready = append(ready, n)
		}
	}
	for ; len(ready) > 0; ready = ready[1:] {
		done = append(done, ready[0])
		for _, next := range ready[0].outs {
			if missing[next]--; missing[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	if len(done) < len(nodes) {
		var circle []string
		for _, n := range nodes {
			if missing[n] > 0 {
				circle = append(circle, n.step.ID)
			}
		}
		return nil, topology("the steps %s take each other's items in a circle", strings.Join(circle, ", "))
	}
	return done, nil
}

func checkInputs(n *node) error {
	id := n.step.ID
	switch about := n.module.Spec.Stream; {
	case about.Role == spec.Source && len(n.inputs) > 0 && !about.TakesItems:
		return topology("step %s makes items and takes none, but has %s before it", id, n.inputs[0].step.ID)
	case n.role() != spec.Source && len(n.inputs) == 0:
		return topology("step %s takes items, but no source is before it", id)
	case about.Role == spec.Sink && len(n.outs) > 0:
		return topology("step %s is a sink: no items come out of it for %s", id, n.outs[0].step.ID)
	}
	return nil
}

// colour numbers roots and ends, and finds out whose items come where.
func (g *graph) colour() error {
	for _, n := range g.nodes {
		n.end = -1
		g.rootsOf(n)
		if len(n.outs) == 0 {
			n.end = len(g.ends)
			g.ends = append(g.ends, n)
		}
	}
	if len(g.ends) > maxEnds {
		return topology("%d steps have none behind them; a segment may have %d", len(g.ends), maxEnds)
	}
	for _, n := range slices.Backward(g.nodes) {
		if n.end >= 0 {
			n.ends = 1 << n.end
		}
		for _, r := range n.roots {
			r.whole = r.whole || n.module.Spec.Stream.Remembers
		}
		for _, next := range n.outs {
			if next.role() != spec.Source {
				n.ends |= next.ends
				continue
			}
			for _, r := range n.roots {
				r.handOff = true
			}
		}
	}
	for _, r := range g.roots {
		r.ends = r.node.ends
	}
	return nil
}

// rootsOf finds out whose items a step passes on.
func (g *graph) rootsOf(n *node) {
	if n.role() == spec.Source {
		n.root = &root{index: len(g.roots), node: n}
		g.roots = append(g.roots, n.root)
		n.roots = []*root{n.root}
		return
	}
	for _, in := range n.inputs {
		n.roots = append(n.roots, in.roots...)
	}
	slices.SortFunc(n.roots, func(a, b *root) int { return a.index - b.index })
	n.roots = slices.Compact(n.roots)
}

// settlers is how many ends settle a batch of the root.
func (r *root) settlers() int32 { return int32(bits.OnesCount64(r.ends)) }

func topology(format string, args ...any) error { return stepwell.Invalid("", format, args...) }
