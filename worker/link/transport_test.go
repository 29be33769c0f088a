package link

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/desk/wire"
)

// Messages of all sizes around those of the pieces in which they are written arrive as a whole, and at once: each is answered before the
// next is sent.
func TestPieces(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		conn.SetReadLimit(wire.MaxBody)
		for {
			_, f, err := wire.ReadFrame(context.Background(), conn)
			if err != nil {
				return
			}
			in, err := f.Request()
			if err != nil {
				t.Error(err)
			}
			raw, err := wire.Encode(response{in.No, http.StatusOK, len(in.Body)})
			if err != nil || conn.Write(context.Background(), websocket.MessageText, raw.Bytes()) != nil {
				return
			}
		}
	}))
	defer s.Close()
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	stream, err := dial(ctx, s.URL, &http.Client{Transport: &http.Transport{}}, http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.close()
	try := func(size int) {
		var got int
		if err := stream.call(ctx, "turn", strings.Repeat("x", size), &got); err != nil || got != size+len(`""`) {
			t.Fatalf("of %d bytes %d have arrived: %v", size, got, err)
		}
	}
	for _, pieces := range []int{0, 1, 2, outPiece / piece, 2*outPiece/piece + 1} {
		for near := -60; near < 10; near++ { // the frame's head and the request's are part of a piece
			try(max(0, pieces*piece+near))
		}
	}
	try(1 << 20)
}

// response is wire.Response with any body.
type response struct {
	No     int64 `json:"no"`
	Status int   `json:"status"`
	Body   any   `json:"body"`
}

// A turn with a few outcomes asks for the slots that they have left, only while another turn waits for tasks.
func TestAskAlong(t *testing.T) {
	for _, x := range []struct {
		about                        string
		held, kept, coming, outcomes int
		want                         int
	}{
		{"the only step has ended, a turn waits for the other slots", 1, 1, 3, 1, 1},
		{"no turn waits: one that fetches asks", 1, 1, 0, 1, 0},
		{"all slots are asked for", 1, 1, 4, 1, 0},
		{"others still run", 3, 1, 1, 1, 1},
		{"no slot is free", 5, 1, 1, 1, 0},
		{"two ended", 2, 2, 1, 2, 2},
		{"many ended", 8, 8, 1, maxAlong + 1, 0},
	} {
		w := &Worker{o: Options{Concurrency: 4}, members: newMembers(), conn: &turns{}, held: map[taskID]*task{}, outbox: x.kept, coming: x.coming}
		for i := range x.held {
			w.held[taskID{1, int32(i), 1}] = &task{}
		}
		if got := w.askAlong(x.outcomes); got != x.want || w.coming != x.coming+x.want || w.along != x.want {
			t.Errorf("%s: it asks for %d instead of %d, %d come, %d along", x.about, got, x.want, w.coming, w.along)
		}
		if w.came(x.want, x.want, nil); w.coming != x.coming || w.along != 0 {
			t.Errorf("%s: %d come after it, %d along", x.about, w.coming, w.along)
		}
	}
	w := &Worker{o: Options{Concurrency: 4}, members: newMembers(), conn: &turns{}, coming: 1, along: 1}
	if got := w.askAlong(1); got != 0 {
		t.Errorf("where only another turn with outcomes asks, it asks for %d", got)
	}
}
