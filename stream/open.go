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

// openRun reads the checkpoint and makes the segment go on from it.
func (s *segment) openRun(ctx context.Context) (*past, error) {
	if !s.keyed {
		return &past{}, os.MkdirAll(s.data, 0o700)
	}
	h := header{Config: s.hash, Workflow: s.params.Workflow, Entry: s.params.Entry, Segment: s.name, Run: s.call.Execution}
	c, p, err := openCheckpoint(s.base+".ckpt", h, len(s.graph.ends), s.later, func(message string) { s.warn(s.steps[0], message) })
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	s.checkpoint = c
	if s.handover != nil {
		c.saved = s.handOver
	}
	if err := s.sweep(ctx, time.Now()); err != nil {
		s.warn(s.steps[0], "checkpoints of older configs could not be removed: "+err.Error())
	}
	if !p.begun || !s.settings.Resume || s.beginsAnew(p) {
		if err := s.seek(ctx, p); err != nil {
			return nil, err
		}
		s.former = p.states
		if p.begun || p.run == "" || !s.settings.Resume || !s.goesOn(p) { // else nothing was durable, but pages may be kept
			err = s.dropPages()
		}
		return &past{}, errors.Join(err, s.forget())
	}
	if !s.goesOn(p) || s.restarts(p) {
		p.done = nil
	}
	s.bags, s.resumes = p.bags, p.keys > 0
	if err := s.resumePrints(p); err != nil {
		return nil, fmt.Errorf("footprints: %w", err)
	}
	for _, n := range s.graph.nodes {
		n.own = p.first == s.call.Execution && !p.others
	}
	if p.complete {
		p.cursors = nil
		if err := s.seek(ctx, p); err != nil {
			return nil, err
		}
		if p.done, err = s.faultless(p.done); err != nil {
			return nil, err
		}
		if err := s.dropPages(); err != nil { // before: they are of the run that was
			return nil, fmt.Errorf("kept pages: %w", err)
		}
		if err := c.append(block{Begin: true, Open: true, Run: s.call.Execution, Done: p.done}, nil, true); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		return p, errors.Join(s.spool.drop(), os.MkdirAll(s.data, 0o700))
	}
	err = s.spool.resume(p.spool, p.cursors, p.done, func(step string) {
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
	} else if err := c.append(block{Open: true, Run: s.call.Execution, Spool: size}, nil, true); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, r := range s.graph.roots {
		if note, ok := p.cursors[r.index]; ok {
			r.watermark = note
			s.read.Add(note.Read)
		}
	}
	if p.run == s.call.Execution {
		for _, n := range s.graph.nodes {
			n.resumed = n.reached()
		}
	}
	s.steps[0].host.Log(slog.LevelInfo, "the stream continues where it was cut off")
	return p, os.MkdirAll(s.data, 0o700)
}

// resumePrints goes on with the footprints of this execution: those of another one are its own.
func (s *segment) resumePrints(p *past) error {
	if p.run != s.call.Execution {
		p.prints = 0
	}
	err := s.prints.resume(p.prints)
	s.checkpoint.prints = s.prints.size
	return err
}

// later reports whether the unfinished run of a checkpoint is over: then this run rereads the sources and repeats
// failed items instead of resuming.
func (s *segment) later(p *past) bool {
	run, retried := s.call.Execution, s.call.GoesOn
	switch {
	case p.stopped == anyone || p.stopped != "" && p.stopped != run, s.restarts(p):
		return true
	case retried == "":
		return false
	case p.stopped == run: // its next attempt goes on; a restart in place is a first one
		return retried == run && s.call.Attempt == 1
	}
	return p.run == retried && retried != run && p.spool > 0
}

// restarts reports whether the whole step is restarted in place after a failure: the attempt after a failed one is a first one.
func (s *segment) restarts(p *past) bool {
	return s.call.GoesOn == "" && s.call.Attempt == 1 && p.stopped != "" && p.run == s.call.Execution
}

// beginsAnew reports whether this run ignores a checkpoint. Within the same execution a sink that appends keeps its progress,
// or it would write items twice.
func (s *segment) beginsAnew(p *past) bool {
	if !s.replaces || s.adds && p.run == s.call.Execution {
		return false
	}
	return !s.goesOn(p) || s.restarts(p)
}

// goesOn reports whether this run resumes or retries the checkpoint's run (semantics §8, Writing).
func (s *segment) goesOn(p *past) bool {
	if p.ended { // the same execution: its end was not kept, or the step is restarted; both read everything again
		return p.run != "" && p.run == s.call.GoesOn
	}
	return p.run == "" || p.run == s.call.Execution || p.run == s.call.GoesOn
}

// forget begins anew, with everything of before gone but the kept pages.
func (s *segment) forget() error {
	s.bags, s.resumes = nil, false
	for _, r := range s.graph.roots {
		r.watermark, r.changed = cursorNote{}, false
	}
	s.read.Store(0)
	for _, n := range s.graph.nodes {
		n.counts.failed.Store(0)
	}
	spool := &spool{path: s.base + spoolSuffix, live: s.resultBase() + liveSuffix}
	s.checkpoint.prints = 0
	err := errors.Join(s.spool.close(), s.checkpoint.reset(), spool.drop(), s.prints.drop(), os.RemoveAll(s.data), os.MkdirAll(s.data, 0o700))
	s.spool = spool
	return err
}

// open makes the components: sinks last, as they may change something outside. A component that cannot be made ends its
// branch. The error is that of a step that ends the segment: with all branches, or because its output is gone.
func (s *segment) open(ctx context.Context, p *past) (*node, error) {
	for i, n := range slices.Repeat(s.graph.nodes, 2) { // sinks in the second round
		if (n.role() == spec.Sink) != (i >= len(s.graph.nodes)) || !n.works() {
			continue
		}
		err := s.openOne(ctx, n, p)
		switch {
		case err == nil || s.empty(n, err):
			continue
		case ctx.Err() != nil, errors.Is(err, ErrStateGone) && p.begun:
			return n, err
		}
		if s.lose(n, err); s.cause != nil {
			return n, err
		}
	}
	return nil, nil
}

func (s *segment) openOne(ctx context.Context, n *node, p *past) (err error) {
	defer s.rescue(n, &err)
	data := filepath.Join(s.data, fileName(n.step.ID))
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	n.env = s.env(n, data)
	if n.root != nil {
		cursor, err := s.keepPages(n, p.cursors[n.root.index])
		if err != nil {
			return err
		}
		if n.env.Cursor, err = s.opened(cursor); err != nil {
			return err
		}
	}
	if n.leaf != nil {
		n.leaf.state = p.states[n.end]
		if n.role() == spec.Sink {
			if n.env.State, err = s.opened(n.leaf.state); err != nil {
				return err
			}
			if n.env.Past, err = s.opened(s.former[n.end]); err != nil {
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
	if r, ok := component.(Remote); n.pages != nil && (!ok || !r.Remote()) {
		n.pages = nil
	}
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
		Step: n.step.ID, Workflow: s.params.Workflow, Run: s.call.Execution, Dir: s.call.Dir, Collection: s.params.Collection, Data: data, Started: s.started(n),
		Log: func(level slog.Level, message string, attrs ...slog.Attr) {
			if level >= n.level {
				n.host.Log(level, message, attrs...)
			}
		},
		Fail:   func(f Failure) error { return s.record(n, f, at{}) },
		Refuse: func(it *Item, cause error) error { return s.refuse(n, it, cause) },
		Claim:  func(path string, share bool) error { return s.claim(n, path, share) },
		Tally:  n.behind,
		Shared: filepath.Join(s.runs, "collections"),
		Hand:   s.hand(),
		Tell:   func(ctx context.Context, c *Item) error { return s.tellCollection(ctx, n, c) },
		Wants:  func() bool { return s.wants(n) },
		Eval:   n.host.Eval,
		Scope:  n.host.Scope(),
	}
}

// started is when the execution began, as its templates see it.
func (s *segment) started(n *node) time.Time {
	if v, err := n.host.Eval("{{ execution.started_at }}", nil); err == nil {
		text, _ := v.(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at
		}
	}
	return s.began
}
