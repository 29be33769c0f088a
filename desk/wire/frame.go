package wire

import (
	"bytes"
	"context"

	"github.com/coder/websocket"
)

// maxSpare is how much memory a Frame keeps, in bytes: that of a burst is freed.
const maxSpare = 1 << 20

// Frame is the memory of the messages of a stream that are read one after the other.
type Frame struct{ buf bytes.Buffer }

// Read reads a message, which lasts until the next call.
func (f *Frame) Read(ctx context.Context, conn *websocket.Conn) (websocket.MessageType, []byte, error) {
	if f.buf.Reset(); f.buf.Cap() > maxSpare {
		f.buf = bytes.Buffer{}
	}
	kind, r, err := conn.Reader(ctx)
	if err == nil {
		_, err = f.buf.ReadFrom(r)
	}
	return kind, f.buf.Bytes(), err
}
