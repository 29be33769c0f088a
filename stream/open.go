package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// recall reads the checkpoint and makes the segment go on from it.
func (s *segment) recall() (*past, error) {
	if !s.keyed {
		return &past{}, os.MkdirAll(s.data, 0o700)
	}
	h := header{Config: s.hash, Workflow: s.params.Workflow, Entry: s.params.Entry, Segment: s.name}
	c, p, err := openCheckpoint(s.base+".ckpt", h, len(s.graph.ends), s.call.Execution, func(message string) { s.warn(s.steps[0], message) })
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	s.checkpoint = c
	if err := s.sweep(time.Now()); err != nil {
		s.warn(s.steps[0], "checkpoints of older configs could not be removed: "+err.Error())
	}
	if !p.begun || !s.settings.Resume {
		return &past{}, s.forget()
	}
	s.bags, s.resumes = p.bags, p.keys > 0
	if p.complete {
		p.cursors = nil
		if err := c.append(block{Begin: true, Open: true}, nil, true); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		return p, errors.Join(s.spool.drop(), os.MkdirAll(s.data, 0o700))
	}
	err = s.spool.takeUp(p.spool, p.cursors, func(step string) {
		for _, n := range s.steps {
			if n.step.ID == step {
				n.counts.failed.Add(1)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if size, err := s.spool.sync(); err != nil {
		return nil, err
	} else if err := c.append(block{Open: true, Spool: size}, nil, true); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, r := range s.graph.roots {
		if note, ok := p.cursors[r.index]; ok {
			r.watermark = note
			s.read.Add(note.Read)
		}
	}
	s.steps[0].host.Log(slog.LevelInfo, "the stream goes on where it was cut off")
	return p, os.MkdirAll(s.data, 0o700)
}

// forget begins anew, with everything of before gone.
func (s *segment) forget() error {
	s.bags, s.resumes = nil, false
	for _, r := range s.graph.roots {
		r.watermark, r.changed = cursorNote{}, false
	}
	s.read.Store(0)
	for _, n := range s.graph.nodes {
		n.counts.failed.Store(0)
	}
	spool := &spool{path: s.base + spoolSuffix}
	err := errors.Join(s.spool.close(), s.checkpoint.anew(), spool.drop(), os.RemoveAll(s.data), os.MkdirAll(s.data, 0o700))
	s.spool = spool
	return err
}

// open makes the components: sinks last, as they may change something outside. It returns the step whose
// component could not be made.
func (s *segment) open(ctx context.Context, p *past) (*node, error) {
	order := slices.Clone(s.graph.nodes)
	slices.SortStableFunc(order, func(a, b *node) int {
		return btoi(a.role() == spec.Sink) - btoi(b.role() == spec.Sink)
	})
	for _, n := range order {
		if err := s.openOne(ctx, n, p); err != nil {
			return n, err
		}
	}
	return nil, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *segment) openOne(ctx context.Context, n *node, p *past) (err error) {
	defer s.rescue(n, &err)
	data := filepath.Join(s.data, fileName(n.step.ID))
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	n.env = s.env(n, data)
	if n.root != nil {
		if n.env.Cursor, err = s.opened(p.cursors[n.root.index].Cursor); err != nil {
			return err
		}
	}
	if n.leaf != nil {
		n.leaf.state = p.states[n.end]
		if n.role() == spec.Sink {
			if n.env.State, err = s.opened(n.leaf.state); err != nil {
				return err
			}
		}
	}
	n.began = time.Now()
	component, err := n.module.Open(ctx, n.env, n.config)
	if err != nil {
		return err
	}
	n.opened = component
	ok := false
	switch n.role() {
	case spec.Source:
		_, ok = component.(Source)
	case spec.Modifier:
		_, ok = component.(Modifier)
	case spec.Sink:
		_, ok = component.(Sink)
	}
	if !ok {
		n.opened = nil
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("module %s made a %T, which is no %s", n.module.Spec.Name, component, n.role())}
	}
	return nil
}

func (s *segment) env(n *node, data string) *Env {
	return &Env{
		Step: n.step.ID, Workflow: s.params.Workflow, Run: s.call.Execution, Dir: s.call.Dir, Collection: s.params.Collection, Data: data,
		Log: func(level slog.Level, message string, attrs ...slog.Attr) {
			if level >= n.level {
				n.host.Log(level, message, attrs...)
			}
		},
		Fail:   func(f Failure) error { return s.record(n, f, at{}) },
		Refuse: func(it *Item, cause error) error { return s.refuse(n, it, cause) },
		Claim:  func(path string) error { return s.claim(n, path) },
		Eval:   n.host.Eval,
		Scope:  n.host.Scope(),
	}
}
