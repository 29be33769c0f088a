package feed

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
)

// Latest as since begins a subscription at the present end.
const Latest = "latest"

// readTime bounds one read of the store that several may wait for.
const readTime = 30 * time.Second

// Filter selects messages. Zero fields select all; snapshot and complete always come.
type Filter struct {
	Level  string // of log lines, at least: debug, info, warning, error
	StepID string // log lines, statuses and progress of this step only
}

// Subscription is one follower of an execution. It is for one goroutine; Close it.
type Subscription struct {
	hub    *Hub
	topic  *topic
	level  int8
	step   string
	since  Cursor // the client's last message
	at     Cursor
	noted  uint64
	first  *Message // the snapshot
	over   bool
	closed bool
}

// Subscribe follows an execution, also an ended one: after the message with seq since, with "" from the beginning,
// with Latest from now on. The id may be a unique prefix. Errors: CodeNotFound and CodeConflict as with store.Reader,
// CodeInvalid for a malformed filter or place, CodeLimit for too many subscribers.
func (h *Hub) Subscribe(ctx context.Context, execution, since string, f Filter) (*Subscription, error) {
	s := &Subscription{hub: h, step: f.StepID}
	if f.Level != "" {
		if s.level = int8(slices.Index(levels, f.Level)); s.level < 0 {
			return nil, stepwell.Invalid("use debug, info, warning or error", "log level %.40q", f.Level)
		}
	}
	var err error
	if since != "" && since != Latest {
		if s.since, err = ParseCursor(since); err != nil {
			return nil, err
		}
	}
	x, err := h.o.Store.Execution(ctx, execution)
	if err != nil {
		return nil, err
	}
	if s.topic, err = h.join(x.No, x.ID); err != nil {
		return nil, err
	}
	s.topic.followPeers()
	if err = s.topic.prime(ctx, x); err == nil {
		err = s.openAt(ctx, since == Latest)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// join finds or makes the topic of an execution.
func (h *Hub) join(no int64, id string) (*topic, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.enter(); err != nil {
		return nil, err
	}
	t := h.topics[no]
	if t == nil {
		t = &topic{hub: h, no: no, id: id, changed: make(chan struct{}), names: map[int32]string{}, notes: notes{steps: map[int32]*note{}}}
		h.topics[no] = t
	}
	t.refs++
	return t, nil
}

// Close ends the subscription; once more changes nothing.
func (s *Subscription) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.hub.mu.Lock()
	s.hub.subscriptions--
	s.topic.refs--
	last := s.topic.refs == 0
	if last {
		delete(s.hub.topics, s.topic.no)
	}
	s.hub.mu.Unlock()
	if last && s.topic.unfollow != nil {
		s.topic.unfollow()
	}
}

// openAt finds the place to go on from, and makes the snapshot.
func (s *Subscription) openAt(ctx context.Context, latest bool) error {
	data, at, err := s.topic.loadSnapshot(ctx)
	if err != nil {
		return err
	}
	s.topic.mu.Lock()
	head := s.topic.head
	s.topic.mu.Unlock()
	if latest {
		s.since = at
	}
	if s.since.Version > head.Version {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the place %s is ahead of the execution", s.since),
			Hint: "it belongs to another execution, or to a database that is no longer in use; begin without since"}
	}
	s.since.Log = min(s.since.Log, head.Log) // lines may have been removed since
	s.at = s.since
	s.at.Ended = false
	m := enclose(TypeSnapshot, s.since, data)
	s.first = &m
	return nil
}

// Cursor is the place up to which Next has given everything.
func (s *Subscription) Cursor() Cursor { return s.at }

// Done reports whether the client has got everything before, the complete message included.
func (s *Subscription) Done() bool {
	s.topic.mu.Lock()
	defer s.topic.mu.Unlock()
	return s.since.Ended && s.topic.ended != nil && s.topic.head == s.at
}

// Next waits for messages and gives at least one. They must not be changed. After the complete message it
// is io.EOF; CodeUnavailable when the hub has stopped, CodeNotFound when the execution has been removed.
func (s *Subscription) Next(ctx context.Context) ([]Message, error) {
	if m := s.first; m != nil {
		s.first = nil
		return []Message{*m}, nil
	}
	for !s.over {
		messages, wait, err := s.nextPage(ctx)
		if err != nil || len(messages) > 0 {
			return messages, err
		}
		if wait == nil {
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.hub.stop:
			return nil, stepwell.Errorf(stepwell.CodeUnavailable, "connect again, with the seq of the last message as since", "the server stops")
		}
	}
	return nil, io.EOF
}

// nextPage returns messages, or a channel to wait for.
func (s *Subscription) nextPage(ctx context.Context) ([]Message, <-chan struct{}, error) {
	t := s.topic
	t.mu.Lock()
	head := t.head
	if t.gone != nil {
		defer t.mu.Unlock()
		return nil, nil, t.gone
	}
	if s.at == head {
		defer t.mu.Unlock()
		if t.ended != nil {
			s.at, s.over = t.ended.Cursor, true
			return []Message{*t.ended}, nil, nil
		}
		notes := s.pick(t.since(s.noted))
		s.noted = t.notes.shown
		return notes, t.changed, nil
	}
	if s.at.reaches(head) { // a page of a topic that went before this one led further: this one will get there
		defer t.mu.Unlock()
		return nil, t.changed, nil
	}
	t.mu.Unlock()
	p, err := s.hub.pages.get(ctx, place{t.no, s.at}, func() ([]*page, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime) // others may wait for it
		defer cancel()
		span, err := s.hub.read(ctx, t.no, s.at, &head, dirty{events: true, lines: true})
		if err != nil {
			return nil, err
		}
		pages, _ := span.merge(t.standing())
		return pages, nil
	})
	if err != nil || p == nil {
		return nil, nil, err
	}
	s.at = p.end
	return s.pick(p.messages), nil, nil
}

// pick returns the messages that match the filter.
func (s *Subscription) pick(messages []Message) []Message {
	if s.level == 0 && s.step == "" {
		return messages
	}
	out := make([]Message, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		if m.Type == TypeLog && m.level < s.level || s.step != "" && m.step != s.step && (m.step != "" || m.Type == TypeLog) {
			continue
		}
		out = append(out, *m)
	}
	return out
}
