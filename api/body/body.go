// Package body reads the bodies of requests, in bounded memory and time. Its errors are stepwell.Errors, ErrLarge or ErrLate.
package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// A body arrives at least at this rate, after patience for its start. The timeout of its Memory bounds all of it.
const (
	patience   = 5 * time.Second
	rate       = 1 << 10  // bytes a second
	maxDrained = 32 << 20 // bytes that are read off after an answer that did not need them
)

// Errors of bodies whose HTTP status is not that of another error.
var (
	ErrLarge = errors.New("the body is larger than its limit")
	ErrLate  = errors.New("the body did not come in time")
)

// Memory bounds the memory for request bodies, both those still uploading and those being processed. When it is used
// up, the oldest upload of the caller with the largest uploads is aborted, so a caller who sends many partial bodies
// blocks only itself. It is safe for concurrent use.
type Memory struct {
	most    int64
	timeout time.Duration // of a body

	mu     sync.Mutex
	total  int64
	serial uint64
	coming map[string]*uploads // by caller
}

// uploads are the bodies of one caller that still come.
type uploads struct {
	bytes int64
	list  map[*upload]struct{}
}

// upload is a body of a request.
type upload struct {
	caller  string
	serial  uint64
	bytes   int64
	given   bool // up: its memory is freed already
	control *http.ResponseController
}

// New bounds all bodies together to most bytes, and the time of each to timeout.
func New(most int64, timeout time.Duration) *Memory {
	return &Memory{most: most, timeout: timeout, coming: map[string]*uploads{}}
}

// begin counts a body that will come.
func (b *Memory) begin(caller string, control *http.ResponseController) *upload {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serial++
	u := &upload{caller: caller, serial: b.serial, control: control}
	of := b.coming[caller]
	if of == nil {
		of = &uploads{list: map[*upload]struct{}{}}
		b.coming[caller] = of
	}
	of.list[u] = struct{}{}
	return u
}

// grow makes room for more bytes of a body, and says until when its next bytes have to come. CodeUnavailable: there is no
// room, or the body has been given up.
func (b *Memory) grow(u *upload, more int64, until time.Time) error {
	full := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "too many bytes of requests are under way", Hint: "try again in a moment"}
	b.mu.Lock()
	defer b.mu.Unlock()
	for !u.given && more > 0 && b.total+more > b.most {
		victim := b.slowest()
		if victim == nil {
			return full
		}
		b.release(victim)
		victim.given = true
		_ = victim.control.SetReadDeadline(time.Unix(1, 0)) // ends its wait for bytes
	}
	if u.given {
		return full
	}
	u.bytes += more
	b.total += more
	b.coming[u.caller].bytes += more
	_ = u.control.SetReadDeadline(until) // with the lock held, so that it does not undo a body's being given up
	return nil
}

// slowest is the oldest of the bodies that come, of the caller whose bodies take most. The caller holds the lock.
func (b *Memory) slowest() *upload {
	var most *uploads
	for _, of := range b.coming {
		if most == nil || of.bytes > most.bytes {
			most = of
		}
	}
	if most == nil {
		return nil
	}
	var oldest *upload
	for u := range most.list {
		if oldest == nil || u.serial < oldest.serial {
			oldest = u
		}
	}
	return oldest
}

// arrived marks a body as complete; its bytes count until done.
func (b *Memory) arrived(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.given {
		return
	}
	b.leave(u)
}

func (b *Memory) leave(u *upload) {
	of := b.coming[u.caller]
	if of == nil {
		return
	}
	if _, in := of.list[u]; !in {
		return
	}
	delete(of.list, u)
	if of.bytes -= u.bytes; len(of.list) == 0 {
		delete(b.coming, u.caller)
	}
}

func (b *Memory) release(u *upload) {
	b.leave(u)
	b.total -= u.bytes
	u.bytes = 0
}

// done frees the memory of a body.
func (b *Memory) done(u *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(u)
}

// Receive reads a body of at most limit bytes into memory. done frees it; it is nil when there is no body. A caller who sends
// many bodies at once delays only its own.
func (b *Memory) Receive(w http.ResponseWriter, r *http.Request, limit int64, caller string) (body []byte, done func(), err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil, nil
	}
	if r.ContentLength > limit {
		return nil, nil, ErrLarge
	}
	u := b.begin(caller, http.NewResponseController(w))
	done = func() { b.done(u) }
	body, err = b.read(r, u, limit)
	if err != nil {
		done()
		return nil, nil, err
	}
	b.arrived(u)
	_ = u.control.SetReadDeadline(time.Time{}) // it would end a request that waits
	return body, done, nil
}

// read is the loop that takes a body in as it comes.
func (b *Memory) read(r *http.Request, u *upload, limit int64) ([]byte, error) {
	begun := time.Now()
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength, 64<<10)
	}
	var body []byte
	for {
		more := int64(0)
		if len(body) == cap(body) {
			more = max(size, int64(cap(body)))
		}
		late := min(patience+time.Duration(len(body))*time.Second/rate, b.timeout)
		if err := b.grow(u, more, begun.Add(late)); err != nil {
			return nil, err
		}
		if more > 0 {
			grown := make([]byte, len(body), len(body)+int(more))
			copy(grown, body)
			body = grown
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, ErrLarge
		case err == io.EOF:
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, ErrLate
		case err != nil:
			return nil, stepwell.Invalid("send it again", "the body was cut off")
		}
	}
}

// Serve serves requests so that unread bodies cost little: the answer does not wait for them, a client that is still
// sending gets the answer instead of a reset, and a stalled client is disconnected.
func Serve(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, done := r.Body.(*ending); done || r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex() // or the answer waits for the body, for as long as the client likes
		_ = control.SetReadDeadline(time.Now().Add(patience))
		body := &ending{ReadCloser: r.Body}
		r.Body = body
		defer body.drain(control, r)
		h.ServeHTTP(&early{ResponseWriter: w, body: body}, r)
	})
}

// ending is a body that knows whether it has been read to its end.
type ending struct {
	io.ReadCloser
	begun, ended bool
	broken       bool // nothing more can be read
}

func (b *ending) Read(p []byte) (int, error) {
	b.begun = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	b.broken = b.broken || err != nil
	return n, err
}

// drain reads the rest of the body for a while after the answer was sent.
func (b *ending) drain(control *http.ResponseController, r *http.Request) {
	if b.broken || !b.begun && r.Header.Get("Expect") != "" { // the client waits for a word before it sends anything
		return
	}
	if control.Flush() != nil {
		return
	}
	begun := time.Now()
	chunk := make([]byte, 32<<10)
	for read := 0; read < maxDrained; {
		late := min(patience+time.Duration(read)*time.Second/rate, 2*patience)
		if control.SetReadDeadline(begun.Add(late)) != nil {
			return
		}
		n, err := b.Read(chunk)
		if read += n; err != nil {
			return
		}
	}
}

// early is an answer that may come before the end of the body: then the connection is not used again.
type early struct {
	http.ResponseWriter
	body    *ending
	started bool
}

func (w *early) WriteHeader(status int) {
	if !w.started && status >= 200 && !w.body.ended {
		w.Header().Set("Connection", "close")
	}
	w.started = w.started || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *early) Write(b []byte) (int, error) {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *early) Unwrap() http.ResponseWriter { return w.ResponseWriter }
