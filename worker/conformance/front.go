package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
)

// hook serves a call in the desk's place; next is the desk. Status 0 ends the connection without an answer.
type hook func(call string, body []byte, next func() (int, []byte)) (int, []byte)

// front stands between the worker and the desk: it knows the API key, writes down what is said, and disturbs it. The same for
// HTTP turns and for streams.
type front struct {
	r       *rig
	url     string
	server  *http.Server
	serving sync.WaitGroup
	down    atomic.Bool // connections end at once
	unknown atomic.Bool // answers have members that the protocol does not know

	mu       sync.Mutex
	hook     hook
	wrong    []string // calls that no worker should make
	joins    []wire.Join
	calls    int
	leaving  int
	tasks    []wire.ID
	given    map[wire.ID]int // tasks handed out
	listed   map[wire.ID]int // turns that list an attempt as held
	outcomes map[wire.ID]int // turns that offer an outcome
	last     map[wire.ID]wire.Outcome
	streams  map[*websocket.Conn]bool
}

func newFront(r *rig) (*front, error) {
	f := &front{r: r, given: map[wire.ID]int{}, listed: map[wire.ID]int{}, outcomes: map[wire.ID]int{}, last: map[wire.ID]wire.Outcome{}, streams: map[*websocket.Conn]bool{}}
	network, address := "tcp", "127.0.0.1:0"
	if r.o.Socket {
		network, address = "unix", filepath.Join(r.dir, "socket")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	if f.url = "http://" + l.Addr().String(); r.o.Socket {
		f.url = "unix://" + address
	}
	f.server = &http.Server{Handler: http.HandlerFunc(f.serve)} //nolint:gosec // loopback only, for the length of a check
	f.serving.Go(func() { _ = f.server.Serve(l) })
	return f, nil
}

func (f *front) close() {
	f.cut()
	_ = f.server.Close()
	f.serving.Wait()
}

// cut ends all connections, as the death of a node does, and those that come later.
func (f *front) cut() {
	f.down.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.streams {
		go conn.CloseNow() //nolint:errcheck // it is cut
	}
}

// setHook sets what serves calls in the desk's place; nil: nothing.
func (f *front) setHook(h hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

func (f *front) forgetWrong() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.wrong
	f.wrong = nil
	return list
}

// count reads a counter.
func (f *front) count(of map[wire.ID]int, id wire.ID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return of[id]
}

// lastTask is the task of an execution that was handed out last.
func (f *front) lastTask(execution string) (id wire.ID, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tasks {
		if strings.HasPrefix(t.StepID, execution+":") {
			id, ok = t, true
		}
	}
	return id, ok
}

func (f *front) serve(w http.ResponseWriter, r *http.Request) {
	if f.down.Load() {
		hangUp(w)
		return
	}
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), wire.Path)
	status, answer := http.StatusNotFound, []byte(`{"code":"not_found","message":"there is no such call","hint":""}`)
	switch {
	case !ok:
		f.accuse("%s %s is not a call of the protocol", r.Method, stepwell.Head(r.URL.Path, 100))
	case r.Header.Get("Authorization") != "Bearer "+f.r.key:
		f.accuse("%s came without \"Authorization: Bearer\" and the API key of STEPWELL_API_KEY", name)
		status, answer = problem(http.StatusUnauthorized, stepwell.CodeUnauthenticated, "an API key is needed")
	case name == "stream" && r.Method == http.MethodGet:
		f.stream(w, r)
		return
	default:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody+1))
		if err != nil {
			hangUp(w)
			return
		}
		status, answer = f.call(r.Context(), name, r.Header, body)
	}
	if status == 0 || f.down.Load() {
		hangUp(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // nothing to be done about a worker that is gone
}

// hangUp ends a connection without an answer.
func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func problem(status int, code stepwell.Code, message string) (int, []byte) {
	raw, err := json.Marshal(wire.Problem{Code: code, Message: message})
	if err != nil {
		return http.StatusInternalServerError, nil
	}
	return status, raw
}

// accuse writes down something that no worker should do.
func (f *front) accuse(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wrong) < 10 && !slices.Contains(f.wrong, what) {
		f.wrong = append(f.wrong, what)
	}
}

// stream serves the calls of a WebSocket.
func (f *front) stream(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // the client has been told
	}
	f.mu.Lock()
	f.streams[conn] = true
	f.mu.Unlock()
	conn.SetReadLimit(wire.MaxBody + 1)
	ctx, end := context.WithCancel(r.Context())
	var calls sync.WaitGroup
	defer func() {
		end()
		_ = conn.CloseNow()
		calls.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, conn)
	}()
	for !f.down.Load() {
		_, raw, err := conn.Read(ctx)
		var in wire.Request
		if err != nil || json.Unmarshal(raw, &in) != nil {
			return
		}
		calls.Go(func() {
			status, answer := f.call(ctx, in.Call, http.Header{"Content-Type": {"application/json"}}, in.Body)
			if raw, err := json.Marshal(wire.Response{No: in.No, Status: status, Body: answer}); err == nil && status != 0 && !f.down.Load() {
				_ = conn.Write(ctx, websocket.MessageText, raw) // nothing to be done about a worker that is gone
				return
			}
			_ = conn.CloseNow()
		})
	}
}

// call serves one call.
func (f *front) call(ctx context.Context, name string, header http.Header, body []byte) (int, []byte) {
	f.hear(name, body)
	f.mu.Lock()
	h := f.hook
	f.mu.Unlock()
	if h == nil {
		h = func(_ string, _ []byte, next func() (int, []byte)) (int, []byte) { return next() }
	}
	status, answer := h(name, body, func() (int, []byte) { return f.ask(ctx, name, header, body) })
	if status == http.StatusOK && name == "turn" {
		f.handed(answer)
	}
	if f.unknown.Load() {
		answer = withUnknown(answer)
	}
	return status, answer
}

// ask lets the desk serve a call.
func (f *front) ask(ctx context.Context, name string, header http.Header, body []byte) (int, []byte) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, wire.Path+name, bytes.NewReader(body))
	if err != nil {
		return problem(http.StatusBadRequest, stepwell.CodeInvalid, err.Error())
	}
	r.Header = header
	w := &recorder{header: http.Header{}}
	f.r.currentNode().desk.Handler(func(*http.Request) desk.Caller { return desk.Caller{ID: "conformance", Secure: true} }).ServeHTTP(w, r)
	switch w.status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError:
		f.accuse("%s was answered with %d: %s", name, w.status, stepwell.Head(w.body.String(), 300))
	}
	return w.status, w.body.Bytes()
}

// hear writes down what a worker says.
func (f *front) hear(name string, body []byte) {
	if bytes.Contains(body, []byte(f.r.key)) {
		f.accuse("%s carries the API key in its body", name)
	}
	var turn wire.Turn
	var join wire.Join
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	switch {
	case name == "join" && json.Unmarshal(body, &join) == nil:
		if len(f.joins) < 1000 {
			f.joins = append(f.joins, join)
		}
	case name == "turn" && json.Unmarshal(body, &turn) == nil:
		for _, id := range turn.Holding {
			f.listed[id]++
		}
		for i := range turn.Outcomes {
			f.outcomes[turn.Outcomes[i].ID]++
			f.last[turn.Outcomes[i].ID] = turn.Outcomes[i]
		}
		if turn.Leaving {
			f.leaving++
		}
	}
}

// handed writes down what a worker is told.
func (f *front) handed(answer []byte) {
	var out wire.Turned
	if json.Unmarshal(answer, &out) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range out.Tasks {
		f.given[out.Tasks[i].ID]++
		f.tasks = append(f.tasks, out.Tasks[i].ID)
	}
	for _, x := range out.Refused {
		if x.Code != stepwell.CodeForbidden && len(f.wrong) < 10 {
			f.wrong = append(f.wrong, fmt.Sprintf("an outcome was refused: %s: %s", x.Code, x.Message))
		}
	}
}

// withUnknown adds members that the protocol does not know to an answer and to the documents in it.
func withUnknown(answer []byte) []byte {
	var out map[string]any
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return answer
	}
	out["x_later"] = map[string]any{"version": 2}
	for _, list := range []string{"tasks", "stop", "committed", "refused"} {
		documents, _ := out[list].([]any)
		for _, x := range documents {
			if document, ok := x.(map[string]any); ok {
				document["x_later"] = []any{1, nil}
			}
		}
	}
	if raw, err := json.Marshal(out); err == nil {
		return raw
	}
	return answer
}

// recorder is a ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *recorder) FlushError() error           { return nil }
