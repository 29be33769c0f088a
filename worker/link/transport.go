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
	call(ctx context.Context, name string, in any) ([]byte, error)
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

func (t *turns) call(ctx context.Context, name string, in any) ([]byte, error) {
	body, err := encode(in)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, callTimeout)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+wire.Path+name, bytes.NewReader(body))
	if err != nil {
		return nil, errGone{err}
	}
	req.Header = t.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, errGone{err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, errGone{err}
	}
	return answered(resp.StatusCode, raw)
}

// socketClient makes calls over a socket of this machine.
func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// encode makes the JSON of a call. CodeInvalid, CodeLimit.
func encode(in any) ([]byte, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, stepwell.Invalid("", "%v", err)
	}
	if len(raw) > wire.MaxBody {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "a call is at most %d MiB", wire.MaxBody>>20)
	}
	return raw, nil
}

// answered tells answers from problems.
func answered(status int, raw []byte) ([]byte, error) {
	if status == http.StatusOK {
		return raw, nil
	}
	var p wire.Problem
	if json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return nil, errGone{stepwell.Errorf(stepwell.CodeUnavailable, "", "it answers with status %d", status)}
	}
	return nil, stepwell.Errorf(p.Code, p.Hint, "%s", p.Message)
}

// stream are calls over a WebSocket.
type stream struct {
	conn *websocket.Conn
	mu   sync.Mutex
	no   int64
	open map[int64]chan wire.Response // calls without an answer
	gone chan struct{}
	read sync.WaitGroup
}

// dial connects a stream.
func dial(ctx context.Context, base string, client *http.Client, header http.Header) (*stream, error) {
	ctx, end := context.WithTimeout(ctx, 10*time.Second)
	defer end()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(base, "http")+wire.Path+"stream",
		&websocket.DialOptions{HTTPClient: client, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, errGone{err}
	}
	conn.SetReadLimit(maxAnswer)
	s := &stream{conn: conn, open: map[int64]chan wire.Response{}, gone: make(chan struct{})}
	s.read.Go(s.listen)
	return s, nil
}

// listen hands answers to their calls until the connection is gone.
func (s *stream) listen() {
	defer close(s.gone)
	var frame wire.Frame
	for {
		_, raw, err := frame.Read(context.Background(), s.conn)
		var r wire.Response
		if err != nil || json.Unmarshal(raw, &r) != nil {
			_ = s.conn.CloseNow()
			return
		}
		s.mu.Lock()
		ch := s.open[r.No]
		delete(s.open, r.No)
		s.mu.Unlock()
		if ch != nil {
			ch <- r
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

func (s *stream) call(ctx context.Context, name string, in any) ([]byte, error) {
	ctx, end := context.WithTimeout(ctx, callTimeout)
	defer end()
	ch := make(chan wire.Response, 1)
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
	raw, err := encode(request{no, name, in})
	if err != nil {
		return nil, err
	}
	// The write outlives the call: to end a write half way ends the connection, and with it the other calls.
	writing, endWrite := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer endWrite()
	if err := s.conn.Write(writing, websocket.MessageText, raw); err != nil {
		return nil, errGone{err}
	}
	select {
	case r := <-ch:
		return answered(r.Status, r.Body)
	case <-s.gone:
		return nil, errGone{errEnded}
	case <-ctx.Done():
		return nil, errGone{context.Cause(ctx)}
	}
}
