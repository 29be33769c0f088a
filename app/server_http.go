package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
)

// Timeouts of clients.
const (
	headerPatience = 10 * time.Second
	idlePatience   = 2 * time.Minute
	maxHeader      = 64 << 10
	closePatience  = 5 * time.Second // for answers under way when the server stops
)

func listen(ctx context.Context, o *ServerOptions) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the address, which is said already
		}
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "cannot listen on " + o.Listen,
			Hint: "choose another: stepwell serve --listen " + otherAddress(o.Listen), Err: err}
	}
	proxies, err := access.NewProxies(o.Access.Proxies...)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l = newShare(netutil.LimitListener(l, o.MaxConnections), o.MaxConnections, proxies)
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	return l, nil
}

// otherAddress suggests another port of the machine, and how the commands find the server there.
func otherAddress(listen string) string {
	next := 8011
	if _, port, err := net.SplitHostPort(listen); err == nil {
		if n, err := strconv.Atoi(port); err == nil && 0 < n && n < 65535 {
			next = n + 1
		}
	}
	return fmt.Sprintf("127.0.0.1:%d, and export STEPWELL_SERVER=http://127.0.0.1:%[1]d", next)
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(httpLog{s.log}, "", 0)}
}

// httpLog receives the messages of net/http: mostly clients that disconnect.
type httpLog struct{ log *slog.Logger }

// Write implements io.Writer.
func (l httpLog) Write(text []byte) (int, error) {
	l.log.Debug("http", "message", string(text))
	return len(text), nil
}

// serveHTTP is the loop that answers requests, until the server is shut down.
func (s *Server) serveHTTP() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shutHTTP lets the answers under way come to their end, for a moment.
func (s *Server) shutHTTP() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("some clients were cut off", "error", s.http.Close())
	}
}

// hosts are the names under which others reach the server.
func (s *Server) hosts() (names []string) {
	if u, err := url.Parse(s.URL()); err == nil {
		names = append(names, u.Hostname())
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	return names
}

// URL is where others reach the server.
func (s *Server) URL() string { return s.withBase(s.root()) }

// root is the address without the base path.
func (s *Server) root() string {
	if s.o.BaseURL != "" {
		return s.o.BaseURL
	}
	scheme := "http"
	if s.o.TLS != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return scheme + "://" + s.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			host = "localhost"
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
