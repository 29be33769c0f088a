package desk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	json "github.com/go-json-experiment/json/v1"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
)

// statuses are the HTTP statuses of codes; all others are 500.
var statuses = map[stepwell.Code]int{
	stepwell.CodeInvalid: http.StatusBadRequest, stepwell.CodeUnauthenticated: http.StatusUnauthorized, stepwell.CodeForbidden: http.StatusForbidden,
	stepwell.CodeDenied: http.StatusForbidden, stepwell.CodeNotFound: http.StatusNotFound, stepwell.CodeConflict: http.StatusConflict,
	stepwell.CodeLimit: http.StatusTooManyRequests, stepwell.CodeUnavailable: http.StatusServiceUnavailable,
	stepwell.CodeFailed: http.StatusUnprocessableEntity, stepwell.CodeTimeout: http.StatusServiceUnavailable, stepwell.CodeCancelled: http.StatusServiceUnavailable,
}

const (
	atOnce       = 16               // calls of one stream that are served at once, each by a goroutine that stays
	writeTimeout = 30 * time.Second // of one answer on a stream
)

// Handler serves workers below wire.Path, over HTTP and over streams. Who says who is behind a request; it has been let in
// by then.
func (d *Desk) Handler(who func(*http.Request) Caller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.Path+"stream", func(w http.ResponseWriter, r *http.Request) { d.stream(w, r, who(r)) })
	mux.HandleFunc("POST "+wire.Path, func(w http.ResponseWriter, r *http.Request) { d.request(w, r, who(r)) })
	return mux
}

// request serves one call over HTTP.
func (d *Desk) request(w http.ResponseWriter, r *http.Request, caller Caller) {
	name := strings.TrimPrefix(r.URL.EscapedPath(), wire.Path)
	size := r.ContentLength
	out, err := answered{}, error(nil)
	switch {
	case size < 0:
		err = stepwell.Invalid("send Content-Length", "the length of the body is not said")
	case size > wire.MaxBody:
		err = stepwell.Errorf(stepwell.CodeLimit, "", "a call is at most %d MiB", wire.MaxBody>>20)
	default:
		err = d.bodies.take(size)
	}
	if err == nil {
		out, err = d.answer(w, r, caller, name)
		d.bodies.give(size)
	}
	status, body := http.StatusOK, out.body
	if err != nil {
		var p wire.Problem
		status, p = d.problem(name, err)
		body = p
	}
	raw, err := json.Marshal(body)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	gone := r.Context().Err() != nil // behind the answer, a client that has read it may be gone too
	w.WriteHeader(status)
	if _, err = w.Write(raw); err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if (gone || err != nil) && out.undo != nil {
		out.undo()
	}
}

// answer reads the body of a request and serves it.
func (d *Desk) answer(w http.ResponseWriter, r *http.Request, caller Caller, name string) (answered, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return answered{}, stepwell.Errorf(stepwell.CodeLimit, "", "a call is at most %d MiB", wire.MaxBody>>20)
	}
	if err != nil {
		return answered{}, stepwell.Invalid("", "the body ended early")
	}
	return d.serve(r.Context(), caller, name, body)
}

// link is one stream.
type link struct {
	d       *Desk
	conn    *websocket.Conn
	caller  Caller
	calls   sync.WaitGroup
	servers int // goroutines that serve calls; run's
	work    chan call
}

// call is a request in its frame of size bytes.
type call struct {
	wire.Request
	frame wire.Frame
	size  int64
}

// stream serves the calls of one connection until it ends. That ends no lease.
func (d *Desk) stream(w http.ResponseWriter, r *http.Request, caller Caller) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // the client has been told
	}
	conn.SetReadLimit(wire.MaxBody)
	ctx, end := context.WithCancel(r.Context())
	defer context.AfterFunc(d.serving, end)()
	l := &link{d: d, conn: conn, caller: caller, work: make(chan call)}
	why := l.run(ctx)
	end()
	_ = conn.Close(websocket.StatusPolicyViolation, stepwell.Head(why, 100)) // nothing to be done about a worker that is gone
	l.calls.Wait()
	_ = conn.CloseNow()
}

// notOurs ends a stream.
const notOurs = "not a request of this protocol"

// run reads requests; why it ends goes to the worker.
func (l *link) run(ctx context.Context) (why string) {
	for {
		kind, frame, err := wire.ReadFrame(ctx, l.conn)
		if err != nil {
			return "the stream ended"
		}
		in := call{frame: frame, size: int64(frame.Len())}
		if kind == websocket.MessageText {
			in.Request, err = frame.Request()
		}
		if kind != websocket.MessageText || err != nil {
			return notOurs
		}
		if err := l.d.bodies.take(in.size); err != nil {
			l.write(ctx, &in, answered{}, err)
			continue
		}
		if !l.deal(ctx, in) {
			l.d.bodies.give(in.size)
			return "the stream ended"
		}
	}
}

// deal gives a call to a goroutine that has served its last one, or to a new one. It reports false when ctx has ended.
func (l *link) deal(ctx context.Context, in call) bool {
	select {
	case l.work <- in:
		return true
	default:
	}
	if l.servers < atOnce {
		l.servers++
		l.calls.Go(func() { l.serve(ctx, in) })
		return true
	}
	select {
	case l.work <- in:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve serves calls until ctx ends: a goroutine that stays has a stack that is large enough.
func (l *link) serve(ctx context.Context, in call) {
	for {
		out, err := l.d.serve(ctx, l.caller, in.Call, in.Body)
		if err != nil && !wire.Whole(in.Body) {
			if in.frame.Read(&in.Request) != nil {
				_ = l.conn.Close(websocket.StatusPolicyViolation, notOurs) // nothing to be done about a worker that is gone
				l.d.bodies.give(in.size)
				return
			}
			out, err = l.d.serve(ctx, l.caller, in.Call, in.Body)
		}
		in.frame.Free()
		l.d.bodies.give(in.size)
		l.write(ctx, &in, out, err)
		select {
		case in = <-l.work:
		case <-ctx.Done():
			return
		}
	}
}

// response is wire.Response whose body is written together with it.
type response struct {
	No     int64 `json:"no"`
	Status int   `json:"status"`
	Body   any   `json:"body"`
}

// write answers a request.
func (l *link) write(ctx context.Context, in *call, out answered, err error) {
	r := response{No: in.No, Status: http.StatusOK, Body: out.body}
	if err != nil {
		r.Status, r.Body = l.d.problem(in.Call, err)
	}
	raw, err := wire.Encode(r)
	if err == nil {
		ctx, end := context.WithTimeout(ctx, writeTimeout)
		defer end()
		err = l.conn.Write(ctx, websocket.MessageText, raw.Bytes())
		raw.Free()
	}
	if err != nil {
		if out.undo != nil {
			out.undo()
		}
		_ = l.conn.CloseNow() // a worker that does not read
	}
}
