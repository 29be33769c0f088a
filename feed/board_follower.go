package feed

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// BoardFollower is a client. It is for one goroutine; Close it.
type BoardFollower struct {
	board  *Board
	at     uint64
	begun  bool
	behind bool // its place is not known any more
	closed bool
}

// Follow follows the lists: after the message since, or with "" from now on. The first message is hello, with
// resumed: whether the messages after since follow; if not, the lists are to be read. CodeLimit for too many followers.
func (b *Board) Follow(since string) (*BoardFollower, error) {
	b.hub.mu.Lock()
	err := b.hub.enter()
	b.hub.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followers++; b.followers == 1 {
		b.primed = len(b.lists) == 0
		select {
		case b.first <- struct{}{}:
		default:
		}
	}
	f := &BoardFollower{board: b, at: b.last, behind: true}
	if epoch, no, ok := strings.Cut(since, "."); ok && epoch == b.epoch {
		if n, err := strconv.ParseUint(no, 10, 64); err == nil && n <= b.last && b.has(n) {
			f.at, f.behind = n, false
		}
	}
	return f, nil
}

// has reports whether all messages after one are in the ring.
func (b *Board) has(no uint64) bool { return no == b.last || len(b.ring) > 0 && no+1 >= b.ring[0].no }

// Next waits for messages and returns them as server-sent events, at most 64 KiB or one. io.EOF when the hub has stopped.
func (f *BoardFollower) Next(ctx context.Context, hello func(resumed bool) any) ([]byte, error) {
	for {
		out, changed := f.take(hello)
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-changed:
		case <-f.board.hub.stop:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *BoardFollower) take(hello func(resumed bool) any) (out []byte, changed <-chan struct{}) {
	b := f.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.primed {
		return nil, b.changed
	}
	if f.begun && !b.has(f.at) {
		f.begun, f.behind, f.at = false, true, b.last
	}
	if !f.begun {
		f.begun = true
		out = b.frame("hello", f.at, hello(!f.behind))
	}
	for i := range b.ring {
		m := &b.ring[i]
		if m.no <= f.at {
			continue
		}
		if len(out) > 0 && len(out)+len(m.frame) > 64<<10 {
			break
		}
		out = append(out, m.frame...)
		f.at = m.no
	}
	return out, b.changed
}

// Close ends it.
func (f *BoardFollower) Close() {
	if f.closed {
		return
	}
	f.closed = true
	f.board.mu.Lock()
	if f.board.followers--; f.board.followers == 0 {
		f.board.dirty, f.board.over = map[string]store.Execution{}, false
	}
	f.board.mu.Unlock()
	f.board.hub.mu.Lock()
	f.board.hub.subscriptions--
	f.board.hub.mu.Unlock()
}

// enter counts a subscription, if there may be one more; mu is held.
func (h *Hub) enter() error {
	if h.subscriptions >= h.o.MaxSubscriptions {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d streams are open already", h.subscriptions),
			Hint: "close streams that are not needed, or try again later"}
	}
	h.subscriptions++
	return nil
}
