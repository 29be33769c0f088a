package feed

import (
	"context"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// A page ends at either limit; a read of the store takes about so many of each kind.
const (
	pageMessages = 256
	pageBytes    = 128 << 10
	readLimit    = 512
)

// page is a stretch of the stream: its messages lead from start to end.
type page struct {
	start, end Cursor
	messages   []Message
	bytes      int
}

// overhead is the memory of a message or a page besides its frame.
const overhead = 160

// span is the result of one read of the store.
type span struct {
	at         Cursor
	events     []engine.HistoryEvent // whole versions, sent ones included
	lines      []store.LogLine
	moreEvents bool // there may be more behind events
	moreLines  bool
	bound      *Cursor
}

// read reads the stretch after a place, up to a bound or, without one, to the present end.
func (h *Hub) read(ctx context.Context, no int64, at Cursor, bound *Cursor, what dirty) (s span, err error) {
	if err := h.reads.Acquire(ctx, 1); err != nil {
		return s, err
	}
	defer h.reads.Release(1)
	s.at = at
	if what.events && (bound == nil || at.Within > 0 || at.Version < bound.Version) {
		if s.events, err = h.o.Store.Events(ctx, no, at.after(), readLimit); err != nil {
			return s, err
		}
		s.moreEvents = len(s.events) >= readLimit
	}
	if what.lines && (bound == nil || at.Log < bound.Log) {
		if s.lines, err = h.o.Store.Logs(ctx, no, store.LogFilter{After: at.Log, Limit: readLimit}); err != nil {
			return s, err
		}
		s.moreLines = len(s.lines) == readLimit
	}
	if bound != nil {
		s.cut(bound)
	}
	return s, nil
}

// cut drops the part behind the bound. A read that did not reach the bound may go on.
func (s *span) cut(bound *Cursor) {
	s.bound = bound
	n := len(s.events)
	s.moreEvents = n > 0 && s.events[n-1].Version < bound.Version
	for n > 0 && s.events[n-1].Version > bound.Version {
		n--
	}
	s.events = s.events[:n]
	n = len(s.lines)
	s.moreLines = s.moreLines && s.lines[n-1].Seq < bound.Log
	for n > 0 && s.lines[n-1].Seq > bound.Log {
		n--
	}
	s.lines = s.lines[:n]
}

// merger puts events and lines into one order: each kind in its own, between them that of time.
type merger struct {
	span
	progress *estimate.Progress
	now      Cursor
	i, j, n  int // next event, next line, events of the current version
	pages    []*page
	page     *page
}

// merge makes pages of a span. The place at its end is never within a version.
func (s span) merge(progress *estimate.Progress) ([]*page, Cursor) {
	m := &merger{span: s, progress: progress, now: s.at, page: &page{start: s.at}}
	m.now.Ended = false
	if s.at.Within > 0 { // sent before
		for m.i < len(s.events) && m.n < s.at.Within && s.events[m.i].Version == s.at.Version {
			m.i++
			m.n++
		}
		if m.i == len(s.events) || s.events[m.i].Version != s.at.Version {
			m.now.Within, m.n = 0, 0
		}
	}
	for m.step() {
		if len(m.page.messages) >= pageMessages || m.page.bytes >= pageBytes {
			m.close()
		}
	}
	m.reach()
	if len(m.page.messages) > 0 || m.page.start != m.now {
		m.close()
	}
	return m.pages, m.now
}

// reach moves to the bound, never back: nothing before it makes a message.
func (m *merger) reach() {
	if m.bound == nil {
		return
	}
	if m.i == len(m.events) && !m.moreEvents && m.now.Version <= m.bound.Version {
		m.now.Version, m.now.Within = m.bound.Version, m.bound.Within
	}
	if m.j == len(m.lines) && !m.moreLines {
		m.now.Log = max(m.now.Log, m.bound.Log)
	}
}

func (m *merger) close() {
	m.page.end = m.now
	m.pages = append(m.pages, m.page)
	m.page = &page{start: m.now}
}

// step takes the next event or line.
func (m *merger) step() bool {
	events, lines := m.i < len(m.events), m.j < len(m.lines)
	switch {
	case !events && m.moreEvents, !lines && m.moreLines && m.now.Within == 0, !events && !lines:
		return false
	case !lines, events && m.events[m.i].At.Before(m.lines[m.j].At):
		m.event()
	default:
		m.line()
	}
	return true
}

func (m *merger) event() {
	e := &m.events[m.i]
	m.i++
	if e.Version != m.now.Version || m.now.Within == 0 {
		m.n = 0
	}
	m.n++
	m.now.Version, m.now.Within = e.Version, m.n
	if m.i == len(m.events) || m.events[m.i].Version != e.Version {
		m.now.Within = 0
	}
	if msg, ok := statusMessage(e, m.now, m.progress); ok {
		m.add(msg)
	}
}

func (m *merger) line() {
	l := &m.lines[m.j]
	m.j++
	m.now.Log = l.Seq
	m.add(logMessage(l, m.now))
}

func (m *merger) add(msg Message) {
	m.page.messages = append(m.page.messages, msg)
	m.page.bytes += len(msg.Frame) + overhead
}
