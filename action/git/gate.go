package git

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// gate is an HTTP proxy on loopback for one attempt. It connects to the addresses that the client permits, at the moment
// of each connection, so that no name server leads git elsewhere. Only who knows its password can use it.
type gate struct {
	client    *outbound.Client
	meter     *action.Meter
	server    *http.Server
	transport *http.Transport
	url       string // with the password
	password  string
	base      context.Context
	ended     context.CancelFunc

	mu  sync.Mutex
	err error // the last refusal
}

// openGate opens a proxy that ends with ctx at the latest.
func openGate(ctx context.Context, client *outbound.Client) (*gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "a port for git's connections", Err: err}
	}
	g := &gate{client: client, meter: action.MeterOf(ctx), password: rand.Text()}
	g.base, g.ended = context.WithCancel(ctx)
	g.url = "http://stepwell:" + g.password + "@" + listener.Addr().String()
	g.transport = &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: 256 << 10,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return g.dial(ctx, address) }}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 256 << 10, BaseContext: func(net.Listener) context.Context { return g.base }}
	go func() { _ = g.server.Serve(listener) }()
	return g, nil
}

func (g *gate) close() {
	g.ended()
	_ = g.server.Close()
	g.transport.CloseIdleConnections()
}

// refused is why the last connection could not be made, and forgets it.
func (g *gate) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.err
	g.err = nil
	return err
}

func (g *gate) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := g.client.Dial(ctx, address)
	if err != nil {
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
	}
	return conn, err
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("stepwell:"+g.password))
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(want)) != 1 {
		w.Header().Set("Proxy-Authenticate", `Basic realm="stepwell"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect:
		g.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		g.forward(w, r)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// tunnel connects git to a server, until one of them ends the connection.
func (g *gate) tunnel(w http.ResponseWriter, r *http.Request) {
	conn, err := g.dial(r.Context(), r.Host)
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	defer conn.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	own, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer own.Close()
	stop := context.AfterFunc(g.base, func() { own.Close(); conn.Close() })
	defer stop()
	if _, err := io.WriteString(own, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { g.meter.Traffic(0, copyAndEnd(conn, buffered)) })
	both.Go(func() { g.meter.Traffic(copyAndEnd(own, conn), 0) })
	both.Wait()
}

// copyAndEnd copies until the source ends, and tells the target so. It returns the number of bytes.
func copyAndEnd(to net.Conn, from io.Reader) int64 {
	n, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return n
	}
	_ = to.Close()
	return n
}

// forward passes on a request without TLS.
func (g *gate) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	sent := &counted{ReadCloser: r.Body}
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = sent
	}
	defer func() { g.meter.Traffic(0, sent.n.Load()) }()
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "Connection"} {
		out.Header.Del(name)
	}
	response, err := g.transport.RoundTrip(out)
	if err != nil {
		if f, ok := errors.AsType[*outbound.Failure](err); ok && f.Kind == outbound.KindBlocked {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		if name != "Connection" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(response.StatusCode)
	n, _ := io.Copy(w, response.Body) // an end that comes early is git's to notice
	g.meter.Traffic(n, 0)
}

// counted is a body whose bytes are counted as they are read.
type counted struct {
	io.ReadCloser
	n atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
