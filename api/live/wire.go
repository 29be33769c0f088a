package live

import (
	"bufio"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"
)

// Limits of a client's messages on an open stream, in bytes: pongs and its closure need a few.
const (
	readBurst = 4 << 10
	readRate  = 64 // per second
)

// corkBytes is how much is collected before it is sent. It is more than a page of usual messages, since one
// packet is a hundred times cheaper than one for each message.
const corkBytes = 32 << 10

var errFlood = errors.New("the client sends too much")

// upgrade gives the WebSocket the connection as a wire.
type upgrade struct {
	http.ResponseWriter
	timeout time.Duration
	wire    *wire
}

// Hijack implements http.Hijacker.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.wire = &wire{Conn: conn, timeout: u.timeout, limit: rate.NewLimiter(readRate, readBurst)}
	if err := conn.SetDeadline(time.Time{}); err != nil { // those of the server are for requests
		return nil, nil, errors.Join(err, conn.Close())
	}
	return u.wire, bufio.NewReadWriter(brw.Reader, bufio.NewWriterSize(u.wire, 4<<10)), nil
}

// wire is a connection that collects small writes while it is corked, gives every write a deadline, and
// takes little from the other side.
type wire struct {
	net.Conn
	timeout time.Duration
	limit   *rate.Limiter // used by the reading goroutine

	mu     sync.Mutex
	corked bool
	buf    *[]byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, corkBytes); return &b }}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err == nil && !w.limit.AllowN(time.Now(), n) {
		return 0, errFlood
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.put(p)
}

// deflated writes a frame of RFC 6455 which is a whole message of permessage-deflate, between those of the library, which would compress
// it for each client anew.
func (w *wire) deflated(kind websocket.MessageType, payload []byte) error {
	const final, deflated = 0x80, 0x40
	head := append(make([]byte, 0, 10), final|deflated|byte(kind))
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n <= math.MaxUint16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.put(head); err != nil {
		return err
	}
	_, err := w.put(payload)
	return err
}

// put is Write. The caller holds w.mu.
func (w *wire) put(p []byte) (int, error) {
	if w.corked && len(*w.buf)+len(p) <= corkBytes {
		*w.buf = append(*w.buf, p...)
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.write(p)
}

func (w *wire) write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// flush sends the buffer.
func (w *wire) flush() error {
	if w.buf == nil || len(*w.buf) == 0 {
		return nil
	}
	_, err := w.write(*w.buf)
	*w.buf = (*w.buf)[:0]
	return err
}

func (w *wire) cork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corked, w.buf = true, buffers.Get().(*[]byte)
}

// uncork sends the buffer. Writes are sent at once then.
func (w *wire) uncork() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.flush()
	buffers.Put(w.buf)
	w.corked, w.buf = false, nil
	return err
}
