package plugin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk"
)

const (
	maxConnections = 64  // that a process may have open; others wait
	maxPath        = 100 // bytes of a socket's name; the least of the systems' limits is 104
)

// door is where one process of a plugin reaches the desk: a socket, and a key that no other process has.
type door struct {
	path, key string
	caller    desk.Caller
	desk      http.Handler
	server    *http.Server
	end       context.CancelFunc // ends the calls that are being served
	serving   sync.WaitGroup
}

func openDoor(p *plugin, n int) (*door, error) {
	d := &door{path: filepath.Join(p.s.dir, p.name), key: "plugin_" + rand.Text()}
	d.caller = desk.Caller{ID: fmt.Sprintf("plugin:%s:%d", p.name, n), Secure: true, Name: p.name + "@" + p.s.o.Host, Prefix: p.name + ".", Concurrency: p.program.Concurrency}
	d.desk = p.s.o.Desk.Handler(func(*http.Request) desk.Caller { return d.caller })
	if err := os.Remove(d.path); err != nil && !errors.Is(err, os.ErrNotExist) { // of the process before
		return nil, err
	}
	if len(d.path) > maxPath {
		return nil, stepwell.Invalid("set TMPDIR to a folder with a shorter name", "the socket %s has a longer name than systems allow", d.path)
	}
	l, err := net.Listen("unix", d.path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(d.path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	base, end := context.WithCancel(context.Background())
	d.end = end
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return base }}
	d.serving.Go(func() { _ = d.server.Serve(netutil.LimitListener(l, maxConnections)) }) // it ends with close
	return d, nil
}

// close ends all connections, whoever has them.
func (d *door) close() {
	d.end()
	_ = d.server.Close() // nothing to be done about its sockets
	d.serving.Wait()
}

// ServeHTTP lets the process in, and nobody else.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+d.key)) != 1 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":"unauthenticated","message":"the key is not that of the plugin's process","hint":""}`) // whoever it is
		return
	}
	d.desk.ServeHTTP(w, r)
}
