package fleet_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/fleet"
)

// fed is a routed member with a hub that others follow.
type fed struct {
	*routed
	*fleet.Feeds
	hub   *feed.Hub
	conns chan net.Conn // on which others follow
}

// upgraded notes the connection that a handler takes over.
type upgraded struct {
	http.ResponseWriter
	conns chan net.Conn
}

func (u upgraded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	u.conns <- c
	return c, rw, err
}

func feeds(t *testing.T, url string) *fed {
	t.Helper()
	f := &fed{routed: route(t, url, parts{}), conns: make(chan net.Conn, 100)}
	f.Feeds = fleet.NewFeeds(f.Router)
	var err error
	if f.hub, err = feed.New(feed.Options{Store: f.store, Peers: f.Feeds}); err != nil {
		t.Fatal(err)
	}
	f.Serve(f.hub)
	f.door.mu.Lock()
	f.door.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.Feeds.ServeHTTP(upgraded{w, f.conns}, r) })
	f.door.mu.Unlock()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- f.Feeds.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return f
}

// A node that is asked for the live stream of an execution hears of it from the node that runs it, whichever that is; after a cut
// connection it looks for itself first, and hears again. Nobody else is listened to.
func TestFeeds(t *testing.T) {
	url := database(t)
	here, there, other := feeds(t, url), feeds(t, url), feeds(t, url)
	const no = 77
	heard := make(chan feed.Notice, 10_000)
	stop := here.Feeds.Follow(no, func(n feed.Notice) { heard <- n })
	next := func(said func(), want func(feed.Notice) bool) {
		t.Helper()
		until(t, "the notice", func() bool {
			said() // again, because it may not have been followed yet
			for {
				select {
				case n := <-heard:
					if want(n) {
						return true
					}
				default:
					return false
				}
			}
		})
	}
	looks := func(n feed.Notice) bool { return n.Events && n.Lines }
	says := func(by *fed, note string) {
		t.Helper()
		next(func() { by.hub.Progress(no, 3, 0.5, note, nil) }, func(n feed.Notice) bool {
			return len(n.Steps) == 1 && n.Steps[0] == (feed.StepNotice{Step: 3, Fraction: 0.5, Note: note})
		})
	}
	next(func() {}, looks) // a link has been made
	says(there, "there")
	says(other, "other")
	if err := (<-there.conns).Close(); err != nil {
		t.Fatal(err)
	}
	next(func() {}, looks)
	says(there, "again")
	stop()
	until(t, "the end of following", func() bool {
		for len(heard) > 0 {
			<-heard
		}
		there.hub.Progress(no, 3, 0.5, "more", nil)
		time.Sleep(50 * time.Millisecond) // what is on its way arrives
		return len(heard) == 0
	})

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, there.server.URL+fleet.FeedPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Stepwell-Node", `{"to":1,"from":2,"at":3}`)
	req.Header.Set("Stepwell-Signature", "00")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger gets %s", res.Status)
	}
}
