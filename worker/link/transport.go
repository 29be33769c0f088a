package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	json "github.com/go-json-experiment/json/v1"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
)

// transport carries calls to one node. An answer that is no success is a *stepwell.Error; errGone says that the node does
// not answer, so that nobody knows whether the call was served.
type transport interface {
	// call reads the answer into out, unless that is nil.
	call(ctx context.Context, name string, in, out any) error
	close()
}

// errGone says that a node does not answer.
type errGone struct{ err error }

func (e errGone) Error() string { return "the node does not answer: " + e.err.Error() }
func (e errGone) Unwrap() error { return e.err }

// callTimeout is above the longest wait of a turn.
const callTimeout = 2 * wire.MaxWaitMS * time.Millisecond

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 * wire.MaxBody

// turns are calls over HTTP.
type turns struct {
	base   string
	client *http.Client
	header http.Header
}

func (t *turns) close() {}

func (t *turns) call(ctx context.Context, name string, in, out any) error {
	body, err := encode(in)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, callTimeout)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+wire.Path+name, bytes.NewReader(body))
	if err != nil {
		return errGone{err}
	}
	req.Header = t.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return errGone{err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return errGone{err}
	}
	return answered(resp.StatusCode, raw, out)
}

// socketClient makes calls over a socket of this machine.
func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// encode makes the JSON of a call: wire.Encode may still be read when its memory is used again. CodeInvalid, CodeLimit.
func encode(in any) ([]byte, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, stepwell.Invalid("", "%v", err)
	}
	return raw, fits(raw)
}

// fits is CodeLimit for a call that no node takes.
func fits(raw []byte) error {
	if len(raw) > wire.MaxBody {
		return stepwell.Errorf(stepwell.CodeLimit, "", "a call is at most %d MiB", wire.MaxBody>>20)
	}
	return nil
}

// answered reads an answer, or the problem that it is.
func answered(status int, raw []byte, out any) error {
	if status == http.StatusOK {
		if out == nil {
			return nil
		}
		return json.Unmarshal(raw, out)
	}
	var p wire.Problem
	if json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return errGone{stepwell.Errorf(stepwell.CodeUnavailable, "", "it answers with status %d", status)}
	}
	return stepwell.Errorf(p.Code, p.Hint, "%s", p.Message)
}

// stream are calls over a WebSocket.
type stream struct {
	conn *websocket.Conn
	out  *outlet
	mu   sync.Mutex
	no   int64
	open map[int64]chan answer // calls without one
	gone chan struct{}
	read sync.WaitGroup
}

// answer is a response in its frame.
type answer struct {
	wire.Response
	frame wire.Frame
}

// dial connects a stream.
func dial(ctx context.Context, base string, client *http.Client, header http.Header) (*stream, error) {
	ctx, end := context.WithTimeout(ctx, 10*time.Second)
	defer end()
	out := &outlet{base: client.Transport}
	over := *client
	over.Transport = out
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(base, "http")+wire.Path+"stream",
		&websocket.DialOptions{HTTPClient: &over, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, errGone{err}
	}
	conn.SetReadLimit(maxAnswer)
	s := &stream{conn: conn, out: out, open: map[int64]chan answer{}, gone: make(chan struct{})}
	s.read.Go(s.listen)
	return s, nil
}

// Sizes of the pieces in which messages are written, in bytes.
const (
	piece    = 4 << 10  // by the WebSocket
	outPiece = 64 << 10 // to the connection
)

// outlet makes a stream's connection, and gathers what is written to it: a client's message is masked, and so written in pieces of
// 4 KiB, each of which would cost both sides a system call.
type outlet struct {
	base http.RoundTripper
	io.ReadWriteCloser
	mu  sync.Mutex
	buf []byte
}

// RoundTrip implements http.RoundTripper.
func (o *outlet) RoundTrip(r *http.Request) (*http.Response, error) {
	base := o.base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		if conn, ok := resp.Body.(io.ReadWriteCloser); ok {
			o.ReadWriteCloser, resp.Body = conn, o
		}
	}
	return resp, err
}

// Write keeps a whole piece back, as more of its message may follow, until flush.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(p) != piece && len(o.buf) == 0 {
		return o.ReadWriteCloser.Write(p)
	}
	o.buf = append(o.buf, p...)
	if len(p) == piece && len(o.buf) < outPiece {
		return len(p), nil
	}
	return len(p), o.empty()
}

// flush writes what Write has kept back, when the message has ended.
func (o *outlet) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.empty()
}

// empty is flush for a caller that holds the lock.
func (o *outlet) empty() error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.ReadWriteCloser.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// listen hands answers to their calls until the connection is gone.
func (s *stream) listen() {
	defer close(s.gone)
	for {
		_, frame, err := wire.ReadFrame(context.Background(), s.conn)
		a := answer{frame: frame}
		if err == nil {
			a.Response, err = frame.Response()
		}
		if err != nil {
			_ = s.conn.CloseNow()
			return
		}
		s.mu.Lock()
		ch := s.open[a.No]
		delete(s.open, a.No)
		s.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
}

func (s *stream) close() {
	_ = s.conn.CloseNow()
	s.read.Wait()
}

// request is wire.Request whose body is written together with it.
type request struct {
	No   int64  `json:"no"`
	Call string `json:"call"`
	Body any    `json:"body"`
}

var errEnded = errors.New("the stream has ended")

func (s *stream) call(ctx context.Context, name string, in, out any) error {
	ctx, end := context.WithTimeout(ctx, callTimeout)
	defer end()
	ch := make(chan answer, 1)
	s.mu.Lock()
	s.no++
	no := s.no
	s.open[no] = ch
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, no)
	}()
	if err := s.send(ctx, request{no, name, in}); err != nil {
		return err
	}
	select {
	case a := <-ch:
		defer a.frame.Free()
		return s.readAnswer(&a, out)
	case <-s.gone:
		return errGone{errEnded}
	case <-ctx.Done():
		return errGone{context.Cause(ctx)}
	}
}

// send writes a request.
func (s *stream) send(ctx context.Context, in request) error {
	raw, err := wire.Encode(in)
	if err != nil {
		return stepwell.Invalid("", "%v", err)
	}
	defer raw.Free()
	if err := fits(raw.Bytes()); err != nil {
		return err
	}
	// The write outlives the call: to end a write half way ends the connection, and with it the other calls.
	writing, endWrite := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer endWrite()
	if err := s.conn.Write(writing, websocket.MessageText, raw.Bytes()); err != nil {
		return errGone{err}
	}
	if err := s.out.flush(); err != nil {
		return errGone{err}
	}
	return nil
}

// readAnswer reads an answer into out. A frame that is no answer ends the stream.
func (s *stream) readAnswer(a *answer, out any) error {
	err := answered(a.Status, a.Body, out)
	if err == nil || wire.Whole(a.Body) {
		return err
	}
	if err := a.frame.Read(&a.Response); err != nil {
		_ = s.conn.CloseNow()
		return errGone{err}
	}
	return answered(a.Status, a.Body, out)
}
