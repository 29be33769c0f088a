package live

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/feed"
)

// WebSocket serves the stream of an execution: one text message for each of the feed's messages, and a normal closure
// behind the complete one. When the server stops it closes with "going away"; the reason is then "since=" with the seq
// to resume from. Clients must not send: a client that sends a message, or floods the server with control frames, is
// closed; so is a client that does not read for Options.WriteTimeout, at once and without a reason, because nothing
// reaches it.
func WebSocket(h *feed.Hub, o Options) http.Handler {
	o = o.complete()
	return Frames(func(r *http.Request) (Source, error) {
		sub, err := o.subscribe(h, r, "")
		if err != nil {
			return nil, err
		}
		return &messages{sub}, nil
	}, websocket.MessageText, o)
}

// Source is what one client of a WebSocket gets.
type Source interface {
	// Next waits for more; what it has returned before has been written then. io.EOF: there is no more. CodeUnavailable: the server stops.
	Next(ctx context.Context) ([]Message, error)
	// Since is the place that a client that comes back gives as since, to go on behind what Next has returned.
	Since() string
	// Close may be called again.
	Close()
}

// Message is one message of a Source.
type Message struct {
	Body []byte
	// Deflated is Body as a message of permessage-deflate (RFC 7692) by itself, for clients that take it; nil: there is none.
	Deflated func() []byte
}

// messages is a subscription as a Source.
type messages struct{ *feed.Subscription }

func (m *messages) Next(ctx context.Context) ([]Message, error) {
	list, err := m.Subscription.Next(ctx)
	out := make([]Message, len(list))
	for i := range list {
		out[i].Body = list[i].Frame
	}
	return out, err
}

func (m *messages) Since() string { return m.Cursor().String() }

// Frames serves sources over WebSockets, with the closures and bounds of WebSocket: each of their frames is a message of a type.
func Frames(open func(*http.Request) (Source, error), kind websocket.MessageType, o Options) http.Handler {
	o = o.complete()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sub, err := open(r)
		if err != nil {
			o.Fail(w, r, err)
			return
		}
		defer sub.Close()
		up := &upgrade{ResponseWriter: w, timeout: o.WriteTimeout}
		accept := &websocket.AcceptOptions{OriginPatterns: o.Origins, CompressionMode: websocket.CompressionDisabled,
			Subprotocols: []string{access.Subprotocol}} // browsers give up unless an offered one is chosen
		if o.Deflate { // the library would compress each message for each client
			accept.CompressionMode, accept.CompressionThreshold = websocket.CompressionNoContextTakeover, math.MaxInt
		}
		c, err := websocket.Accept(up, r, accept)
		if err != nil {
			return // the client has been told
		}
		s := &socket{conn: c, wire: up.wire, sub: sub, kind: kind, deflates: w.Header().Get("Sec-WebSocket-Extensions") != "", o: &o}
		s.run(r.Context())
	})
}

// errTalks ends the stream of a client that sends a message.
var errTalks = errors.New("this stream takes no messages")

// socket is one client's connection.
type socket struct {
	conn *websocket.Conn
	wire *wire
	sub  Source
	kind websocket.MessageType
	// deflates reports whether the client takes Message.Deflated.
	deflates bool
	o        *Options
}

// run serves the client, listens to it meanwhile, and closes the connection.
func (s *socket) run(ctx context.Context) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		end(s.listen())
	}()
	code, reason := s.serve(ctx)
	s.sub.Close() // before a closure that the client may not answer
	if code != 0 {
		_ = s.conn.Close(code, reason) // nothing can be done about a client that is gone
	}
	_ = s.conn.CloseNow()
	<-listening
}

// listen answers pings and notices that the client goes away. It reads no message, only that there is one.
func (s *socket) listen() error {
	if _, _, err := s.conn.Reader(context.Background()); err != nil {
		return err
	}
	return errTalks
}

// serve sends until the stream ends, and returns the closing code, 0 when the connection is gone.
func (s *socket) serve(ctx context.Context) (code websocket.StatusCode, reason string) {
	for {
		frames, err := s.next(ctx)
		switch {
		case err == nil:
			if s.send(frames) != nil {
				return 0, ""
			}
		case errors.Is(err, io.EOF):
			return websocket.StatusNormalClosure, ""
		case errors.Is(context.Cause(ctx), errTalks):
			return websocket.StatusPolicyViolation, errTalks.Error()
		case ctx.Err() != nil:
			return 0, ""
		case errors.Is(err, context.DeadlineExceeded): // silence
			if s.ping(ctx) != nil {
				return 0, ""
			}
		case stepwell.CodeOf(err) == stepwell.CodeUnavailable:
			return websocket.StatusGoingAway, "since=" + s.sub.Since()
		case stepwell.CodeOf(err) == stepwell.CodeNotFound:
			return websocket.StatusGoingAway, "the execution has been removed"
		default:
			return websocket.StatusInternalError, "since=" + s.sub.Since()
		}
	}
}

func (s *socket) next(ctx context.Context) ([]Message, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Ping)
	defer cancel()
	return s.sub.Next(ctx)
}

func (s *socket) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.WriteTimeout)
	defer cancel()
	return s.conn.Ping(ctx)
}

// send writes messages, as few packets as they fit in. The wire has a deadline, so the context needs none.
func (s *socket) send(list []Message) error {
	s.wire.cork()
	for _, m := range list {
		var err error
		if s.deflates && m.Deflated != nil {
			err = s.wire.deflated(s.kind, m.Deflated())
		} else {
			err = s.conn.Write(context.Background(), s.kind, m.Body)
		}
		if err != nil {
			return errors.Join(err, s.wire.uncork())
		}
	}
	return s.wire.uncork()
}
