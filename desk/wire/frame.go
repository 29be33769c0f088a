package wire

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/coder/websocket"
	jsonv2 "github.com/go-json-experiment/json"
	json "github.com/go-json-experiment/json/v1"
)

// Frames of more than minShared bytes share memory that is used again, of at most maxShared bytes each: it is freed by the garbage
// collector when it has not been used for a while.
const (
	minShared = 4 << 10
	maxShared = 8 << 20
)

var memory = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func free(b *bytes.Buffer) {
	if b != nil && b.Cap() <= maxShared {
		b.Reset()
		memory.Put(b)
	}
}

// Frame is a message of a stream.
type Frame struct {
	raw    []byte
	shared *bytes.Buffer // the memory of raw; nil: its own
}

// ReadFrame reads a message. Free gives its memory back.
func ReadFrame(ctx context.Context, conn *websocket.Conn) (kind websocket.MessageType, f Frame, err error) {
	kind, r, err := conn.Reader(ctx)
	if err != nil {
		return kind, f, err
	}
	b := memory.Get().(*bytes.Buffer)
	if _, err = b.ReadFrom(r); err != nil || b.Len() <= minShared {
		f.raw = slices.Clone(b.Bytes())
		free(b)
		return kind, f, err
	}
	return kind, Frame{raw: b.Bytes(), shared: b}, nil
}

// Len is the size of the message, in bytes.
func (f *Frame) Len() int { return len(f.raw) }

// Free gives the memory of the frame back, and so that of the body of its Request or Response.
func (f *Frame) Free() {
	free(f.shared)
	f.raw, f.shared = nil, nil
}

// Request reads the frame as a request, whose body shares its memory. The body has not been read: if it is not one JSON value
// (Whole), only Read tells what the frame is.
func (f *Frame) Request() (in Request, err error) {
	no, call, body, ok := f.cut(`,"call":"`, `","body":`)
	if !ok || slices.ContainsFunc(call, func(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
		err = f.Read(&in)
		return in, err
	}
	return Request{No: no, Call: string(call), Body: body}, nil
}

// Response reads the frame as a response, as Request does.
func (f *Frame) Response() (out Response, err error) {
	no, text, body, ok := f.cut(`,"status":`, `,"body":`)
	status, wrong := strconv.ParseUint(string(text), 10, 16)
	if !ok || wrong != nil {
		err = f.Read(&out)
		return out, err
	}
	return Response{No: no, Status: int(status), Body: body}, nil
}

// Read reads the whole frame.
func (f *Frame) Read(to any) error { return json.Unmarshal(f.raw, to) }

// cut takes a frame apart that is written as Encode writes it, without reading the body: reading it twice would cost more than
// all else about a large frame.
func (f *Frame) cut(middle, end string) (no int64, value, body []byte, ok bool) {
	head, rest, ok := bytes.Cut(f.raw, []byte(middle))
	digits, begins := bytes.CutPrefix(head, []byte(`{"no":`))
	number, err := strconv.ParseUint(string(digits[:min(len(digits), 20)]), 10, 63)
	value, body, found := bytes.Cut(rest, []byte(end))
	last := len(body) - 1
	if !ok || !begins || !found || err != nil || last < 1 || body[last] != '}' || len(head) > 40 {
		return 0, nil, nil, false
	}
	return int64(number), value, body[:last:last], true
}

// Whole reports whether the body of a request or a response is one JSON value. The frame has more members otherwise, or is not JSON.
func Whole(body []byte) bool { return stdjson.Valid(body) }

// Encoded is JSON in memory that Free gives back.
type Encoded struct{ b *bytes.Buffer }

// Encode writes a document.
func Encode(v any) (Encoded, error) {
	b := memory.Get().(*bytes.Buffer)
	if err := jsonv2.MarshalWrite(b, v, json.DefaultOptionsV1()); err != nil {
		free(b)
		return Encoded{}, err
	}
	return Encoded{b}, nil
}

// Bytes is the JSON, until Free.
func (e Encoded) Bytes() []byte { return e.b.Bytes() }

// Free gives its memory back.
func (e Encoded) Free() { free(e.b) }
