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
